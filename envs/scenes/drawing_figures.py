"""What stands on the grounds of pictures: boxes and agents with their shadows, balls, and where areas lie."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .canvas import Box, Canvas, Colour, Points, Vector

SHADOW: Colour = (38, 50, 78)


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that stands or lies on the ground."""

    box: Box
    looks: Vector | None = None
    """The point that it looks at, if it has eyes."""
    is_ball: bool = False
    """Whether a ball of the box's size takes its place."""


def agent(place: Vector, heading: float, half: float, colour: Colour) -> Figure:
    """An agent with its feet at a point of space, which looks where it goes; headings turn from z to x."""
    body = Box(place + np.array([0, half, 0]), yaw(heading + np.pi), np.full(3, half), colour)
    return Figure(body, looks=body.centre + 9 * np.array([np.sin(heading), 0, np.cos(heading)]))


def ball(place: Vector, radius: float, colour: Colour) -> Figure:
    """A ball that lies at a point of space."""
    return Figure(Box(place + np.array([0, radius, 0]), np.eye(3), np.full(3, radius), colour), is_ball=True)


def draw_figures(canvas: Canvas, figures: Sequence[Figure], ground: float = 0.0) -> None:
    """All shadows on the ground at that height, then the figures from the farthest to the nearest."""
    for figure in figures:
        corners = figure.box.place(_outline(figure.is_ball) * 1.15 * figure.box.half)
        canvas.polygon(corners * (1, 0, 1) + (0, ground, 0), SHADOW, alpha=46)
    # What is low goes first among things that are equally far: it cannot hide what stands on it.
    order = sorted(figures, key=lambda f: float(f.box.centre[1]) / 100 - distance(canvas, f.box.centre))
    for figure in order:
        if figure.is_ball:
            canvas.ball(figure.box.centre, float(figure.box.half[0]), figure.box.colour)
            continue
        canvas.box(figure.box)
        if figure.looks is not None:
            canvas.eyes(figure.box, figure.looks)


def middles_of(count: int, wide: float, deep: float, breadth: float = 1.6) -> list[Vector]:
    """Where `count` areas of that size lie, so that all together are `breadth` times as wide as deep."""
    columns = min(count, max(1, round(float(np.sqrt(count * breadth * deep / wide)))))
    return [np.array([wide * (k % columns), 0, -deep * (k // columns)]) for k in range(count)]


def rectangle(low_x: float, low_z: float, high_x: float, high_z: float, height: float = 0.0) -> Points:
    """Corners [4, 3] of a level rectangle."""
    places = ((low_x, low_z), (high_x, low_z), (high_x, high_z), (low_x, high_z))
    return np.array([[x, height, z] for x, z in places])


def yaw(angle: float) -> Points:
    """World from a body that is turned by `angle` from z to x."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])


def distance(canvas: Canvas, point: Vector) -> float:
    """From the camera."""
    return float(np.linalg.norm(point - canvas.camera.position))


def _outline(is_round: bool) -> Points:
    """Of half edge or radius 1, level."""
    if not is_round:
        return rectangle(-1, -1, 1, 1)
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    return np.stack([np.cos(turn), np.zeros(24), np.sin(turn)], axis=1)
