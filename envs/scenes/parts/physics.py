"""The physics of balls on boxes that are turned under them, as PhysX computes it.

Every array has the balls as its last axis, and one call steps all of them: the cost of a step is a fixed
number of array operations. Axes are Unity's: left-handed, y up. Lengths are in meters, times in seconds;
the mass of a ball cancels out because the boxes cannot be moved.

The solver is PhysX 3's for one contact between a sphere and a static body, derived from its published
behavior and checked against what a real Unity player reported (`test_physics.py`). Position and velocity
are solved with different targets: the solution for the position corrects 80 % of a penetration
per step and closes 80 % of a gap; the one for the velocity only stops the approach. The contact is a point
on the box's surface, at which Coulomb friction acts, at most `FRICTION` times the normal impulse of the
same solution.

With a dozen balls, only the number and kind of NumPy calls matter. Operations on arrays of equal shape and
products with small constant matrices take a fifth of the time of broadcasting, `einsum` and `max`. Sums
over components are therefore repeated in every row ([3, n] where [n] would do), and vectors [k, n] are
rearranged by the constant matrices at the end of this module.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Indices = slice | NDArray[np.intp] | NDArray[np.int32]

TIME_STEP = 0.02
GRAVITY = 9.81
FRICTION = 0.6
"""The friction of Unity's default material, static and dynamic."""
CONTACT_OFFSET = 0.02
"""Two colliders' contact offsets of 0.01: nearer than this the solver sees a contact."""
MAX_SPIN = 7.0
"""Unity's default limit of the angular velocity, rad/s: a faster ball slides more than it rolls."""

_TIME_STEP = np.float32(TIME_STEP)
_FRICTION = np.float32(FRICTION)
_NEAR = np.float32(-CONTACT_OFFSET)
_CORRECTION_SPEED = np.float32(0.8 / TIME_STEP)
_MAX_DEPENETRATION = np.float32(10)
_TWIST = np.float32(1 / 0.4)
"""m r² / I with I = 2/5 m r²: what a velocity given by friction adds to the speed of the ball's surface."""
_TINY = np.float32(1e-12)
_ZERO, _ONE = np.float32(0), np.float32(1)


