"""The images of 3DBall and Basic, the scenes of a single module."""

import numpy as np
from numpy.typing import NDArray

from ..parts.physics import rotations
from ..worlds.ball3d import HALF_BOX, Ball3D
from ..worlds.basic import LARGE_GOAL, LENGTH, SMALL_GOAL, Basic
from .canvas import Box, Canvas, Color, Points, Vector, square

_NEAR_BLUE, _FAR_TEAL = np.array([58, 110, 226]), np.array([34, 178, 176])
_BALL: Color = (255, 122, 56)
_GOAL: Color = (92, 196, 96)
_TILES: tuple[Color, Color] = ((176, 188, 211), (158, 172, 200))
_FLOOR = -4.5
_SPACING = 9.0
"""Meters between areas of 3DBall."""


def draw_ball3d(size: tuple[int, int], world: Ball3D) -> NDArray[np.uint8]:
    """Every area with its box and its ball, [height, width, 3]; `size` is (width, height) in pixels."""
    turned = rotations(world.boxes.quaternion).reshape(3, 3, -1).astype(float)
    positions = world.balls.position.T.astype(float)
    areas = world.areas
    columns = min(areas, max(1, round(float(np.sqrt(areas * 4 / 3)))))
    rows = -(-areas // columns)
    centers = [_SPACING * np.array([i % columns, 0, i // columns]) for i in range(areas)]
    corners = np.concatenate([center + square(3.4, y) for center in centers for y in (_FLOOR, 4.2)])
    canvas = Canvas(size, corners, yaw=24, pitch=30)
    canvas.shadows(
        [center + square(2.9, _FLOOR) for center in centers], strength=0.34, softness=size[0] / 110
    )

    for i in _far_to_near(centers, canvas):
        share = (i % columns + i // columns) / max(1, columns + rows - 2)
        box = Box(centers[i], turned[..., i], np.full(3, HALF_BOX), _between(_NEAR_BLUE, _FAR_TEAL, share))
        ball, reach = centers[i] + positions[i], float(world.balls.radius[i])
        is_hidden = canvas.hides(box, ball)
        if is_hidden:
            canvas.ball(ball, reach, _BALL)
        canvas.box(box)
        canvas.eyes(box, ball)
        if not is_hidden:
            canvas.shadow_on(box, ball, reach)
            canvas.ball(ball, reach, _BALL)
    return canvas.finish()


def draw_basic(size: tuple[int, int], world: Basic) -> NDArray[np.uint8]:
    """The corridors one after another, with agents and goals, [height, width, 3]; `size` as above."""
    ends = np.array([[-0.5, 0, -0.5], [LENGTH - 0.5, 0, -0.5], [-0.5, 2.2, 0.5], [LENGTH - 0.5, 2.2, 0.5]])
    lanes = [np.array([0, 0, 2.6 * k]) for k in range(world.areas)]
    canvas = Canvas(size, np.concatenate([ends + lane for lane in lanes]), yaw=12, pitch=26)
    outline = np.array([[-0.8, 0, -0.8], [LENGTH - 0.2, 0, -0.8], [LENGTH - 0.2, 0, 0.8], [-0.8, 0, 0.8]])
    canvas.shadows([outline + _moved(lane, y=-0.6) for lane in lanes], strength=0.3, softness=size[0] / 130)
    for lane, position in reversed(list(zip(lanes, world.position))):
        for x in range(LENGTH):
            tile = np.array([0.47, 0.09, 0.47])
            color = _GOAL if x in (SMALL_GOAL, LARGE_GOAL) else _TILES[x % 2]
            canvas.box(Box(_moved(lane, x, -0.1), np.eye(3), tile, color))
        for x in reversed(range(LENGTH)):
            if x == SMALL_GOAL:
                _stand(canvas, _moved(lane, x), 0.26)
            if x == LARGE_GOAL:
                _stand(canvas, _moved(lane, x), 0.62)
            if x == position:
                body = Box(
                    _moved(lane, x, 0.45), np.eye(3), np.full(3, 0.44), _between(_NEAR_BLUE, _FAR_TEAL, 0.15)
                )
                canvas.box(body)
                canvas.eyes(body, _moved(lane, LARGE_GOAL, 0.6, -4))
    return canvas.finish()


def _stand(canvas: Canvas, foot: Vector, radius: float) -> None:
    """A goal: a ball on its tile."""
    tile = Box(_moved(foot, y=-0.1), np.eye(3), np.array([0.47, 0.1, 0.47]), _GOAL)
    middle = _moved(foot, y=radius)
    canvas.shadow_on(tile, middle, radius)
    canvas.ball(middle, radius, _GOAL)


def _moved(point: Vector, x: float = 0, y: float = 0, z: float = 0) -> Vector:
    moved: Vector = point + np.array([x, y, z])
    return moved


def _far_to_near(centers: list[Vector], canvas: Canvas) -> list[int]:
    distances = [float(np.linalg.norm(center - canvas.camera.position)) for center in centers]
    return [int(i) for i in np.argsort(distances)[::-1]]


def _between(first: Points, second: Points, share: float) -> Color:
    red, green, blue = (first + (second - first) * share).astype(int).tolist()
    return (red, green, blue)
