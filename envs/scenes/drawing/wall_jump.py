"""The image of WallJump: platforms with a wall, a goal beyond it, a block and an agent."""

import numpy as np
from numpy.typing import NDArray

from ..worlds.wall_jump import WallJump
from ..worlds.wall_jump_dynamics import AGENT_HALF, BLOCK_HALF, BLOCK_HEIGHT, WALL_HALF
from .canvas import Box, Canvas, Color, Vector, checkered, distance, rows_of, square, start_canvas, yaw

_AGENT: Color = (58, 110, 226)
_GROUND: Color = (196, 205, 224)
_TILE: Color = (208, 216, 233)
_WALL: Color = (150, 162, 192)
_BLOCK: Color = (255, 160, 66)
_GOAL: Color = (92, 196, 96)
_TILES = 8
_TALL = 5.0
"""Meters above the ground that are in the image."""


def draw_wall_jump(size: tuple[int, int], world: WallJump) -> NDArray[np.uint8]:
    """Every platform with what is on it, [height, width, 3]."""
    count, half = world.areas, world.options.platform / 2
    # The platforms' centers, not the walls'.
    middles = rows_of(count, 2.4 * half)
    outlines = square(half, -half / 20), square(half, _TALL)
    canvas, order = start_canvas(size, outlines, square(half * 1.05, -half / 20), middles, yaw=56, pitch=40)
    for k in order:
        _draw_platform(canvas, world, k, middles[k])
    return canvas.finish()


def _draw_platform(canvas: Canvas, world: WallJump, k: int, middle: Vector) -> None:
    half = world.options.platform / 2
    checkered(canvas, middle, half, half / 30, _TILES, _GROUND, _TILE)
    origin = middle - np.array([0, 0, (world.near + world.far) / 2])
    goal = np.array([0, 0, world.goal_middle])
    canvas.polygon(origin + goal + square(world.options.goal / 2, 0), _GOAL)
    yard = world.dynamics
    x, z = yard.block[:, k]
    block = Box(
        origin + np.array([x, BLOCK_HEIGHT / 2, z]),
        np.eye(3),
        np.array([BLOCK_HALF, BLOCK_HEIGHT / 2, BLOCK_HALF]),
        _BLOCK,
    )
    heading = world.heading[k]
    agent = Box(origin + yard.position[:, k], yaw(heading + np.pi), np.full(3, AGENT_HALF), _AGENT)
    boxes = [block, agent]
    if yard.wall[k] > 0:
        tall = yard.wall[k] / 2
        boxes.append(
            Box(origin + np.array([0, tall, 0]), np.eye(3), np.array([half, tall, WALL_HALF]), _WALL)
        )
    looks = agent.center + 9 * np.array([np.sin(heading), 0, np.cos(heading)])
    for box in boxes:
        grown = 1.0 if box.color == _WALL else 1.1
        corners = box.place(square(grown, 0) * box.half)
        canvas.polygon(corners * (1, 0, 1), (38, 50, 78), alpha=40)
    for box in _far_to_near(canvas, boxes, origin):
        canvas.box(box)
        if box is agent:
            canvas.eyes(box, looks)


def _far_to_near(canvas: Canvas, boxes: list[Box], origin: Vector) -> list[Box]:
    """First what lies beyond the wall; on either side, what is far, low and large first."""

    def key(box: Box) -> tuple[float, float]:
        z = float((box.center - origin)[2])
        side = 0.0 if box.color == _WALL else float(np.sign(z)) * (abs(z) > WALL_HALF)
        return (-side, float(box.center[1] - distance(canvas, box.center)))

    return sorted(boxes, key=key)
