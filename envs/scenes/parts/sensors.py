"""The sensors of agents on a ground: rigid body, grid and rays, for all agents of all areas at once.

Positions and directions are [2, areas, ...], x and z; headings turn from z to x, that is to the right.
"""

from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import DimensionProperty, ObservationSpec, ObservationType
from numpy.typing import NDArray

from .physics2d import Array, Floats

_BODY_HEIGHT = 0.5
_MISSED = np.inf
_WALL_TAG = 0


def vector_spec(size: int, name: str = "") -> ObservationSpec:
    """The specification of a vector of so many values; without a name its size names it, as in Unity."""
    none = (DimensionProperty.NONE,)
    return ObservationSpec((size,), none, ObservationType.DEFAULT, name or f"VectorSensor_size{size}")


def image_spec(shape: tuple[int, int, int], name: str) -> ObservationSpec:
    """The specification of an image of this shape: channels, height, width."""
    image = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
    return ObservationSpec(shape, image, ObservationType.DEFAULT, name)


def rigid_body(position: Array, heading: Array, velocity: Array) -> Floats:
    """Unity's rigid-body sensor of a body [2, k, m]: its position, rotation and velocity, [k, m, 10]."""
    obs = np.zeros((*heading.shape, 10), np.float32)
    obs[..., 0], obs[..., 1], obs[..., 2] = position[0], _BODY_HEIGHT, position[1]
    obs[..., 4], obs[..., 6] = np.sin(heading / 2), np.cos(heading / 2)
    obs[..., 7], obs[..., 9] = velocity
    return obs


def seen_from(position: Array, heading: Array, targets: Array) -> Array:
    """How far right and ahead of agents [2, k, m] targets [2, k, t] are: [2, k, m, t]."""
    away = targets[:, :, None] - position[..., None]
    sine, cosine = np.sin(heading)[..., None], np.cos(heading)[..., None]
    return np.stack([away[0] * cosine - away[1] * sine, away[0] * sine + away[1] * cosine])


def own_motion(position: Array, heading: Array, velocity: Array) -> Floats:
    """Position, heading as sine and cosine, velocity to the right and ahead / 4: [k, m, 6]."""
    sine, cosine = np.sin(heading), np.cos(heading)
    obs = np.empty((*heading.shape, 6), np.float32)
    obs[..., 0], obs[..., 1] = position
    obs[..., 2], obs[..., 3] = sine, cosine
    obs[..., 4] = (velocity[0] * cosine - velocity[1] * sine) / 4
    obs[..., 5] = (velocity[0] * sine + velocity[1] * cosine) / 4
    return obs


def others(members: int) -> NDArray[np.intp]:
    """The numbers of all other members for each of `members`: [members, members - 1]."""
    return np.array([np.delete(np.arange(members), k) for k in range(members)], np.intp)


