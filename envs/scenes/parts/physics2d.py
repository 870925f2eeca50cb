"""Bodies that push each other on level ground, in any number of areas at once.

An area holds n bodies, the same in every area: circles (agents) and squares (blocks, columns). Squares turn
as they are pushed; a square of infinite mass stays where it is. Arrays have the areas before the bodies, so
that one call steps them all: a step is a fixed number of array operations, and those for contacts are made
only for the pairs that touch.

Contacts are solved by projected Jacobi iterations with mass splitting (Tonge, Benevolenski and Voroshilov,
"Mass Splitting for Jitter-Free Parallel Rigid Body Simulation", 2012): a body with k contacts takes part in
each of them with a k-th of its mass, so that all contacts can be solved at once and still converge.

Lengths are meters, times seconds, masses kilograms; x points right, z up the ground, seen from above.

Contacts are found by probes, for all pairs of bodies of all areas at once: a point of one body, with a
radius around it, against another body's square. A circle probes a square with its center; a circle is a
square without extent to another circle; two squares probe each other with their corners.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]
Indices = NDArray[np.intp]

TIME_STEP = 0.02
DECISION_PERIOD = 5
"""Physics steps from one decision of an agent to the next; its action is repeated in between."""
GRAVITY = 9.81
FRICTION = 0.6
"""Between two of Unity's default materials."""

_ITERATIONS = 6
_CORRECTION = 0.2 / TIME_STEP
"""A fifth of a penetration is undone in a step."""
_SLOP = 0.005
"""Meters of penetration that may stay, so that resting contacts do not flicker."""
_FASTEST_CORRECTION = 2.0
_ANGULAR_DRAG = 0.05
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class RigidBody:
    """What a body of every area is."""

    half: float
    """The radius of a circle, half the edge of a square."""
    mass: float
    """Infinite for what nothing moves."""
    drag: float = 0.0
    """The part of the velocity that is lost per second."""
    square: bool = False


class Ground:
    """The same bodies on a square ground with walls around it, in every area."""

    def __init__(
        self, areas: int, half: float, bodies: Sequence[RigidBody], gravity: float = GRAVITY
    ) -> None:
        """`half`: half the edge of the ground. `bodies`: circles before squares."""
        self.half = half
        self.shape = (areas, len(bodies))
        squares = np.array([body.square for body in bodies])
        sizes = np.array([body.half for body in bodies])
        masses = np.array([body.mass for body in bodies])
        self.pose: Array = np.zeros((3, *self.shape))
        """x, z and angle [3, areas, n]; angles turn from x to z and only squares have one."""
        self.motion: Array = np.zeros((3, *self.shape))
        """The pose's rate of change."""
        self.present: NDArray[np.bool_] = np.ones(self.shape, np.bool_)
        """Which bodies are present; changed by `put` and `remove`."""
        self._edge = np.tile(np.where(squares, sizes, 0), (areas, 1))
        self._radius = np.tile(np.where(squares, 0, sizes), (areas, 1))
        self._squares = slice(int(len(bodies) - squares.sum()), len(bodies))
        drag = np.array([body.drag for body in bodies])
        self._keep = np.empty((3, *self.shape))
        self._keep[:2] = 1 - drag * TIME_STEP
        self._keep[2] = 1 - _ANGULAR_DRAG * TIME_STEP
        self._grip = FRICTION * gravity * TIME_STEP
        # A square pressed evenly on the ground: torque / inertia, with a mean lever of 0.765 half edges.
        self._twist_grip = self._grip * 0.765 * 1.5 / np.maximum(self._edge[:, self._squares], _TINY)
        inverse = np.zeros((3, *self.shape))
        inverse[:2] = 1 / masses
        inverse[2] = np.where(squares, 1.5 / (masses * np.maximum(sizes, _TINY) ** 2), 0)
        self._inverse_mass = inverse.ravel()
        self._probes = make_probes(bodies)
        self._near = np.empty((0, 0))
        self._cosine, self._sine = np.ones(self.shape), np.zeros(self.shape)
        self._follow_presence()

    @property
    def extent(self) -> Array:
        """How far each body [areas, n] reaches from its center along x and z."""
        extent: Array = self._edge * (np.abs(self._cosine) + np.abs(self._sine)) + self._radius
        return extent

    def put(self, areas: Indices, pose: Array) -> None:
        """All bodies of these areas to poses [3, k, n], present and at rest."""
        self.pose[:, areas] = pose
        self.motion[:, areas] = 0
        self.present[areas] = True
        self._follow_presence()

    def remove(self, areas: Indices, bodies: Indices) -> None:
        """Take bodies away: they stand still and nothing touches them any more."""
        self.motion[:, areas, bodies] = 0
        self.present[areas, bodies] = False
        self._follow_presence()

    def step(self, push: Array) -> None:
        """Pass `TIME_STEP`. `push`: what is added to the velocities of the first bodies, [2, areas, m]."""
        motion = self.motion
        motion[:2, :, : push.shape[2]] += push
        motion *= self._keep
        self._collide()
        self._rub()
        self.pose += motion * TIME_STEP
        self._turn()
        self._stop_at_walls()

    def _follow_presence(self) -> None:
        self._near = find_pairs(self._probes, self.present)
        self._turn()

    def _turn(self) -> None:
        angle = self.pose[2, :, self._squares]
        np.cos(angle, out=self._cosine[:, self._squares])
        np.sin(angle, out=self._sine[:, self._squares])

    def _rub(self) -> None:
        """Friction of the ground slows everything by the same, whatever its mass."""
        motion = self.motion
        speed = np.hypot(motion[0], motion[1])
        np.maximum(speed, self._grip + _TINY, out=speed)
        motion[:2] *= 1 - self._grip / speed
        spin = motion[2, :, self._squares]
        spin -= np.minimum(np.maximum(spin, -self._twist_grip), self._twist_grip)

    def _stop_at_walls(self) -> None:
        position = self.pose[:2]
        limit = self.half - self.extent
        inside = np.minimum(np.maximum(position, -limit), limit)
        self.motion[:2] *= inside == position
        position[:] = inside

    def _collide(self) -> None:
        """Change the velocities so that what touches does not go on into each other."""
        contacts = touching(self._probes, self._near, self.pose, self._cosine, self._sine, self._edge)
        if contacts is None:
            return
        count = self.pose[0].size
        bodies, jacobian = contacts.bodies, contacts.jacobian
        rows = np.concatenate(
            [bodies[0] + [[0], [count], [2 * count]], bodies[1] + [[0], [count], [2 * count]]]
        )
        weighted = jacobian * self._inverse_mass[rows]
        shares = np.bincount(bodies.ravel(), minlength=count)[bodies]
        resistance = (jacobian * weighted).reshape(2, 3, -1).sum(axis=1)
        scale = 1 / (resistance * shares).sum(axis=0)
        wanted = np.minimum((contacts.depth - _SLOP) * _CORRECTION, _FASTEST_CORRECTION)
        np.maximum(wanted, 0, out=wanted)
        motion = self.motion.reshape(-1)
        impulse = np.zeros(len(wanted))
        where = rows.ravel()
        for _ in range(_ITERATIONS):
            approach = (jacobian * motion[rows]).sum(axis=0)
            before = impulse
            impulse = np.maximum(impulse + (wanted - approach) * scale, 0)
            change = weighted * (impulse - before)
            motion += np.bincount(where, change.ravel(), len(motion))


_CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1))


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
    """[c], meters by which they are in each other."""


def make_probes(bodies: Sequence[RigidBody]) -> Probes:
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
