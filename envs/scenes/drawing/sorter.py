"""The image of Sorter: round rooms with numbered tiles along the wall."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.sorter import TILE_DEPTH, Sorter
from .canvas import Box, Canvas, Color, Points, Vector, distance, rows_of, start_canvas, yaw

_AGENT: Color = (58, 110, 226)
_FLOOR: Color = (196, 205, 224)
_RING: Color = (208, 216, 233)
_EDGE: Color = (164, 176, 204)
_TILE: Color = (255, 178, 74)
_VISITED: Color = (92, 196, 96)
_DIGITS: Color = (52, 44, 40)
_CORNERS = np.linspace(0, 2 * np.pi, 72, endpoint=False)
_GAP = 1.12
"""The distance from one room's center to the next's, in diameters of a room."""

# The strokes of digits on a seven-segment display and of the 1, in a box from 0 to 1 (right) and 0 to 1 (up).
_ENDS = {
    "a": ((0, 1), (1, 1)),
    "b": ((1, 1), (1, 0.5)),
    "c": ((1, 0.5), (1, 0)),
    "d": ((1, 0), (0, 0)),
    "e": ((0, 0), (0, 0.5)),
    "f": ((0, 0.5), (0, 1)),
    "g": ((0, 0.5), (1, 0.5)),
    "i": ((0.5, 0), (0.5, 1)),
}
_STROKES = ("abcdef", "i", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcfgd")


def draw_sorter(size: tuple[int, int], world: Sorter) -> NDArray[np.uint8]:
    """Every room with its agent and tiles, [height, width, 3]; tiles that were visited are green."""
    count = world.areas
    reach = world.options.radius + TILE_DEPTH
    middles = rows_of(count, 2 * _GAP * reach)
    outlines = _circle(reach, -reach / 20), _circle(reach, world.options.tile_width * 1.2)
    canvas, order = start_canvas(
        size, outlines, _circle(reach * 1.05, -reach / 20), middles, yaw=14, pitch=48
    )
    for k in order:
        _draw_room(canvas, world, k, middles[k], reach)
    return canvas.finish()


def _draw_room(canvas: Canvas, world: Sorter, k: int, middle: Vector, reach: float) -> None:
    canvas.polygon(middle + _circle(reach, -reach / 24), _EDGE)
    for share, color in ((1.0, _FLOOR), (0.66, _RING), (0.33, _FLOOR)):
        canvas.polygon(middle + _circle(reach * share, 0), color)
    half = np.array([world.options.tile_width / 2, world.options.tile_width * 0.6, TILE_DEPTH / 2])
    things: list[tuple[Box, int, bool]] = []
    spots = world.dynamics.tiles()
    for number, place in zip(world.numbers[k], world.places[k]):
        if number:
            visited = len(things) < world.visited[k]
            turned = yaw(world.dynamics.tile_angle[place])
            x, z = spots[:, place]
            center = middle + np.array([x, half[1], z])
            things.append((Box(center, turned, half, _VISITED if visited else _TILE), int(number), visited))
    body = world.options.radius / 24 + 0.3
    x, z = world.dynamics.position[:, k]
    heading = world.heading[k]
    # The face is on the box's -z side.
    box = Box(middle + np.array([x, body, z]), yaw(heading + np.pi), np.full(3, body), _AGENT)
    looks = box.center + 9 * np.array([np.sin(heading), 0, np.cos(heading)])
    _shade(canvas, box)
    for tile, _, _ in things:
        _shade(canvas, tile)
    drawn = [*things, (box, 0, False)]
    for thing, number, _ in sorted(drawn, key=lambda thing: -distance(canvas, thing[0].center)):
        canvas.box(thing)
        if number:
            _write(canvas, thing, number)
        else:
            canvas.eyes(thing, looks)


def _write(canvas: Canvas, tile: Box, number: int) -> None:
    """Draw the number on the one of the tile's two broad faces that is seen."""
    side = -1 if canvas.sees(tile, 2, -1) else 1
    digits = [int(digit) for digit in str(number)]
    width, height, gap = tile.half[0] * 0.5, tile.half[1] * 1.2, tile.half[0] * 0.36
    whole = len(digits) * width + (len(digits) - 1) * gap
    for place, digit in enumerate(digits):
        left = place * (width + gap) - whole / 2
        for stroke in _STROKES[digit]:
            ends = np.array(_ENDS[stroke], float) * (width, height) + (left, -height / 2)
            _stroke(canvas, tile, ends, side, tile.half[0] * 0.085)


def _stroke(canvas: Canvas, tile: Box, ends: Points, side: int, half: float) -> None:
    """Draw a stroke [2, 2] between two points of a face, as wide as twice `half`."""
    low, high = ends.min(axis=0) - half, ends.max(axis=0) + half
    flat = np.array([low, (high[0], low[1]), high, (low[0], high[1])])
    # Seen from outside, a face's right is the box's +x on the -z side, and its -x on the other.
    corners = np.column_stack([-side * flat[:, 0], flat[:, 1], np.full(4, side * tile.half[2])])
    canvas.polygon(tile.place(corners), _DIGITS)


def _shade(canvas: Canvas, box: Box) -> None:
    foot = np.array([(-1, -1, -1), (1, -1, -1), (1, -1, 1), (-1, -1, 1)]) * box.half * (1.15, 1, 1.15)
    canvas.polygon(box.place(foot), (38, 50, 78), alpha=46)


def _circle(radius: float, height: float) -> Points:
    return np.stack(
        [radius * np.sin(_CORNERS), np.full(len(_CORNERS), height), radius * np.cos(_CORNERS)], axis=1
    )