class GridSensor:
    """Unity's grid sensor: square cells of 1 m in front of the agent that turn with it, one channel per tag.

    The first row is the farthest from the agent, the first column is on its left.
    """

    def __init__(self, cells: int, ahead: float) -> None:
        """`cells`: along each edge. `ahead`: meters from the agent to the center of the grid."""
        self.cells = cells
        middles = np.arange(cells) - (cells - 1) / 2
        x, z = np.meshgrid(middles, ahead - middles)
        self._basis = np.stack([x.ravel(), z.ravel(), np.ones(x.size)]).astype(np.float32)
        # Where cell 0 of a row and a column lies, on the agent's right and ahead of it.
        self._left, self._far = middles[0], ahead - middles[0]

    def middles(self, position: Array, heading: Array) -> Floats:
        """Where the cells of agents [2, k, m] are: [2, k, m, cells, cells], x and z."""
        sine, cosine = np.sin(heading), np.cos(heading)
        weights = np.empty((2, *heading.shape, 3), np.float32)
        weights[0, ..., 0], weights[0, ..., 1] = cosine, sine
        weights[1, ..., 0], weights[1, ..., 1] = -sine, cosine
        weights[..., 2] = position
        return (weights @ self._basis).reshape(2, *heading.shape, self.cells, self.cells)

    def paint(
        self,
        channels: Floats | NDArray[np.uint8],
        position: Array,
        heading: Array,
        squares: Array,
        present: NDArray[np.bool_],
        tags: NDArray[np.intp],
    ) -> None:
        """Set the cells into which squares reach to 1.

        Args:
            channels: [k, m, tags, cells, cells], of agents [2, k, m].
            position, heading: Those of the agents.
            squares: [4, k, b]: center x, z, angle, half the edge.
            present: [k, m, b], which squares an agent may see.
            tags: [b], the squares' channels.
        """
        # A cell that a square reaches has its center within the square, made larger by half a cell.
        half = squares[3, :, None] + 0.5
        right, ahead = seen_from(position, heading, squares[:2])
        column, row = right - self._left, self._far - ahead
        around = half * np.sqrt(2)
        outside = np.maximum(np.abs(column - self.cells / 2 + 0.5), np.abs(row - self.cells / 2 + 0.5))
        area, member, square = np.nonzero((outside < self.cells / 2 + around) & present)
        column, row = column[area, member, square], row[area, member, square]
        window = np.arange(-int(around.max()) - 1, int(around.max()) + 2)
        columns = np.rint(column).astype(np.intp)[:, None] + window
        rows = np.rint(row).astype(np.intp)[:, None] + window
        turn = heading[area, member] + squares[2, area, square]
        cosine, sine = np.cos(turn)[:, None, None], np.sin(turn)[:, None, None]
        x, z = (columns - column[:, None])[:, None, :], (row[:, None] - rows)[:, :, None]
        half = squares[3, area, square][:, None, None] + 0.5
        inside = np.maximum(np.abs(x * cosine + z * sine), np.abs(z * cosine - x * sine)) < half
        inside &= ((rows >= 0) & (rows < self.cells))[:, :, None]
        inside &= ((columns >= 0) & (columns < self.cells))[:, None, :]
        which, i, j = np.nonzero(inside)
        channels[area[which], member[which], tags[square[which]], rows[which, i], columns[which, j]] = 1


@dataclass(frozen=True, slots=True)
class RayTargets:
    """What rays can hit in k areas. Tags count from 0; -1 hides what it stops."""

    half: float
    """Half the edge of the ground; its walls have tag 0."""
    circles: Array
    """The circles in each area, [3, k, c]: x, z, radius."""
    circle_tags: NDArray[np.intp]
    """The tags of the circles, [c]."""
    boxes: Array
    """The boxes, along the axes, in each area, [4, k, b]: center x, z, half the edges along x and z."""
    box_tags: NDArray[np.intp]
    """The tags of the boxes, [b]."""
    absent: NDArray[np.bool_]
    """What an agent's rays ignore, [k, m, c + b]: the agent itself, bodies that are gone."""
    farthest: Array | None = None
    """The meters from an agent beyond which its rays pass over a thing, [k, m, c + b]; None if over none."""


