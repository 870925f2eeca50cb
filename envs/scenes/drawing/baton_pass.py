"""The image of Baton pass."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.baton_pass import BatonPass
from .canvas import Box, Canvas, Color, Vector, distance, square, start_canvas

_GROUND: Color = (190, 200, 222)
_TILE: Color = (205, 214, 232)
_TILES = 6
"""The number of tiles along a side of the ground; every other one is lighter."""
_RUNNER: Color = (58, 110, 226)
_SPENT: Color = (150, 166, 198)
_BATON: Color = (255, 204, 64)
_BALL: Color = (255, 122, 56)
_BUTTON: Color = (176, 120, 128)
_ARMED: Color = (70, 196, 106)
_GAP = 1.18
"""The distance from one ground's center to the next's, in edges of a ground."""
_FAR_AHEAD = 50.0
"""The distance in meters, in front of the image, of the point that runners without a target look at."""


def draw_baton_pass(size: tuple[int, int], world: BatonPass) -> NDArray[np.uint8]:
    """Every ground with its team, [height, width, 3].

    The carrier is blue and holds a yellow baton, those who have passed it on are gray, the button is green
    once the carrier has the ball.
    """
    areas, ground = world.areas, world.options.ground
    columns = -(-areas // int(np.sqrt(areas)))
    middles = [_GAP * ground * np.array([i % columns, 0, i // columns]) for i in range(areas)]
    edge = ground / 2 + world.options.body
    outlines = square(edge, -ground / 16), square(edge, 2 * world.options.body)
    shadow = square(ground * 0.53, -ground / 16)
    canvas, order = start_canvas(size, outlines, shadow, middles, yaw=12, pitch=46)
    for i in order:
        _draw_area(canvas, world, i, middles[i])
    return canvas.finish()


def _draw_area(canvas: Canvas, world: BatonPass, area: int, middle: Vector) -> None:
    options = world.options
    side, body = options.ground / 2 + options.body / 2, options.body
    thickness = options.ground / 50
    plate = _at(middle, -thickness)
    floor = Box(plate, np.eye(3), np.array([side, thickness, side]), _GROUND)
    canvas.box(floor)
    tile = side / _TILES
    for row in range(_TILES):
        for column in range(row % 2, _TILES, 2):
            offset = np.array([2 * column + 1 - _TILES, 0, 2 * row + 1 - _TILES]) * tile
            canvas.polygon(middle + offset + square(tile, 0), _TILE)
    armed = bool(world.loaded[area])
    button = _on(middle, world.button[area])
    reach = options.reach * 0.75
    canvas.box(
        Box(_at(button, 0.04), np.eye(3), np.array([reach, 0.04, reach]), _ARMED if armed else _BUTTON)
    )
    radius = options.reach * 0.42
    things: list[tuple[Vector, int | None]] = [
        (_on(middle, world.place[area, place]), place) for place in np.flatnonzero(world.alive[area]).tolist()
    ]
    if not armed:
        things.append((_on(middle, world.ball[area]), None))
    for where, place in sorted(things, key=lambda thing: -distance(canvas, thing[0])):
        if place is None:
            canvas.shadow_on(floor, _at(where, radius), radius)
            canvas.ball(_at(where, radius), radius, _BALL)
        else:
            target = button if armed else _on(middle, world.ball[area])
            _draw_runner(canvas, where, body, bool(world.carries[area, place]), armed, target, radius)


def _draw_runner(
    canvas: Canvas, where: Vector, body: float, carries: bool, loaded: bool, target: Vector, radius: float
) -> None:
    half = body / 2
    shadow = where + square(half * 1.25, 0.01) + np.array([half * 0.35, 0, half * 0.25])
    canvas.polygon(shadow, (38, 50, 78), alpha=50)
    runner = Box(_at(where, half), np.eye(3), np.full(3, half), _RUNNER if carries else _SPENT)
    canvas.box(runner)
    if not carries:
        canvas.eyes(runner, _at(where, 0) + np.array([0, -_FAR_AHEAD, -_FAR_AHEAD]))
        return
    canvas.eyes(runner, target)
    baton = np.array([half * 0.22, half * 0.9, half * 0.22])
    canvas.box(Box(_at(where, body + baton[1]), np.eye(3), baton, _BATON))
    if loaded:
        canvas.ball(_at(where, body + 2 * baton[1] + radius * 0.7), radius * 0.7, _BALL)


def _on(middle: Vector, place: NDArray[np.float32]) -> Vector:
    """A place [2] of an area in space."""
    point: Vector = middle + np.array([place[0], 0, place[1]], float)
    return point


def _at(point: Vector, height: float) -> Vector:
    moved: Vector = point + np.array([0, height, 0])
    return moved
