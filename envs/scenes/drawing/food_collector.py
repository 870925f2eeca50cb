"""The image of FoodCollector: green and red food, and agents, some of which shoot or are frozen."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.food_collector import FOOD_RADIUS, LASER_LENGTH, Food
from .canvas import (
    Box,
    Canvas,
    Color,
    Points,
    Vector,
    checkered,
    distance,
    rows_of,
    square,
    start_canvas,
    yaw,
)

_AGENT: Color = (58, 110, 226)
_FROZEN: Color = (168, 190, 214)
_LASER: Color = (240, 74, 90)
_GROUND: Color = (196, 205, 224)
_TILE: Color = (208, 216, 233)
_WALL: Color = (164, 176, 204)
_GOOD: Color = (92, 196, 96)
_BAD: Color = (220, 62, 66)
_TILES = 10


def draw_food(size: tuple[int, int], world: Food) -> NDArray[np.uint8]:
    """Every field with its agents and foods, [height, width, 3]; on large fields both are drawn larger."""
    count, half = world.areas, world.dynamics.half
    middles = rows_of(count, 2.3 * half)
    outlines = square(half, -half / 20), square(half, half / 12)
    canvas, order = start_canvas(size, outlines, square(half * 1.05, -half / 20), middles, yaw=14, pitch=50)
    for k in order:
        _draw_field(canvas, world, k, middles[k])
    return canvas.finish()


def _draw_field(canvas: Canvas, world: Food, k: int, middle: Vector) -> None:
    half, field = world.dynamics.half, world.dynamics
    checkered(canvas, middle, half, half / 40, _TILES, _GROUND, _TILE)
    _draw_far_walls(canvas, middle, half)
    larger = max(1.0, half / 20)
    things: list[tuple[Vector, int | None, Color]] = []
    for f, (x, z) in enumerate(field.food[:, k].T):
        color = _GOOD if f < world.options.good_food else _BAD
        things.append((middle + np.array([x, FOOD_RADIUS * larger, z]), None, color))
    for m, (x, z) in enumerate(field.position[:, k].T):
        body = field.radius[k, m] * larger
        color = _FROZEN if world.frozen[k, m] else _AGENT
        things.append((middle + np.array([x, body, z]), m, color))
    for place, _, _ in things:
        canvas.polygon(place * (1, 0, 1) + square(FOOD_RADIUS * larger, 0), (38, 50, 78), alpha=36)
    for shooter in np.flatnonzero(world.shooting[k]):
        _draw_laser(canvas, middle, field.position[:, k, shooter], world.heading[k, shooter], half)
    for place, agent, color in sorted(things, key=lambda thing: -distance(canvas, thing[0])):
        if agent is None:
            canvas.ball(place, FOOD_RADIUS * larger, color)
            continue
        heading = world.heading[k, agent]
        # The face is on the box's -z side.
        body = field.radius[k, agent] * larger
        box = Box(place, yaw(heading + np.pi), np.full(3, body), color)
        canvas.box(box)
        canvas.eyes(box, place + 9 * np.array([np.sin(heading), 0, np.cos(heading)]))


def _draw_far_walls(canvas: Canvas, middle: Vector, half: float) -> None:
    """The walls beyond the field, which hide nothing of it."""
    wall = half / 50
    for x, z in ((0, half + wall), (half + wall, 0), (-half - wall, 0)):
        reach = (half + 2 * wall, wall) if x == 0 else (wall, half)
        if float(np.array([x, 0, z]) @ (canvas.camera.position - middle)) < 0:
            center = middle + np.array([x, half / 25, z])
            canvas.box(Box(center, np.eye(3), np.array([reach[0], half / 25, reach[1]]), _WALL))


def _draw_laser(canvas: Canvas, middle: Vector, place: Points, heading: float, half: float) -> None:
    """A beam as long as a shot, cut at the walls."""
    way = np.array([np.sin(heading), np.cos(heading)])
    room = (np.copysign(half, way) - place) / np.where(way == 0, 1e-9, way)
    end = place + way * min(LASER_LENGTH, float(room.min()))
    side = np.array([way[1], -way[0]]) * half / 150
    flat = np.array([place - side, place + side, end + side, end - side])
    corners = np.column_stack([flat[:, 0], np.full(4, half / 50), flat[:, 1]])
    canvas.polygon(middle + corners, _LASER, alpha=150)
