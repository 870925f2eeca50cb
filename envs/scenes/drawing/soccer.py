"""The image of SoccerTwos: pitches with goals, two teams and a ball."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..worlds.soccer import SoccerTwos
from ..worlds.soccer_dynamics import BALL, BALL_RADIUS, PLAYER_RADIUS, PLAYERS
from .canvas import (
    Box,
    Canvas,
    Color,
    Points,
    Vector,
    agent,
    ball,
    distance,
    draw_figures,
    middles_of,
    rectangle,
    start_canvas,
    yaw,
)

_TEAMS: tuple[Color, Color] = ((58, 110, 226), (150, 84, 214))
_GRASS: Color = (126, 196, 136)
_STRIPE: Color = (138, 204, 147)
_WALL: Color = (164, 176, 204)
_LINE: Color = (236, 246, 238)
_BALL: Color = (250, 250, 252)
_STRIPES = 8
_CIRCLE = np.linspace(0, 2 * np.pi, 48)
_GOAL_DEPTH = 0.05
"""The depth of a drawn goal as a share of the pitch's length."""


def draw_soccer(size: tuple[int, int], world: SoccerTwos) -> NDArray[np.uint8]:
    """Every pitch, [height, width, 3]: team 0 is blue and defends the left goal."""
    x, z = world.pitch.length / 2, world.pitch.width / 2
    wide = x * (1 + 2 * _GOAL_DEPTH)
    middles = middles_of(world.areas, 2.25 * wide, 2.5 * z, breadth=1.0)
    outlines = rectangle(-wide, -z, wide, z, -0.4), rectangle(-wide, -z, wide, z, 1.2)
    canvas, order = start_canvas(size, outlines, _ground(world, 1.06, -0.4), middles, 8, 46, margin=0.04)
    for k in order:
        _draw_pitch(canvas, world, middles[k])
        figures = []
        for player in range(PLAYERS):
            place = world.dynamics.position[:, k, player]
            color = _TEAMS[player * 2 // PLAYERS]
            at = middles[k] + np.array([place[0], 0, place[1]])
            figures.append(agent(at, float(world.heading[k, player]), PLAYER_RADIUS, color))
        place = world.dynamics.position[:, k, BALL]
        figures.append(ball(middles[k] + np.array([place[0], 0, place[1]]), BALL_RADIUS, _BALL))
        draw_figures(canvas, figures)
        _draw_walls(canvas, world, middles[k], far=False)
    return canvas.finish()


def _ground(world: SoccerTwos, share: float, height: float) -> Points:
    x, z = world.pitch.corners * share
    return np.stack([x, np.full(len(x), height), z], axis=1)


def _draw_pitch(canvas: Canvas, world: SoccerTwos, middle: Vector) -> None:
    pitch = world.pitch
    x, z, post = pitch.length / 2, pitch.width / 2, pitch.goal / 2
    deep = _GOAL_DEPTH * pitch.length
    for side, color in zip((-1, 1), _TEAMS):
        floor = rectangle(min(side * x, side * (x + deep)), -post, max(side * x, side * (x + deep)), post)
        canvas.polygon(middle + floor, color)
    _draw_walls(canvas, world, middle, far=True)
    canvas.polygon(middle + _ground(world, 1.0, 0.0), _GRASS)
    bend = pitch.corners[0, 2]
    for stripe in range(0, _STRIPES, 2):
        low = -bend + 2 * bend * stripe / _STRIPES
        canvas.polygon(middle + rectangle(low, -z, low + 2 * bend / _STRIPES, z), _STRIPE)
    line = 0.006 * pitch.length
    canvas.polygon(middle + rectangle(-line / 2, -z, line / 2, z), _LINE)
    ring = np.stack([np.cos(_CIRCLE), np.zeros(len(_CIRCLE)), np.sin(_CIRCLE)], axis=1)
    outer, inner = 0.26 * z, 0.26 * z - line
    for first, second in pairwise(ring):
        edge = np.stack([outer * first, outer * second, inner * second, inner * first])
        canvas.polygon(middle + edge, _LINE)
    for side in (-1, 1):
        canvas.polygon(middle + rectangle(side * x - line / 2, -post, side * x + line / 2, post), _LINE)


def _draw_walls(canvas: Canvas, world: SoccerTwos, middle: Vector, far: bool) -> None:
    """Draw walls along the sides, at corners and around goals, the nearer ones low, not to hide the pitch."""
    pitch = world.pitch
    deep, post, x = _GOAL_DEPTH * pitch.length, pitch.goal / 2, pitch.length / 2
    corners = pitch.corners.T
    edges = [(corners[k], corners[(k + 1) % 8]) for k in (1, 2, 3, 5, 6, 7)]
    for side in (-1, 1):
        back = side * (x + deep)
        edges.append((np.array([back, -post]), np.array([back, post])))
        edges += [(np.array([side * x, z]), np.array([back, z])) for z in (-post, post)]
    boxes = []
    for first, second in edges:
        outward = (first + second) / 2
        away = float(np.array([outward[0], 0, outward[1]]) @ (canvas.camera.position - middle)) < 0
        if away == far:
            boxes.append(_wall(middle, first, second, 0.4 if away else 0.08))
    for box in sorted(boxes, key=lambda box: -distance(canvas, box.center)):
        canvas.box(box)


def _wall(middle: Vector, first: Points, second: Points, height: float) -> Box:
    along = second - first
    long = float(np.hypot(along[0], along[1]))
    center = (first + second) / 2
    turned = yaw(float(np.arctan2(along[0], along[1])))
    at = middle + np.array([center[0], height, center[1]])
    return Box(at, turned, np.array([0.1, height, long / 2 + 0.1]), _WALL)
