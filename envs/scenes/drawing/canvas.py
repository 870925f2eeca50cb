"""Draws boxes, balls and agents in perspective with Pillow: no GPU, no window.

Axes are Unity's: left-handed, y up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

Vector = NDArray[np.float64]
Points = NDArray[np.float64]
Color = tuple[int, int, int]

_OVERSAMPLING = 2
_LIGHT: Vector = np.array([-0.45, 0.8, -0.4]) / np.linalg.norm([-0.45, 0.8, -0.4])
_BALL_PIXELS = 192
_CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 40)), np.sin(np.linspace(0, 2 * np.pi, 40))])


@dataclass(frozen=True, slots=True)
class Box:
    """A box somewhere in space, turned by `rotation` (world from box)."""

    center: Vector
    rotation: Points
    half: Vector
    color: Color

    def place(self, local: Points) -> Points:
        """Points [..., 3] of the box's own axes in space."""
        placed: Points = local @ self.rotation.T + self.center
        return placed


class Camera:
    """Projects points of space onto an image; positioned so that the whole subject is visible."""

    def __init__(
        self, size: tuple[int, int], subject: Points, yaw: float, pitch: float, margin: float
    ) -> None:
        """Args:
        size: (width, height) in pixels.
        subject: Points [n, 3] that must be in the image.
        yaw: Degrees by which the camera stands to the right of the -z direction.
        pitch: Degrees by which it looks down.
        margin: Free part of the image on each side.
        """
        middle = (subject.min(axis=0) + subject.max(axis=0)) / 2
        turn, tilt = np.radians(yaw), np.radians(pitch)
        forward = np.array([-np.sin(turn) * np.cos(tilt), -np.sin(tilt), np.cos(turn) * np.cos(tilt)])
        right = np.array([np.cos(turn), 0, np.sin(turn)])
        self._axes = np.stack([right, np.cross(forward, right), forward])
        reach = float(np.linalg.norm(subject - middle, axis=1).max())
        self.position: Vector = middle - forward * reach * 3.2
        self._scale, self._shift = 1.0, np.zeros(2)
        flat = self.project(subject)
        low, high = flat.min(axis=0), flat.max(axis=0)
        room = np.array(size) * (1 - 2 * margin)
        self._scale = float((room / (high - low)).min())
        self._shift = np.array(size) / 2 - self._scale * (low + high) / 2

    def project(self, points: Points) -> Points:
        """Pixels [..., 2] of points [..., 3]."""
        seen = (points - self.position) @ self._axes.T
        flat = seen[..., :2] / seen[..., 2:] * (1, -1)
        pixels: Points = flat * self._scale + self._shift
        return pixels

    def pixels(self, point: Vector, length: float) -> float:
        """How many pixels a length at a point takes."""
        return float(length * self._scale / ((point - self.position) @ self._axes[2]))


