"""Where circles and squares touch: all pairs of bodies of all areas at once.

Everything is told by probes: a point of one body, with a radius around it, against another body's square. A
circle probes a square with its centre; a circle is a square without extent to another circle; two squares
probe each other with their corners.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

_CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


class Shape(Protocol):
    """What has to be known of a body."""

    @property
    def half(self) -> float:
        """The radius, or half the edge."""

    @property
    def mass(self) -> float:
        """Infinite for what nothing moves."""

    @property
    def square(self) -> bool:
        """Whether it is a square."""


@dataclass(frozen=True, slots=True)
class Probes:
    """The K probes of an area whose P pairs of bodies can touch; the same in every area."""

    pairs: Indices
    """[2, P], two bodies each."""
    difference: Array
    """[n, P]: positions times this are the ways from each pair's second body to its first."""
    reach: Array
    """[P], squared: two bodies farther from each other cannot touch."""
    pair: Indices
    """[K], whose probe it is."""
    owner: Indices
    """[K], the body with the point."""
    square: Indices
    """[K], the body that is probed."""
    offset: Array
    """[2, K], the point in its owner's own axes."""
    radius: Array
    """[K], around the point."""


@dataclass(frozen=True, slots=True)
class Contacts:
    """c places where two bodies touch."""

    bodies: Indices
    """[2, c], flat indices of the bodies: whose point it is, and what it touches."""
    jacobian: Array
    """[6, c]: times both bodies' motions (x, z, angle), the speed at which they part there."""
    depth: Array
    """[c], metres by which they are in each other."""


def make_probes(bodies: Sequence[Shape]) -> Probes:
    """All probes between the bodies of an area, of which at least one can move."""
    pairs = [
        (i, j)
        for i, j in combinations(range(len(bodies)), 2)
        if np.isfinite(bodies[i].mass) or np.isfinite(bodies[j].mass)
    ]
    probes: list[tuple[int, int, int, float, float, float]] = []
    for number, (i, j) in enumerate(pairs):
        if not bodies[i].square:
            radius = bodies[i].half + (0 if bodies[j].square else bodies[j].half)
            probes.append((number, i, j, 0, 0, radius))
            continue
        for owner, square in ((i, j), (j, i)):
            half = bodies[owner].half
            probes += [(number, owner, square, x * half, z * half, 0) for x, z in _CORNERS]
    difference = np.zeros((len(bodies), len(pairs)))
    for number, (i, j) in enumerate(pairs):
        difference[i, number], difference[j, number] = 1, -1
    around = [body.half * (np.sqrt(2) if body.square else 1) for body in bodies]
    columns = list(zip(*probes)) if probes else [()] * 6
    indices = [np.array(column, np.intp) for column in columns[:3]]
    return Probes(
        pairs=np.array(pairs, np.intp).reshape(-1, 2).T,
        difference=difference,
        reach=np.array([(around[i] + around[j]) ** 2 for i, j in pairs]),
        pair=indices[0],
        owner=indices[1],
        square=indices[2],
        offset=np.array(columns[3:5], float),
        radius=np.array(columns[5], float),
    )


def find_pairs(probes: Probes, present: NDArray[np.bool_]) -> Array:
    """Squared distances [areas, P] below which a pair may touch; -1 where one of it is absent."""
    first, second = probes.pairs
    return np.where(present[:, first] & present[:, second], probes.reach, -1.0)


def touching(
    probes: Probes, near: Array, pose: Array, cosine: Array, sine: Array, edge: Array
) -> Contacts | None:
    """The contacts of now; None if nothing touches.

    Args:
        probes: Of the bodies.
        near: [areas, P], see `find_pairs`.
        pose: [3, areas, n], x, z and angle.
        cosine, sine: [areas, n], of the angles.
        edge: [areas, n], half the edges of the squares; 0 for circles.
    """
    areas, bodies_here = pose.shape[1:]
    apart = pose[:2].reshape(-1, bodies_here) @ probes.difference
    apart *= apart
    close = apart[:areas] + apart[areas:] < near
    if not close.any():
        return None
    area, k = np.nonzero(close[:, probes.pair])
    first = area * bodies_here
    owner, square = first + probes.owner[k], first + probes.square[k]
    place = pose[:2].reshape(2, -1)
    cos, sin = cosine.ravel(), sine.ravel()
    point = _turned(probes.offset[:, k], cos[owner], sin[owner])
    point += place[:, owner]
    cos, sin = cos[square], sin[square]
    local = _turned(point - place[:, square], cos, -sin)
    normal, depth = _leave(local, edge.ravel()[square], probes.radius[k])
    (hit,) = np.nonzero(depth > 0)
    if not len(hit):
        return None
    bodies = np.stack([owner, square])[:, hit]
    normal = _turned(normal[:, hit], cos[hit], sin[hit])
    depth = depth[hit]
    # Of a circle, the point that is deepest in the other; circles do not turn, so it matters to squares only.
    touch = point[:, hit] - normal * (probes.radius[k[hit]] - depth)
    arms = touch[:, None] - place[:, bodies]
    jacobian = np.empty((6, len(hit)))
    jacobian[:2], jacobian[3:5] = normal, -normal
    levers = arms[0] * normal[1] - arms[1] * normal[0]
    jacobian[2], jacobian[5] = levers[0], -levers[1]
    return Contacts(bodies, jacobian, depth)


def _leave(point: Array, half: Array, radius: Array) -> tuple[Array, Array]:
    """The shortest ways out of squares [c] for points [2, c] with radii, and how long they are."""
    nearest = np.minimum(np.maximum(point, -half), half)
    normal = point - nearest
    distance = np.hypot(normal[0], normal[1])
    depth: Array = radius - distance
    (inside,) = np.nonzero(distance == 0)
    if len(inside):
        room = half[inside] - np.abs(point[:, inside])
        axis = room.argmin(axis=0)
        normal[axis, inside] = np.where(point[axis, inside] < 0, -1, 1)
        distance[inside] = 1
        depth[inside] = radius[inside] + room.min(axis=0)
    normal /= distance
    return normal, depth


def _turned(vectors: Array, cosine: Array, sine: Array) -> Array:
    """Vectors [2, c] turned from x to z."""
    x, z = vectors
    return np.stack([cosine * x - sine * z, sine * x + cosine * z])
