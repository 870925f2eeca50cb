"""Balls that fall, roll and slide on boxes which are turned under them, as PhysX would have it.

Every array has the balls as its last axis, and one call steps all of them: the cost of a step is a fixed
number of array operations. Axes are Unity's: left-handed, y up. Lengths are metres, times seconds; the
mass of a ball cancels out of everything, because the boxes cannot be moved.

The solver is PhysX 3's for one contact between a sphere and something immovable, written down from its
published behaviour and checked against what a real Unity player reported (tests/envs/scenes/
test_physics.py): position and velocity are solved with different aims. The position solution removes 80 %
of a penetration in a step and lets the ball come 80 % nearer across a gap; the velocity that remains only
stops the approach. Friction is Coulomb's, at most `FRICTION` times the push of the same solution.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Indices = slice | NDArray[np.intp] | NDArray[np.int32]

TIME_STEP = 0.02
GRAVITY = 9.81
FRICTION = 0.6
"""Unity's default material, static and dynamic."""
CONTACT_OFFSET = 0.02
"""Two colliders' contact offsets of 0.01: nearer than this the solver sees a contact."""
MAX_SPIN = 7.0
"""Unity's default limit of the angular velocity, rad/s: a faster ball slides more than it rolls."""

_TIME_STEP = np.float32(TIME_STEP)
_FRICTION = np.float32(FRICTION)
_CORRECTION_SPEED = np.float32(0.8 / TIME_STEP)
_MAX_DEPENETRATION = np.float32(10)
_ROLLING = np.float32(1 / 3.5)
"""1 / (1 + m r² / I) with I = 2/5 m r²: the part of the slip that friction has to give to the velocity."""
_TWIST = np.float32(1 / 0.4)
"""m r² / I: what a velocity given by friction adds to the speed of the ball's surface."""
_TINY = np.float32(1e-12)


def quaternion_products() -> Array:
    """The matrix [9, 16] that turns the products q_i q_j of a unit quaternion (x, y, z, w) into the
    rotation matrix, both flattened by rows.
    """
    x, y, z, w = range(4)
    rows = [
        {(w, w): 1, (x, x): 1, (y, y): -1, (z, z): -1},
        {(x, y): 2, (z, w): -2},
        {(x, z): 2, (y, w): 2},
        {(x, y): 2, (z, w): 2},
        {(w, w): 1, (y, y): 1, (x, x): -1, (z, z): -1},
        {(y, z): 2, (x, w): -2},
        {(x, z): 2, (y, w): -2},
        {(y, z): 2, (x, w): 2},
        {(w, w): 1, (z, z): 1, (x, x): -1, (y, y): -1},
    ]
    matrix = np.zeros((9, 4, 4), np.float32)
    for row, terms in zip(matrix, rows):
        for place, factor in terms.items():
            row[place] = factor
    return matrix.reshape(9, 16)


_PRODUCTS = quaternion_products()