class Canvas:
    """An image being drawn, from far to near."""

    def __init__(
        self, size: tuple[int, int], subject: Points, yaw: float, pitch: float, margin: float = 0.05
    ) -> None:
        """Start an image; the arguments are those of `Camera`, with the `size` of the finished image."""
        self._size = size
        large = (size[0] * _OVERSAMPLING, size[1] * _OVERSAMPLING)
        self.camera = Camera(large, subject, yaw, pitch, margin)
        self._image = _background(large).copy()
        self._draw = ImageDraw.Draw(self._image, "RGBA")

    def shadows(self, outlines: Sequence[Points], strength: float, softness: float) -> None:
        """Draw soft shadows of flat outlines [k, 3]; softness in pixels of the finished image."""
        layer = Image.new("L", self._image.size, 0)
        draw = ImageDraw.Draw(layer)
        for outline in outlines:
            draw.polygon(_pairs(self.camera.project(outline)), fill=int(255 * strength))
        layer = layer.filter(ImageFilter.GaussianBlur(softness * _OVERSAMPLING))
        self._image.paste(Image.new("RGB", self._image.size, (38, 50, 78)), mask=layer)

    def polygon(self, points: Points, color: Color, alpha: int = 255) -> None:
        """Draw a flat area with corners [k, 3]."""
        self._draw.polygon(_pairs(self.camera.project(points)), fill=(*color, alpha))

    def box(self, box: Box) -> None:
        """Draw the faces that the camera sees, lit, with a fine bright edge."""
        for axis in range(3):
            for side in (-1, 1):
                if self.sees(box, axis, side):
                    normal = box.rotation[:, axis] * side
                    corners = self.camera.project(box.place(_face(box.half, axis, side)))
                    light = 0.62 + 0.5 * max(0.0, float(normal @ _LIGHT))
                    self._draw.polygon(_pairs(corners), fill=_lit(box.color, light))
                    outline = [*_pairs(corners), *_pairs(corners[:2])]
                    self._draw.line(outline, fill=(*_lit(box.color, light + 0.18), 255), width=_OVERSAMPLING)

    def sees(self, box: Box, axis: int, side: int) -> bool:
        """Whether a face of a box is turned to the camera."""
        normal = box.rotation[:, axis] * side
        return bool(normal @ (self.camera.position - box.center) > box.half[axis])

    def hides(self, box: Box, point: Vector) -> bool:
        """Whether a point outside a box is on its far side: before none of the faces that are seen."""
        local = (point - box.center) @ box.rotation
        return not any(
            side * local[axis] > box.half[axis] and self.sees(box, axis, side)
            for axis in range(3)
            for side in (-1, 1)
        )

    def eyes(self, box: Box, target: Vector) -> None:
        """Draw a pair of eyes on the box's -z face that look at a point of space."""
        if not self.sees(box, 2, -1):
            return
        gaze = (target - box.center) @ box.rotation
        gaze = gaze[:2] / max(float(np.linalg.norm(gaze)), 1e-6)
        size = box.half[0] * 0.2
        for side in (-1, 1):
            middle = np.array([side * box.half[0] * 0.36, box.half[1] * 0.3])
            self._disc(box, middle, size, (250, 251, 253))
            self._disc(box, middle + gaze * size * 0.45, size * 0.52, (24, 29, 46))
            self._disc(box, middle + gaze * size * 0.45 + size * 0.17, size * 0.16, (250, 251, 253))

    def _disc(self, box: Box, middle: Vector, radius: float, color: Color) -> None:
        rim = middle[:, None] + radius * _CIRCLE
        local = np.stack([rim[0], rim[1], np.full(rim.shape[1], -box.half[2])], axis=1)
        self.polygon(box.place(local), color)

    def shadow_on(self, box: Box, point: Vector, radius: float) -> None:
        """Draw the shadow of a ball above the box on its upper face, the fainter the higher the ball."""
        local = (point - box.center) @ box.rotation
        height = float(local[1] - box.half[1])
        if height <= 0 or not self.sees(box, 1, 1):
            return
        for part in (1.25, 1.0, 0.75):
            rim = np.clip(
                local[[0, 2], None] + radius * part * _CIRCLE, -box.half[[0, 2], None], box.half[[0, 2], None]
            )
            outline = np.stack([rim[0], np.full(rim.shape[1], box.half[1]), rim[1]], axis=1)
            self.polygon(
                box.place(outline), (14, 22, 46), alpha=int(62 / (1 + 0.9 * max(0.0, height - radius)))
            )

    def ball(self, point: Vector, radius: float, color: Color) -> None:
        """Draw a glossy ball."""
        pixels = max(2, round(2 * self.camera.pixels(point, radius)))
        sprite = _ball(color).resize((pixels, pixels), Image.Resampling.LANCZOS)
        x, y = self.camera.project(point)
        self._image.paste(sprite, (round(x - pixels / 2), round(y - pixels / 2)), sprite)

    def finish(self) -> NDArray[np.uint8]:
        """The image [height, width, 3]."""
        return np.asarray(self._image.resize(self._size, Image.Resampling.LANCZOS))


def square(half: float, height: float) -> Points:
    """Corners [4, 3] of a level square around the origin."""
    return np.array([[x * half, height, z * half] for x, z in ((-1, -1), (1, -1), (1, 1), (-1, 1))])


def _face(half: Vector, axis: int, side: int) -> Points:
    others = [k for k in range(3) if k != axis]
    corners = np.empty((4, 3))
    corners[:, axis] = side * half[axis]
    corners[:, others] = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * half[others]
    return corners


def _pairs(points: Points) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in points]


def _lit(color: Color, light: float) -> Color:
    """A color in less or more light than its own."""
    toward = 0 if light < 1 else 255
    mixed = [c * light if light < 1 else c + (toward - c) * min(1.0, light - 1) for c in color]
    return (int(mixed[0]), int(mixed[1]), int(mixed[2]))


@lru_cache(maxsize=4)
def _background(size: tuple[int, int]) -> Image.Image:
    """Light falling from above: few shades, so that animations of few colors keep them."""
    rows = np.linspace(0, 1, size[1])[:, None] ** 1.4
    shades = (1 - rows) * np.array([246, 249, 253]) + rows * np.array([205, 217, 233])
    return Image.fromarray(np.repeat(shades[:, None].astype(np.uint8), size[0], axis=1))


@lru_cache(maxsize=16)
def _ball(color: Color) -> Image.Image:
    """A lit sphere with a highlight, as a square with transparent corners."""
    axis = np.linspace(-1, 1, _BALL_PIXELS)
    x, y = np.meshgrid(axis, -axis)
    square_distance = x * x + y * y
    z = np.sqrt(np.maximum(0, 1 - square_distance))
    light = np.array([-0.45, 0.68, 0.58]) / np.linalg.norm([-0.45, 0.68, 0.58])
    diffuse = np.maximum(0, x * light[0] + y * light[1] + z * light[2])
    highlight = np.maximum(0, 2 * diffuse * z - light[2]) ** 38
    rim = np.maximum(0, -y) * (1 - z) * 0.22
    shade = (0.5 + 0.62 * diffuse + rim)[..., None] * np.array(color)
    shade += 235 * highlight[..., None]
    alpha = np.clip((1 - np.sqrt(square_distance)) * _BALL_PIXELS / 3, 0, 1) * 255
    return Image.fromarray(np.dstack([np.minimum(shade, 255), alpha]).astype(np.uint8), "RGBA")


