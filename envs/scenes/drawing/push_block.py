"""The image of Cooperative PushBlock: walled grounds with agents, and the blocks that they push."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..worlds.push_block import AGENT, CoopPush
from .canvas import Box, Canvas, Color, Points, Vector, rows_of, square, start_canvas

_AGENTS: tuple[Color, ...] = ((58, 110, 226), (34, 168, 186), (112, 92, 220), (64, 142, 240))
_GROUND: Color = (196, 205, 224)
TILE: Color = (208, 216, 233)
_WALL: Color = (164, 176, 204)
_GOAL: Color = (92, 196, 96)
_BLOCKS: tuple[Color, ...] = ((255, 196, 74), (255, 146, 62), (236, 98, 66))
_TILES = 8
_BLOCK_HEIGHT = 0.75


@dataclass(frozen=True, slots=True)
class AreaFrame:
    """The position and rotation of an area in the image."""

    middle: Vector
    half: float
    turns: int

    def at(self, x: float, z: float, y: float = 0.0) -> Vector:
        """A point of the area in space."""
        for _ in range(self.turns):
            x, z = z, -x
        point: Vector = self.middle + np.array([x, y, z])
        return point

    def yaw(self, angle: float) -> Points:
        """World from a body that is turned by `angle` from x to z in the area."""
        turned = angle - self.turns * np.pi / 2
        cosine, sine = np.cos(turned), np.sin(turned)
        return np.array([[cosine, 0, -sine], [0, 1, 0], [sine, 0, cosine]])

    def box(self, place: Points, half: Sequence[float], color: Color, angle: float = 0.0) -> Box:
        """A box that stands on the ground at x, z."""
        return Box(self.at(place[0], place[1], half[1]), self.yaw(angle), np.array(half), color)


@dataclass(frozen=True, slots=True)
class CarryingFigure:
    """Something that stands on the ground."""

    box: Box
    looks: Vector | None = None
    """The point that an agent or a dragon looks at."""
    burden: Color | None = None
    """A ball that is carried above it, or, where `box` is a ball, the ball itself."""
    is_ball: bool = False


def draw_coop_push(size: tuple[int, int], world: CoopPush) -> NDArray[np.uint8]:
    """Every ground with its agents, blocks and goal, [height, width, 3]; the heavier a block the redder."""
    canvas, areas = start_drawing(size, world.areas, world.bodies.half, world.turned)
    for k, area in areas:
        draw_ground(canvas, area)
        draw_floor(canvas, area, (-area.half, world.goal, area.half, area.half), _GOAL)
        pose, agents = world.bodies.pose[:, k], world.options.agents
        figures = [
            agent_figure(area, m, pose[:2, m], world.motion_control.heading[k, m]) for m in range(agents)
        ]
        for b, kind in enumerate(world.kinds):
            if world.bodies.present[k, agents + b]:
                x, z, angle = pose[:, agents + b]
                half = (world.halves[b], _BLOCK_HEIGHT / 2, world.halves[b])
                figures.append(CarryingFigure(area.box(np.array([x, z]), half, _BLOCKS[kind], angle)))
        draw_figures(canvas, area, figures)
    return canvas.finish()


def start_drawing(
    size: tuple[int, int], count: int, half: float, turned: NDArray[np.intp]
) -> tuple[Canvas, list[tuple[int, AreaFrame]]]:
    """An empty canvas on which all areas have room, and the areas from the farthest to the nearest."""
    middles = rows_of(count, 2 * half * 1.16)
    outlines = square(half + 0.5, -half / 20), square(half + 0.5, 1.0)
    canvas, order = start_canvas(size, outlines, square(half * 1.1, -half / 20), middles, yaw=14, pitch=46)
    return canvas, [(k, AreaFrame(middles[k], half, int(turned[k]))) for k in order]


def draw_ground(canvas: Canvas, area: AreaFrame) -> None:
    """Tiles, and a low wall around; the sides that would hide the ground are only as high as its edge."""
    half, thickness = area.half, area.half / 40
    plate = Box(
        area.middle - np.array([0, thickness, 0]), np.eye(3), np.array([half, thickness, half]), _GROUND
    )
    canvas.box(plate)
    step = 2 * half / _TILES
    for i in range(_TILES):
        for j in range(_TILES):
            if (i + j) % 2:
                low_x, low_z = i * step - half, j * step - half
                draw_floor(canvas, area, (low_x, low_z, low_x + step, low_z + step), TILE)
    wall = half / 50
    for x, z in ((0, half + wall), (half + wall, 0), (-half - wall, 0), (0, -half - wall)):
        reach = (half + 2 * wall, wall) if x == 0 else (wall, half)
        away = float(np.array([x, 0, z]) @ (canvas.camera.position - area.middle)) < 0
        height = 0.5 if away else 0.05
        middle = area.middle + np.array([x, height, z])
        canvas.box(Box(middle, np.eye(3), np.array([reach[0], height, reach[1]]), _WALL))


def draw_floor(
    canvas: Canvas, area: AreaFrame, rectangle: tuple[float, float, float, float], color: Color
) -> None:
    """A rectangle (low x, low z, high x, high z) of an area's ground, in one color."""
    low_x, low_z, high_x, high_z = rectangle
    corners = [(low_x, low_z), (high_x, low_z), (high_x, high_z), (low_x, high_z)]
    canvas.polygon(np.array([area.at(x, z) for x, z in corners]), color)


def agent_figure(
    area: AreaFrame, number: int, place: NDArray[np.float64], heading: float, burden: Color | None = None
) -> CarryingFigure:
    """An agent: its face, on the box's -z side, looks where it goes."""
    half = (AGENT.half * 0.9,) * 3
    body = area.box(place, half, _AGENTS[number % len(_AGENTS)], np.pi - heading)
    ahead = place + np.array([np.sin(heading), np.cos(heading)]) * 5
    return CarryingFigure(body, looks=area.at(ahead[0], ahead[1], AGENT.half), burden=burden)


def draw_figures(canvas: Canvas, area: AreaFrame, figures: Sequence[CarryingFigure]) -> None:
    """All shadows, then the figures from the farthest to the nearest."""
    for figure in figures:
        box = figure.box
        corners = box.place(square(1, 0) * 1.25 * box.half)
        canvas.polygon(corners * (1, 0, 1) + (0, area.middle[1], 0), (38, 50, 78), alpha=46)
    distances = [float(np.linalg.norm(figure.box.center - canvas.camera.position)) for figure in figures]
    for number in np.argsort(distances)[::-1]:
        figure = figures[number]
        box = figure.box
        if not figure.is_ball:
            canvas.box(box)
            if figure.looks is not None:
                canvas.eyes(box, figure.looks)
        if figure.burden is not None:
            above = 0.0 if figure.is_ball else box.half[1] + 0.3
            canvas.ball(box.center + np.array([0, above, 0]), 0.35, figure.burden)