class RaySensor:
    """Unity's ray sensor on the ground: sphere casts in a fan of directions.

    Each ray has one number per tag, 1 for what it hit; 1 if it hit nothing; and how far it went, as a share
    of its length. Rays come in the order center, first right, first left, second right, ...
    """

    def __init__(self, per_side: int, degrees: float, length: float, tags: int, radius: float = 0.5) -> None:
        """`per_side`: rays on either side of the central one; `degrees`: of the outermost."""
        steps = np.arange(1, per_side + 1) * np.radians(degrees) / per_side
        self._angles = np.concatenate([[0], np.stack([steps, -steps], axis=1).ravel()])
        self._length, self._radius, self.tags = length, radius, tags
        self.count = len(self._angles)
        self.size = (tags + 2) * self.count

    def observe(self, position: Array, heading: Array, around: RayTargets) -> Floats:
        """The observations of agents [2, k, m]: [k, m, size]."""
        rays = self.directions(heading)
        circles = to_circles(position, rays, around.circles, self._radius)
        boxes = _to_boxes(position, rays, around.boxes, self._radius)
        walls = _to_walls(position, rays, around.half - self._radius)
        distances = np.concatenate([circles, boxes, walls[..., None]], axis=3)
        things = distances[..., :-1]
        things[np.broadcast_to(around.absent[:, :, None], things.shape)] = _MISSED
        if around.farthest is not None:
            things[things > around.farthest[:, :, None]] = _MISSED
        nearest = distances.argmin(axis=3)
        distance = np.take_along_axis(distances, nearest[..., None], axis=3)[..., 0]
        return self.encode(
            distance, np.concatenate([around.circle_tags, around.box_tags, [_WALL_TAG]])[nearest]
        )

    def directions(self, heading: Array) -> Array:
        """Where the rays of agents with headings [k, m] go, x and z: [2, k, m, rays]."""
        angles = heading[..., None] + self._angles
        return np.stack([np.sin(angles), np.cos(angles)])

    def encode(self, distance: Array, tag: NDArray[np.intp]) -> Floats:
        """Encode the distances [k, m, rays] and tags of the nearest things: [k, m, size]."""
        missed = distance > self._length
        obs = np.zeros((*tag.shape, self.tags + 2), np.float32)
        obs[..., : self.tags] = (tag[..., None] == np.arange(self.tags)) & ~missed[..., None]
        obs[..., -2] = missed
        obs[..., -1] = np.minimum(distance / self._length, 1)
        return obs.reshape(*tag.shape[:2], self.size)


def to_circles(position: Array, rays: Array, circles: Array, radius: float) -> Array:
    """How far cast spheres travel until they touch circles: [k, m, rays, c], infinite for a miss."""
    away = (circles[:2, :, None] - position[..., None])[:, :, :, None]
    along = away[0] * rays[0][..., None] + away[1] * rays[1][..., None]
    outside = away[0] ** 2 + away[1] ** 2 - ((circles[2] + radius) ** 2)[:, None, None]
    square = along**2 - outside
    hit = (square > 0) & (along > 0)
    return np.where(hit, np.maximum(along - np.sqrt(np.maximum(square, 0)), 0), _MISSED)


def _to_boxes(position: Array, rays: Array, boxes: Array, radius: float) -> Array:
    """Like `to_circles`, but for boxes; spheres count as squares along the axes, wrong at corners only."""
    inverse = 1 / np.where(np.abs(rays) < 1e-9, 1e-9, rays)[..., None]
    middle = (boxes[:2, :, None] - position[..., None])[:, :, :, None] * inverse
    reach = np.abs((boxes[2:] + radius)[:, :, None, None] * inverse)
    enter = (middle - reach).max(axis=0)
    leave = (middle + reach).min(axis=0)
    return np.where((enter <= leave) & (leave > 0), np.maximum(enter, 0), _MISSED)


def _to_walls(position: Array, rays: Array, half: float) -> Array:
    """How far the rays go until they meet a wall, [k, m, rays]: from inside there is always one ahead."""
    rays = np.where(np.abs(rays) < 1e-9, 1e-9, rays)
    way: Array = (np.copysign(half, rays) - position[..., None]) / rays
    distance: Array = np.maximum(way.min(axis=0), 0)
    return distance


class FrameStack:
    """The last frames of a sensor of each agent, the oldest first; zeros before an episode."""

    def __init__(self, areas: int, members: int, frames: int, size: int) -> None:
        self._seen = np.zeros((areas, members, frames, size), np.float32)

    def clear(self, areas: NDArray[np.intp]) -> None:
        """Start an episode in these areas."""
        self._seen[areas] = 0

    def push(self, frame: Floats) -> Floats:
        """Add a frame [areas, members, size]; return the stack [areas, members, frames * size]."""
        self._seen[:, :, :-1] = self._seen[:, :, 1:]
        self._seen[:, :, -1] = frame
        return self._seen.reshape(*self._seen.shape[:2], -1).copy()

    def peek(self, areas: NDArray[np.intp], frame: Floats) -> Floats:
        """What `push` would return for some areas [k], without storing the frame."""
        seen = np.concatenate([self._seen[areas, :, 1:], frame[:, :, None]], axis=2)
        return seen.reshape(*seen.shape[:2], -1)