SHADOW: Color = (38, 50, 78)


@dataclass(frozen=True, slots=True)
class Figure:
    """Something that stands or lies on the ground."""

    box: Box
    looks: Vector | None = None
    """The point that the figure looks at, if it has eyes."""
    is_ball: bool = False
    """Whether a ball of the box's size is drawn in place of the box."""


def agent(place: Vector, heading: float, half: float, color: Color) -> Figure:
    """An agent with its feet at a point of space, which looks where it goes; headings turn from z to x."""
    body = Box(place + np.array([0, half, 0]), yaw(heading + np.pi), np.full(3, half), color)
    return Figure(body, looks=body.center + 9 * np.array([np.sin(heading), 0, np.cos(heading)]))


def ball(place: Vector, radius: float, color: Color) -> Figure:
    """A ball that lies at a point of space."""
    return Figure(Box(place + np.array([0, radius, 0]), np.eye(3), np.full(3, radius), color), is_ball=True)


def draw_figures(canvas: Canvas, figures: Sequence[Figure], ground: float = 0.0) -> None:
    """Draw all shadows on the ground at that height, then the figures from the farthest to the nearest."""
    for figure in figures:
        corners = figure.box.place(_outline(figure.is_ball) * 1.15 * figure.box.half)
        canvas.polygon(corners * (1, 0, 1) + (0, ground, 0), SHADOW, alpha=46)
    # What is low goes first among things that are equally far: it cannot hide what stands on it.
    order = sorted(figures, key=lambda f: float(f.box.center[1]) / 100 - distance(canvas, f.box.center))
    for figure in order:
        if figure.is_ball:
            canvas.ball(figure.box.center, float(figure.box.half[0]), figure.box.color)
            continue
        canvas.box(figure.box)
        if figure.looks is not None:
            canvas.eyes(figure.box, figure.looks)


def middles_of(count: int, wide: float, deep: float, breadth: float = 1.6) -> list[Vector]:
    """The centers of `count` areas of this size, which together are `breadth` times as wide as deep."""
    columns = min(count, max(1, round(float(np.sqrt(count * breadth * deep / wide)))))
    return [np.array([wide * (k % columns), 0, -deep * (k // columns)]) for k in range(count)]


def rows_of(count: int, spacing: float) -> list[Vector]:
    """The centers of `count` areas in rows at this distance, about as many rows as columns."""
    columns = -(-count // int(np.sqrt(count)))
    return [spacing * np.array([k % columns, 0, -(k // columns)]) for k in range(count)]


def start_canvas(
    size: tuple[int, int],
    outlines: tuple[Points, Points],
    ground: Points,
    middles: Sequence[Vector],
    yaw: float,
    pitch: float,
    margin: float = 0.03,
) -> tuple[Canvas, list[int]]:
    """A canvas with the shadows of all areas, and the areas' numbers from the farthest to the nearest.

    Args:
        size: Width and height in pixels.
        outlines: What must be in the image of each area, [k, 3], from its center.
        ground: The outline [k, 3] of an area's shadow, from its center.
        middles: The areas' centers.
        yaw, pitch, margin: Arguments of `Camera`.
    """
    canvas = Canvas(
        size, np.concatenate([m + part for m in middles for part in outlines]), yaw, pitch, margin
    )
    canvas.shadows([middle + ground for middle in middles], strength=0.3, softness=size[0] / 90)
    return canvas, sorted(range(len(middles)), key=lambda k: -distance(canvas, middles[k]))


def checkered(
    canvas: Canvas, middle: Vector, half: float, thickness: float, tiles: int, ground: Color, light: Color
) -> None:
    """Draw a square plate in the color `ground`, on which every other one of `tiles` x `tiles` is `light`."""
    canvas.box(
        Box(middle - np.array([0, thickness, 0]), np.eye(3), np.array([half, thickness, half]), ground)
    )
    step = 2 * half / tiles
    for i in range(tiles):
        for j in range((i + 1) % 2, tiles, 2):
            tile = np.array([(i + 0.5) * step - half, 0, (j + 0.5) * step - half])
            canvas.polygon(middle + tile + square(step / 2, 0), light)


def rectangle(low_x: float, low_z: float, high_x: float, high_z: float, height: float = 0.0) -> Points:
    """Corners [4, 3] of a level rectangle."""
    places = ((low_x, low_z), (high_x, low_z), (high_x, high_z), (low_x, high_z))
    return np.array([[x, height, z] for x, z in places])


def yaw(angle: float) -> Points:
    """The rotation, world from body, of a body that is turned by `angle` from z to x."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])


def distance(canvas: Canvas, point: Vector) -> float:
    """The distance of a point from the camera."""
    return float(np.linalg.norm(point - canvas.camera.position))


def _outline(is_round: bool) -> Points:
    """The level outline [k, 3] of a square with half edge 1, or of a circle with radius 1."""
    if not is_round:
        return rectangle(-1, -1, 1, 1)
    turn = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    return np.stack([np.cos(turn), np.zeros(24), np.sin(turn)], axis=1)