def rotations(quaternions: Array) -> Array:
    """Rotation matrices [3, 3, ...] (world from body) of unit quaternions [4, ...] x, y, z, w."""
    products = quaternions[:, None] * quaternions[None]
    shape = quaternions.shape[1:]
    matrices: Array = (_PRODUCTS @ products.reshape(16, -1)).reshape(3, 3, *shape)
    return matrices


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
        self._radius: Array = np.full(count, 0.5, np.float32)
        self._smallest_radius = 0.5
        # The matrix of (spin x) times the radius: applied to a normal it is the surface's velocity there,
        # and no step needs a cross product or the radius.
        self._surface: Array = np.zeros((3, 3, count), np.float32)
        self._push: Array = np.zeros((2, count), np.float32)
        self._half_extent = np.float32(half_extent)

    @property
    def radius(self) -> Array:
        """Of each ball [n]; read only, see `set_radius`."""
        return self._radius

    def set_radius(self, which: Indices, radius: Array) -> None:
        """Give the balls `which` other radii; they keep their spin."""
        self._surface[..., which] *= radius / self._radius[which]
        self._radius[which] = radius
        self._smallest_radius = float(self._radius.min())

    @property
    def spin(self) -> Array:
        """Angular velocity [3, n], rad/s."""
        surface = self._surface
        return np.stack([surface[2, 1], surface[0, 2], surface[1, 0]]) / self._radius

    def step(self, rotation: Array) -> None:
        """Pass `TIME_STEP` with the boxes turned by `rotation` [3, 3, n] (world from box)."""
        self.velocity[1] -= np.float32(self.gravity * TIME_STEP)
        self._surface *= np.float32(1 - self.angular_drag * TIME_STEP)
        normal, overlap = self._find_contacts(rotation)
        if overlap.max() > -CONTACT_OFFSET:
            self._solve(normal, overlap)
        else:
            self.position += self.velocity * _TIME_STEP

    def _find_contacts(self, rotation: Array) -> tuple[Array, Array]:
        """The directions [3, n] in which the boxes push, and how deep [n] the balls are in them.

        A negative depth is the room between them.
        """
        local = np.einsum("ijn,in->jn", rotation, self.position)
        nearest = np.maximum(local, -self._half_extent)
        np.minimum(nearest, self._half_extent, out=nearest)
        local -= nearest
        distance: Array = np.sqrt(np.einsum("in,in->n", local, local))
        overlap: Array = self._radius - distance
        if overlap.max() >= self._smallest_radius:
            self._leave_inside(nearest, local, distance, overlap)
        local /= distance
        return np.einsum("ijn,jn->in", rotation, local), overlap

    def _leave_inside(self, centre: Array, local: Array, distance: Array, overlap: Array) -> None:
        """Balls whose centre is inside the box are pushed through the nearest face."""
        (inside,) = np.nonzero(distance == 0)
        depth = self._half_extent - np.abs(centre[:, inside])
        axis = depth.argmin(axis=0)
        local[axis, inside] = np.where(centre[axis, inside] < 0, -1, 1)
        distance[inside] = 1
        overlap[inside] += depth.min(axis=0)

    def _solve(self, normal: Array, overlap: Array) -> None:
        """Solve the contacts, then move and turn the balls."""
        velocity, push = self.velocity, self._push
        approach = np.einsum("in,in->n", velocity, normal)

        # Row 0 is the solution that moves the ball, row 1 the one that leaves it its velocity.
        np.minimum(overlap * _CORRECTION_SPEED, _MAX_DEPENETRATION, out=push[0])
        np.minimum(push[0], 0, out=push[1])
        push -= approach
        np.maximum(push, 0, out=push)
        push *= overlap > -CONTACT_OFFSET

        # What friction would have to give in order that the ball's surface rests on the box.
        stick = np.einsum("ijn,jn->in", self._surface, normal)
        stick -= velocity
        stick += normal * approach
        stick *= _ROLLING
        size = np.sqrt(np.einsum("in,in->n", stick, stick))
        size += _TINY
        share = push * _FRICTION
        share /= size
        np.minimum(share, 1, out=share)

        friction = stick * share[:, None]
        change = normal * push[:, None]
        change += friction
        self.position += (velocity + change[0]) * _TIME_STEP
        velocity += change[1]
        self._turn(normal, friction[1])

    def _turn(self, normal: Array, friction: Array) -> None:
        """The spin that friction [3, n] (impulse per mass) at the lowest point gives."""
        twist = normal[:, None] * friction
        surface = self._surface
        surface += (twist - twist.swapaxes(0, 1)) * _TWIST
        # The sum of squares over the matrix counts each component of the spin twice.
        square = np.einsum("ijn,ijn->n", surface, surface)
        if square.max() > 2 * (MAX_SPIN * self._smallest_radius) ** 2:
            limit = 2 * (MAX_SPIN * self._radius) ** 2
            surface *= np.sqrt(np.minimum(limit / np.maximum(square, _TINY), 1))


class Boxes:
    """Orientations of n boxes that agents turn about the boxes' own z and x axes."""

    def __init__(self, count: int, limit: float) -> None:
        """`limit`: a turn is refused once the quaternion's z (x) component is beyond it on that side."""
        # ((x, y), (z, w)): a turn about z exchanges within the pairs, one about x crosswise, both views.
        self._quaternion: Array = np.zeros((2, 2, count), np.float32)
        self._limit = np.float32(limit)
        self.set(slice(None), np.float32([0, 0, 0, 1])[:, None])

    @property
    def quaternion(self) -> Array:
        """Unit quaternions [4, n], x, y, z, w; a view."""
        return self._quaternion.reshape(4, -1)

    def set(self, which: Indices, quaternion: Array) -> None:
        """Put the boxes `which` into an orientation [4, m]."""
        self.quaternion[:, which] = quaternion

    def turn(self, degrees: Array, times: int) -> Array:
        """Turn each box by `degrees` [2, n] about its z axis, then its x axis, `times` times.

        Returns:
            The quaternions [4, times, n] after each turn.
        """
        q = self._quaternion
        half = degrees * np.float32(math.pi / 360)
        toward = np.sign(half)
        less = np.cos(half)
        less -= 1
        # x' = c x + s y, y' = c y - s x, z' = c z + s w, w' = c w - s z
        about_z = np.sin(half[0]) * _Z_SIGNS
        # x' = c x + s w, y' = c y + s z, z' = c z - s y, w' = c w - s x
        about_x = np.sin(half[1]) * _X_SIGNS
        path = np.empty((4, times, q.shape[-1]), np.float32)
        for k in range(times):
            change = less[0] * q
            change += about_z * q[:, ::-1]
            np.add(q, change, out=q, where=toward[0] * q[1, 0] < self._limit)
            change = less[1] * q
            change += about_x * q[::-1, ::-1]
            np.add(q, change, out=q, where=toward[1] * q[0, 0] < self._limit)
            path[:, k] = self.quaternion
        # float32 loses about 1e-7 a turn; without this an episode of 5000 would drift visibly.
        q /= np.sqrt(np.einsum("ijn,ijn->n", q, q))
        return path


_Z_SIGNS = np.float32([[1, -1], [1, -1]])[:, :, None]
_X_SIGNS = np.float32([[1, 1], [-1, -1]])[:, :, None]


def from_euler(x: Array, z: Array) -> Array:
    """Quaternions [4, n] of boxes turned by `x` degrees about x, then by `z` degrees about their own z."""
    a, b = np.radians(x) / 2, np.radians(z) / 2
    sin_a, cos_a, sin_b, cos_b = np.sin(a), np.cos(a), np.sin(b), np.cos(b)
    return np.stack([sin_a * cos_b, -sin_a * sin_b, cos_a * sin_b, cos_a * cos_b]).astype(np.float32)
