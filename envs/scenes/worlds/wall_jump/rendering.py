"""The image of WallJump: platforms with a wall, a goal beyond it, a block and an agent."""

import numpy as np
from numpy.typing import NDArray

from ...canvas import Box, Canvas, Color, Points, Vector, square
from .dynamics import AGENT_HALF, BLOCK_HALF, BLOCK_HEIGHT, WALL_HALF
from .scene import WallJump

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
    columns = -(-count // int(np.sqrt(count)))
    middles = [2.4 * half * np.array([k % columns, 0, -(k // columns)]) for k in range(count)]
    corners = [middle + square(half, y) for middle in middles for y in (-half / 20, _TALL)]
    canvas = Canvas(size, np.concatenate(corners), yaw=56, pitch=40, margin=0.03)
    outlines = [middle + square(half * 1.05, -half / 20) for middle in middles]
    canvas.shadows(outlines, strength=0.3, softness=size[0] / 90)
    for k in sorted(range(count), key=lambda k: -_distance(canvas, middles[k])):
        _draw_platform(canvas, world, k, middles[k])
    return canvas.finish()


def _draw_platform(canvas: Canvas, world: WallJump, k: int, middle: Vector) -> None:
    half, thickness = world.options.platform / 2, world.options.platform / 60
    plate = Box(middle - np.array([0, thickness, 0]), np.eye(3), np.array([half, thickness, half]), _GROUND)
    canvas.box(plate)
    step = 2 * half / _TILES
    for i in range(_TILES):
        for j in range((i + 1) % 2, _TILES, 2):
            tile = np.array([(i + 0.5) * step - half, 0, (j + 0.5) * step - half])
            canvas.polygon(middle + tile + square(step / 2, 0), _TILE)
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
    agent = Box(origin + yard.position[:, k], _yaw(heading + np.pi), np.full(3, AGENT_HALF), _AGENT)
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
        return (-side, float(box.center[1] - _distance(canvas, box.center)))

    return sorted(boxes, key=key)


def _yaw(angle: float) -> Points:
    """World from a body that is turned by `angle` from z to x."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])


def _distance(canvas: Canvas, point: Vector) -> float:
    return float(np.linalg.norm(point - canvas.camera.position))
