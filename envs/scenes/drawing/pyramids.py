"""The image of Pyramids: rooms, pyramids of stone, the switch, and the pyramid with the gold brick."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.pyramids import BRICK, Pyramids
from .canvas import (
    Box,
    Canvas,
    Color,
    Figure,
    Vector,
    agent,
    draw_figures,
    middles_of,
    rectangle,
    square,
    start_canvas,
)

_GROUND: Color = (196, 205, 224)
_TILE: Color = (208, 216, 233)
_WALL: Color = (164, 176, 204)
_STONE: Color = (128, 138, 164)
_BRICKS: Color = (214, 128, 84)
_GOLD: Color = (255, 204, 64)
_OFF: Color = (220, 62, 66)
_ON: Color = (92, 196, 96)
_AGENT: Color = (58, 110, 226)
_STEPS = 3
"""The number of steps of a drawn pyramid."""
_LARGER = 0.021
"""Half the edge of a drawn agent as a share of all rooms, where that is more than its own."""


def draw_pyramids(size: tuple[int, int], world: Pyramids) -> NDArray[np.uint8]:
    """Every area, [height, width, 3]: the switch is red until it is pressed; agents are larger than life."""
    half = world.rooms.half
    middles = middles_of(world.areas, 2.3 * half, 2.3 * half)
    outlines = square(half * 1.02, -half / 30), square(half * 1.02, half / 8)
    canvas, order = start_canvas(size, outlines, square(half * 1.06, -half / 30), middles, yaw=12, pitch=54)
    for k in order:
        _draw_area(canvas, world, k, middles[k])
    return canvas.finish()


def _draw_area(canvas: Canvas, world: Pyramids, k: int, middle: Vector) -> None:
    half, options = world.rooms.half, world.options
    thin = half / 60
    canvas.box(Box(middle - np.array([0, thin, 0]), np.eye(3), np.array([half, thin, half]), _GROUND))
    for number, (x, z) in enumerate(world.rooms.middles.T):
        if (number + number // options.rooms * (options.rooms + 1)) % 2:
            reach = options.room / 2
            canvas.polygon(middle + rectangle(x - reach, z - reach, x + reach, z + reach), _TILE)
    # Low, so that they hide nothing.
    tall = half / 40
    boxes = world.boxes[:, k]
    figures = [
        Figure(Box(middle + np.array([x, tall, z]), np.eye(3), np.array([wide, tall, deep]), _WALL))
        for x, z, wide, deep in world.walls[:, 4:].T
    ]
    scale = max(1.0, _LARGER * half / 0.5)
    for x, z, wide, _ in boxes[:, world.stones].T:
        figures += _pyramid(middle + np.array([x, 0, z]), wide * scale, _STONE)
    figures += _things(world, k, middle, scale)
    place = middle + np.array([world.dynamics.position[0, k], 0, world.dynamics.position[1, k]])
    figures.append(agent(place, float(world.dynamics.heading[k]), 0.5 * scale, _AGENT))
    draw_figures(canvas, figures)


def _things(world: Pyramids, k: int, middle: Vector, scale: float) -> list[Figure]:
    """The figures of the switch, and of what pressing it has brought."""
    switch, pyramid, gold = (world.boxes[:, k, n] for n in (world.switch, world.pyramid, world.gold))
    tall = 1.4 * switch[2]
    foot = middle + np.array([switch[0], 0, switch[1]])
    half = scale * np.array([switch[2], tall * 0.5, switch[3]])
    figures = [
        Figure(Box(foot + np.array([0, half[1], 0]), np.eye(3), half, _ON if world.switched[k] else _OFF))
    ]
    if not world.switched[k]:
        return figures
    brick = scale * gold[2]
    lying = middle + np.array([gold[0], brick, gold[1]])
    if world.stands[k]:
        foot = middle + np.array([pyramid[0], 0, pyramid[1]])
        figures += _pyramid(foot, pyramid[2] * scale, _BRICKS)
        lying = foot + np.array([0, 2 * pyramid[2] * scale + brick, 0])
    else:
        for x, z in world.bricks[:, k].T:
            loose = scale * BRICK / 2
            figures.append(
                Figure(Box(middle + np.array([x, loose, z]), np.eye(3), np.full(3, loose), _BRICKS))
            )
    figures.append(Figure(Box(lying, np.eye(3), np.full(3, brick), _GOLD)))
    return figures


def _pyramid(foot: Vector, half: float, color: Color) -> list[Figure]:
    """The steps of a pyramid, each smaller than the one below."""
    tall = half / _STEPS
    return [
        Figure(
            Box(
                foot + np.array([0, tall * (2 * step + 1), 0]),
                np.eye(3),
                np.array([half * (1 - step / _STEPS), tall, half * (1 - step / _STEPS)]),
                color,
            )
        )
        for step in range(_STEPS)
    ]
