"""The image of the grids: boards with agents, plus signs and crosses."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.grid_world import AGENT, EX, PLUS, GridWorld
from .canvas import Box, Canvas, Color, Points, Vector, distance, rows_of, square

_TILES: tuple[Color, Color] = ((208, 216, 233), (192, 202, 222))
_WALL: Color = (164, 176, 204)
_BODY: Color = (58, 110, 226)
_PLUS: Color = (76, 184, 92)
_EX: Color = (226, 74, 66)
_HEIGHT = 0.16
"""Half of that of a wall."""


def draw_grids(size: tuple[int, int], world: GridWorld) -> NDArray[np.uint8]:
    """Every grid, [height, width, 3]. An agent stands on the color of the goal that it wants."""
    most = int(world.cells.max())
    middles = rows_of(world.areas, most + 1.6)
    half = most / 2 + 0.35
    corners = np.concatenate([middle + square(half, y) for middle in middles for y in (-0.2, 0.9)])
    canvas = Canvas(size, corners, yaw=14, pitch=46, margin=0.03)
    canvas.shadows(
        [middle + square(half * 1.06, -0.2) for middle in middles], strength=0.3, softness=size[0] / 100
    )
    for k in sorted(range(world.areas), key=lambda k: -distance(canvas, middles[k])):
        _draw_grid(canvas, world, k, middles[k])
    return canvas.finish()


def _draw_grid(canvas: Canvas, world: GridWorld, area: int, middle: Vector) -> None:
    cells = int(world.cells[area])
    first = middle - np.array([(cells - 1) / 2, 0, (cells - 1) / 2])
    edge = cells / 2
    canvas.box(Box(middle - np.array([0, 0.1, 0]), np.eye(3), np.array([edge, 0.1, edge]), _TILES[0]))
    for x in range(cells):
        for z in range(cells):
            if (x + z) % 2:
                canvas.polygon(first + np.array([x, 0, z]) + square(0.5, 0), _TILES[1])
    # What is in front of the things on the grid is drawn after them.
    far, near = _walls(canvas, middle, edge)
    for wall in far:
        canvas.box(wall)
    kinds, places = world.kinds[area], world.places[area]
    order = np.argsort(-places[:, 1] * cells - np.abs(places[:, 0] - cells))
    for thing in order:
        foot = first + np.array([places[thing, 0], 0, places[thing, 1]])
        if kinds[thing] == PLUS:
            _cross(canvas, foot, 0.0, _PLUS)
        elif kinds[thing] == EX:
            _cross(canvas, foot, np.pi / 4, _EX)
        elif kinds[thing] == AGENT:
            _agent(canvas, foot, _EX if world.wanted[area] else _PLUS)
    for wall in near:
        canvas.box(wall)


def _walls(canvas: Canvas, middle: Vector, edge: float) -> tuple[list[Box], list[Box]]:
    """The walls beyond and in front of what is on the grid."""
    far: list[Box] = []
    near: list[Box] = []
    for x, z in ((0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, -1.0)):
        side = np.array([x, 0, z])
        away = float(side @ (canvas.camera.position - middle)) < 0
        half = np.array([edge + 0.2, _HEIGHT, 0.1]) if x == 0 else np.array([0.1, _HEIGHT, edge])
        wall = Box(middle + side * (edge + 0.1) + np.array([0, _HEIGHT - 0.1, 0]), np.eye(3), half, _WALL)
        (far if away else near).append(wall)
    return far, near


def _cross(canvas: Canvas, foot: Vector, angle: float, color: Color) -> None:
    """A plus sign that lies on its cell, turned by an angle."""
    turned = _yaw(angle)
    arms = np.array(_OUTLINE) @ turned.T
    canvas.polygon(foot + arms * 1.06 + np.array([0.03, 0.004, -0.05]), (38, 50, 78), alpha=60)
    for k in range(len(arms)):
        start, end = arms[k], arms[(k + 1) % len(arms)]
        side = np.array([start, end, end + _THICK, start + _THICK])
        outward = np.cross((0, 1, 0), end - start)
        if outward @ (canvas.camera.position - foot - start) > 0:
            canvas.polygon(foot + side, _shade(color, 0.72))
    canvas.polygon(foot + arms + _THICK, color)


def _agent(canvas: Canvas, foot: Vector, wanted: Color) -> None:
    """A cube with a foot in the color of the goal that it wants; it looks at the camera."""
    canvas.polygon(foot + square(0.5, 0.003), (38, 50, 78), alpha=46)
    canvas.box(Box(foot + np.array([0, 0.07, 0]), np.eye(3), np.array([0.4, 0.07, 0.4]), wanted))
    body = Box(foot + np.array([0, 0.45, 0]), np.eye(3), np.array([0.36, 0.31, 0.36]), _BODY)
    canvas.box(body)
    canvas.eyes(body, body.center + np.array([0, 0, -4]))


def _yaw(angle: float) -> Points:
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, 0, -sine], [0, 1, 0], [sine, 0, cosine]])


def _shade(color: Color, light: float) -> Color:
    red, green, blue = (int(part * light) for part in color)
    return (red, green, blue)


_THICK = np.array([0, 0.14, 0])
_LONG, _THIN = 0.4, 0.13
_OUTLINE = [
    (x, 0.0, z)
    for x, z in (
        (-_THIN, -_LONG),
        (_THIN, -_LONG),
        (_THIN, -_THIN),
        (_LONG, -_THIN),
        (_LONG, _THIN),
        (_THIN, _THIN),
        (_THIN, _LONG),
        (-_THIN, _LONG),
        (-_THIN, _THIN),
        (-_LONG, _THIN),
        (-_LONG, -_THIN),
        (-_THIN, -_THIN),
    )
]
"""Around a plus sign, seen from above."""