class Balls:
    """n balls, each above its own box at the origin; a box is immovable for the balls."""

    def __init__(self, count: int, half_extent: float) -> None:
        """`half_extent`: half the edge of the cubes."""
        self.motion: Array = np.zeros((6, count), np.float32)
        """Position and velocity of each ball, one above the other."""
        self.position: Array = self.motion[:3]
        self.velocity: Array = self.motion[3:]
        self.gravity = GRAVITY
        self.angular_drag = 0.05
        self._radius: Array = np.full((3, count), 0.5, np.float32)
        self._negative_inverse_radius: Array = -_ONE / self._radius
        self._smallest_radius = 0.5
        # Spin times radius: the speed of the surface. With it no step needs the radius again.
        self._roll: Array = np.zeros((3, count), np.float32)
        self._top, self._bottom = np.float32(half_extent), np.float32(-half_extent)

    @property
    def radius(self) -> Array:
        """The radius of each ball, [n]; read only, see `set_radius`."""
        radius: Array = self._radius[0]
        return radius

    def set_radius(self, which: Indices, radius: Array) -> None:
        """Give the balls `which` other radii; they keep their spin."""
        self._roll[:, which] *= radius / self._radius[0, which]
        self._radius[:, which] = radius
        self._negative_inverse_radius = -_ONE / self._radius
        self._smallest_radius = float(self._radius.min())

    @property
    def spin(self) -> Array:
        """The angular velocity of each ball, [3, n], rad/s."""
        return self._roll / self._radius

    def step(self, rotation: Array) -> None:
        """Pass `TIME_STEP` with the boxes turned by `rotation` [9, n] (see `rotations`)."""
        self.velocity[1] -= np.float32(self.gravity * TIME_STEP)
        self._roll *= np.float32(1 - self.angular_drag * TIME_STEP)
        normal, overlap = self._find_contacts(rotation)
        if _largest(overlap) > -CONTACT_OFFSET:
            self._solve(normal, overlap)
        else:
            self.position += self.velocity * _TIME_STEP

    def _find_contacts(self, rotation: Array) -> tuple[Array, Array]:
        """The directions in which the boxes push, and how deep the balls are in them, both [3, n].

        A negative depth is the room between them.
        """
        local = ROW_SUM.dot(rotation * ROW_TILE.dot(self.position))
        nearest = np.maximum(local, self._bottom)
        np.minimum(nearest, self._top, out=nearest)
        local -= nearest
        distance = np.sqrt(SUM.dot(local * local))
        overlap: Array = self._radius - distance
        if _largest(overlap) >= self._smallest_radius:
            self._leave_inside(nearest, local, distance, overlap)
        local /= distance
        return COLUMN_SUM.dot(rotation * COLUMN_TILE.dot(local)), overlap

    def _leave_inside(self, center: Array, local: Array, distance: Array, overlap: Array) -> None:
        """Push balls whose center is inside the box through the nearest face."""
        (inside,) = np.nonzero(distance[0] == 0)
        depth = self._top - np.abs(center[:, inside])
        axis = depth.argmin(axis=0)
        local[axis, inside] = np.where(center[axis, inside] < 0, -1, 1)
        distance[:, inside] = 1
        overlap[:, inside] += depth.min(axis=0)

    def _solve(self, normal: Array, overlap: Array) -> None:
        """Solve the contacts, then move and turn the balls."""
        velocity, roll = self.velocity, self._roll
        approach = SUM.dot(velocity * normal)
        touching = overlap > _NEAR

        # The push that moves the ball, and the one that leaves it its velocity.
        moving = np.minimum(overlap * _CORRECTION_SPEED, _MAX_DEPENETRATION)
        keeping = np.minimum(moving, _ZERO)
        moving -= approach
        keeping -= approach
        np.maximum(moving, _ZERO, out=moving)
        np.maximum(keeping, _ZERO, out=keeping)
        moving *= touching
        keeping *= touching

        # What friction would have to give so that the ball rests on the box at the contact: a point on the
        # box's surface, which is nearer to the center of a ball that is pressed in. `lever`: as a share of r.
        lever = overlap * self._negative_inverse_radius
        lever += _ONE
        twist = lever * _TWIST
        stick = _cross(roll, normal)
        stick *= lever
        stick += normal * approach
        stick -= velocity
        lever *= twist
        lever += _ONE
        stick /= lever
        grip = _FRICTION / np.sqrt(SUM.dot(stick * stick) + _TINY)

        move = stick * np.minimum(moving * grip, _ONE)
        move += normal * moving
        move += velocity
        move *= _TIME_STEP
        self.position += move
        friction = stick * np.minimum(keeping * grip, _ONE)
        velocity += normal * keeping
        velocity += friction
        turn = _cross(friction, normal)
        turn *= twist
        roll += turn
        self._limit_spin()

    def _limit_spin(self) -> None:
        speed = SUM.dot(self._roll * self._roll)
        if _largest(speed) > (MAX_SPIN * self._smallest_radius) ** 2:
            limit = (np.float32(MAX_SPIN) * self._radius) ** 2
            self._roll *= np.sqrt(np.minimum(limit / np.maximum(speed, _TINY), _ONE))


class Boxes:
    """Orientations of n boxes that are turned about their own z and x axes."""

    def __init__(self, count: int, limit: float) -> None:
        """`limit`: a turn is refused once the quaternion's z (x) component is beyond it on that side."""
        self.quaternion: Array = np.zeros((4, count), np.float32)
        """Unit quaternions, x, y, z, w."""
        self.quaternion[3] = 1
        self._limit = np.float32(limit)
        self._toward = np.zeros((2, count), np.float32)
        self._cosine = np.ones((2, 4, count), np.float32)
        self._sine = np.zeros((2, 4, count), np.float32)

    def set(self, which: Indices, quaternion: Array) -> None:
        """Put the boxes `which` into an orientation [4, m], where they rest until the next command."""
        self.quaternion[:, which] = quaternion
        self._toward[:, which] = 0
        self._cosine[..., which] = 1
        self._sine[..., which] = 0

    def command(self, degrees: Array) -> None:
        """Make every `turn` from now on one by `degrees` [2, n] about z and x."""
        half = degrees * np.float32(math.pi / 360)
        np.sign(half, out=self._toward)
        self._cosine[:] = np.cos(half)[:, None]
        self._sine[:] = np.sin(half)[:, None]
        # float32 loses about 1e-7 a turn; without this an episode of 5000 would drift visibly.
        quaternion = self.quaternion
        self.quaternion = quaternion / np.sqrt(np.einsum("in,in->n", quaternion, quaternion))

    def turn(self) -> Array:
        """Turn the boxes once; return their `rotations`."""
        self._turn_about(0, TURN_Z, 2)
        self._turn_about(1, TURN_X, 0)
        return rotations(self.quaternion)

    def _turn_about(self, index: int, exchange: Array, component: int) -> None:
        quaternion = self.quaternion
        turned = quaternion * self._cosine[index]
        turned += exchange.dot(quaternion) * self._sine[index]
        allowed = self._toward[index] * quaternion[component] < self._limit
        self.quaternion = turned if allowed.item(allowed.argmin()) else np.where(allowed, turned, quaternion)


