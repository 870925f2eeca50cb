"""The image of Tennis: courts with a net, two rackets and a ball."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.tennis import BACKCOURT, BALL_RADIUS, HIGHEST, Tennis
from .canvas import SHADOW, Box, Canvas, Color, Points, Vector, middles_of, rectangle, start_canvas

_TEAMS: tuple[Color, Color] = ((58, 110, 226), (150, 84, 214))
_GROUND: Color = (196, 205, 224)
_COURT: Color = (112, 182, 178)
_LINE: Color = (240, 246, 246)
_NET: Color = (236, 240, 248)
_BALL: Color = (220, 232, 62)
_DEEP = 1.6
"""Half of what is drawn of a court's depth, in which nothing moves."""


def draw_tennis(size: tuple[int, int], world: Tennis) -> NDArray[np.uint8]:
    """Every court, [height, width, 3]: player 0 is blue and on the left."""
    x = world.options.length / 2 + BACKCOURT
    middles = middles_of(world.areas, 2.2 * x, 2 * _DEEP + HIGHEST + 2, breadth=1.0)
    low, high = (rectangle(-x, -_DEEP, x, _DEEP, y) for y in (-0.3, HIGHEST))
    canvas, order = start_canvas(size, (low, high), low * (1.03, 1, 1.1), middles, 6, 24, margin=0.04)
    for k in order:
        _draw_court(canvas, world, middles[k])
        _draw_play(canvas, world, k, middles[k])
    return canvas.finish()


def _draw_court(canvas: Canvas, world: Tennis, middle: Vector) -> None:
    half, x = world.options.length / 2, world.options.length / 2 + BACKCOURT
    canvas.box(Box(middle - np.array([0, 0.15, 0]), np.eye(3), np.array([x, 0.15, _DEEP]), _GROUND))
    deep, line = _DEEP * 0.86, 0.07
    canvas.polygon(middle + rectangle(-half, -deep, half, deep), _COURT)
    for low, near, high, far in (
        (-half, -deep, half, -deep + line),
        (-half, deep - line, half, deep),
        (-half, -deep, -half + line, deep),
        (half - line, -deep, half, deep),
    ):
        canvas.polygon(middle + rectangle(low, near, high, far), _LINE)


def _draw_play(canvas: Canvas, world: Tennis, k: int, middle: Vector) -> None:
    rally, net = world.dynamics, world.options.net
    ball = middle + np.array([rally.ball[0, k], rally.ball[1, k], 0])
    shadow = BALL_RADIUS * np.stack([np.cos(_TURN), np.zeros(len(_TURN)), np.sin(_TURN)], axis=1)
    canvas.polygon(ball * (1, 0, 1) + 1.6 * shadow, SHADOW, alpha=90)
    rackets = [_racket(world, k, player, middle) for player in range(2)]
    for racket in rackets:
        reach = np.abs(racket.rotation[0]) @ racket.half
        spread = rectangle(-reach, -racket.half[2], reach, racket.half[2])
        canvas.polygon(racket.center * (1, 0, 1) + spread, SHADOW, alpha=60)
    mesh = Box(middle + np.array([0, net / 2, 0]), np.eye(3), np.array([0.05, net / 2, _DEEP * 0.95]), _NET)
    canvas.box(mesh)
    for racket in rackets:
        canvas.box(racket)
    canvas.ball(ball, BALL_RADIUS * 1.3, _BALL)


def _racket(world: Tennis, k: int, player: int, middle: Vector) -> Box:
    rally = world.dynamics
    x, y = rally.racket[:, player, k]
    tilt = float(rally.tilt[player, k])
    # The face of a racket, its own x axis, looks towards the net and up.
    facing = 1.0 if player == 0 else -1.0
    face = np.array([np.cos(tilt) * facing, np.sin(tilt), 0])
    turned: Points = np.stack([face, [-face[1], face[0], 0], [0, 0, 1]], axis=1)
    half = np.array([0.08, world.options.racket / 2, 0.4])
    return Box(middle + np.array([x, y, 0]), turned, half, _TEAMS[player])


_TURN = np.linspace(0, 2 * np.pi, 24, endpoint=False)
