"""The image of the halls: boards with a symbol, goals with one each, and the agents between them."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.hallway import BOARD_HALF_DEPTH, HALF_BOX, Hall, Hallway
from .canvas import Box, Canvas, Color, Points, Vector, middles_of, rectangle, start_canvas, yaw

_GROUND: Color = (196, 205, 224)
_TILE: Color = (208, 216, 233)
_WALL: Color = (164, 176, 204)
_BODY: Color = (58, 110, 226)
_O: Color = (255, 146, 62)
_X: Color = (124, 92, 220)
_BOARD: Color = (238, 241, 248)
_CIRCLE = np.linspace(0, 2 * np.pi, 36, endpoint=False)
_BREADTH = 1.1
"""The width of all halls together, as a multiple of their depth."""
_LARGER = 0.045
"""Half the edge of a drawn agent as a share of the hall's width, where that is more than its own."""
_TILES = 5
"""Tiles across a hall."""
_SHADOW: Color = (38, 50, 78)


def draw_halls(size: tuple[int, int], world: Hallway) -> NDArray[np.uint8]:
    """Every hall, [height, width, 3]; a goal has the color of its symbol, agents are larger than life."""
    hall = world.hall
    wide, deep = 1.25 * hall.width, 1.15 * hall.length
    middles = middles_of(world.areas, wide, deep, _BREADTH)
    x, z = hall.half_width + 0.6, hall.half_length + 0.6
    low, high = (rectangle(-x, -z, x, z, y) for y in (-0.5, 2 * hall.board_half))
    canvas, order = start_canvas(size, (low, high), low * (1.06, 1, 1.02), middles, yaw=10, pitch=44)
    for k in order:
        _draw_hall(canvas, world, k, middles[k])
    return canvas.finish()


def _draw_hall(canvas: Canvas, world: Hallway, area: int, middle: Vector) -> None:
    hall = world.hall
    x, z = hall.half_width, hall.half_length
    canvas.box(Box(middle - np.array([0, 0.25, 0]), np.eye(3), np.array([x, 0.25, z]), _GROUND))
    _draw_tiles(canvas, hall, middle)
    far, near = _walls(canvas, hall, middle)
    for wall in far:
        canvas.box(wall)
    for is_x, side in ((False, world.o_side[area]), (True, -world.o_side[area])):
        _draw_goal(canvas, hall, middle, float(side), is_x)
    walkers = world.dynamics
    board = middle + np.array([walkers.board[0, area], 0, walkers.board[1, area]])
    place = middle + np.array([walkers.position[0, area], 0, walkers.position[1, area]])
    heading, half = float(walkers.heading[area]), max(HALF_BOX, _LARGER * hall.width)
    # Agents in front of the board, as seen by the camera, are drawn after it.
    if place[2] > board[2]:
        _draw_agent(canvas, place, heading, half)
    _draw_board(canvas, board, hall.board_half, BOARD_HALF_DEPTH, bool(world.is_x[area]))
    if place[2] <= board[2]:
        _draw_agent(canvas, place, heading, half)
    for wall in near:
        canvas.box(wall)


def _draw_tiles(canvas: Canvas, hall: Hall, middle: Vector) -> None:
    edge = 2 * hall.half_width / _TILES
    rows = max(1, round(2 * hall.half_length / edge))
    deep = 2 * hall.half_length / rows
    for i in range(_TILES):
        for j in range(rows):
            if (i + j) % 2:
                x, z = i * edge - hall.half_width, j * deep - hall.half_length
                canvas.polygon(middle + rectangle(x, z, x + edge, z + deep, 0), _TILE)


def _walls(canvas: Canvas, hall: Hall, middle: Vector) -> tuple[list[Box], list[Box]]:
    """The walls beyond and in front of the hall's contents; the latter are low, so that they hide nothing."""
    x, z, thick = hall.half_width, hall.half_length, 0.25
    far: list[Box] = []
    near: list[Box] = []
    for place, half in (
        ((0, z + thick), (x + 2 * thick, thick)),
        ((x + thick, 0), (thick, z)),
        ((-x - thick, 0), (thick, z)),
        ((0, -z - thick), (x + 2 * thick, thick)),
    ):
        away = float(np.array([place[0], 0, place[1]]) @ (canvas.camera.position - middle)) < 0
        height = hall.board_half * 0.4 if away else 0.12
        center = middle + np.array([place[0], height - 0.1, place[1]])
        (far if away else near).append(Box(center, np.eye(3), np.array([half[0], height, half[1]]), _WALL))
    return far, near


def _draw_goal(canvas: Canvas, hall: Hall, middle: Vector, side: float, is_x: bool) -> None:
    """A plate on the ground, and a board beyond it."""
    goal_x, goal_z = hall.goal
    foot = middle + np.array([side * goal_x, 0, goal_z])
    half = np.array([hall.goal_half, 0.05, hall.goal_half])
    canvas.box(Box(foot + np.array([0, 0.05, 0]), np.eye(3), half, _X if is_x else _O))
    board = foot + np.array([0, 0, hall.half_length - goal_z - 0.3])
    _draw_board(canvas, board, hall.board_half, 0.25, is_x)


def _draw_board(canvas: Canvas, foot: Vector, half: float, depth: float, is_x: bool) -> None:
    """An upright board with a symbol on the side from which agents come."""
    canvas.polygon(foot + rectangle(-half, -depth, half, depth, 0.02) * (1.15, 1, 2.2), _SHADOW, alpha=46)
    board = Box(foot + np.array([0, half, 0]), np.eye(3), np.array([half, half, depth]), _BOARD)
    canvas.box(board)
    outlines, color = (_cross(), _X) if is_x else (_ring(), _O)
    for outline, paint in zip(outlines, (color, _BOARD) if not is_x else (color, color)):
        flat = np.stack([outline[0], outline[1], np.full(outline.shape[1], -1.0)], axis=1)
        canvas.polygon(board.center + flat * np.array([half, half, depth]), paint)


def _draw_agent(canvas: Canvas, foot: Vector, heading: float, half: float) -> None:
    turned = yaw(heading - np.pi)
    reach = 1.25 * half
    shadow = rectangle(-reach, -reach, reach, reach, 0.02) @ turned.T
    canvas.polygon(foot + shadow, _SHADOW, alpha=60)
    body = Box(foot + np.array([0, half, 0]), turned, np.full(3, half), _BODY)
    canvas.box(body)
    canvas.eyes(body, body.center + 5 * np.array([np.sin(heading), 0, np.cos(heading)]))


def _ring() -> list[Points]:
    """Its outer and its inner edge, [2, n], within a square of half edge 1."""
    circle = np.stack([np.cos(_CIRCLE), np.sin(_CIRCLE)])
    return [0.72 * circle, 0.42 * circle]


def _cross() -> list[Points]:
    """Both of its bars."""
    bar = np.array([[-0.82, 0.82, 0.82, -0.82], [-0.16, -0.16, 0.16, 0.16]])
    turns = [np.array([[1, -sign], [sign, 1]]) / np.sqrt(2) for sign in (1, -1)]
    return [turn @ bar for turn in turns]