def rotations(quaternions: Array) -> Array:
    """Rotation matrices (world from body), flattened by rows to [9, n], of unit quaternions [4, n]."""
    products = QUATERNION_FIRST.dot(quaternions) * QUATERNION_SECOND.dot(quaternions)
    matrices: Array = QUATERNION_TO_MATRIX.dot(products)
    return matrices


def from_euler(x: Array, z: Array) -> Array:
    """Quaternions [4, n] of boxes turned by `x` degrees about x, then by `z` degrees about their own z."""
    a, b = np.radians(x) / 2, np.radians(z) / 2
    sin_a, cos_a, sin_b, cos_b = np.sin(a), np.cos(a), np.sin(b), np.cos(b)
    return np.stack([sin_a * cos_b, -sin_a * sin_b, cos_a * sin_b, cos_a * cos_b]).astype(np.float32)


def _cross(left: Array, right: Array) -> Array:
    product: Array = CROSS_SUM.dot(CROSS_LEFT.dot(left) * CROSS_RIGHT.dot(right))
    return product


def _largest(values: Array) -> float:
    return float(values.item(values.argmax()))


def _matrix(width: int, rows: Sequence[Mapping[int, float]]) -> NDArray[np.float32]:
    matrix = np.zeros((len(rows), width), np.float32)
    for row, entries in zip(matrix, rows):
        for column, value in entries.items():
            row[column] = value
    return matrix


_AXES = range(3)

SUM = np.ones((3, 3), np.float32)
"""The matrix that takes [3, n] to the sum over the components, in each of 3 rows."""

# A matrix M [3, 3] lies flattened by rows; transpose(M) v = ROW_SUM (M * ROW_TILE v), M v = COLUMN_...
ROW_TILE = _matrix(3, [{i: 1} for i in _AXES for _ in _AXES])
ROW_SUM = _matrix(9, [{3 * i + j: 1 for i in _AXES} for j in _AXES])
COLUMN_TILE = _matrix(3, [{j: 1} for _ in _AXES for j in _AXES])
COLUMN_SUM = _matrix(9, [{3 * i + j: 1 for j in _AXES} for i in _AXES])

# a x b = CROSS_SUM (CROSS_LEFT a * CROSS_RIGHT b): the products a1 b2, a2 b0, a0 b1, a2 b1, a0 b2, a1 b0.
CROSS_LEFT = _matrix(3, [{k: 1} for k in (1, 2, 0, 2, 0, 1)])
CROSS_RIGHT = _matrix(3, [{k: 1} for k in (2, 0, 1, 1, 2, 0)])
CROSS_SUM = _matrix(6, [{i: 1, i + 3: -1} for i in _AXES])

# A quaternion (x, y, z, w) turned by an angle t about its own axis is cos(t/2) q + sin(t/2) TURN q.
TURN_Z = _matrix(4, [{1: 1}, {0: -1}, {3: 1}, {2: -1}])
TURN_X = _matrix(4, [{3: 1}, {2: 1}, {1: -1}, {0: -1}])

# The ten products of two components, and the rotation matrix that they make.
_PAIRS = [(i, j) for i in range(4) for j in range(i, 4)]
QUATERNION_FIRST = _matrix(4, [{i: 1} for i, _ in _PAIRS])
QUATERNION_SECOND = _matrix(4, [{j: 1} for _, j in _PAIRS])
_XX, _XY, _XZ, _XW, _YY, _YZ, _YW, _ZZ, _ZW, _WW = range(10)
QUATERNION_TO_MATRIX = _matrix(
    10,
    [
        {_WW: 1, _XX: 1, _YY: -1, _ZZ: -1},
        {_XY: 2, _ZW: -2},
        {_XZ: 2, _YW: 2},
        {_XY: 2, _ZW: 2},
        {_WW: 1, _YY: 1, _XX: -1, _ZZ: -1},
        {_YZ: 2, _XW: -2},
        {_XZ: 2, _YW: -2},
        {_YZ: 2, _XW: 2},
        {_WW: 1, _ZZ: 1, _XX: -1, _YY: -1},
    ],
)
