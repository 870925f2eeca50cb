"""Players and a ball on a walled pitch, in any number of areas at once.

All are circles that do not turn physically. Whatever touches in a step is solved in that step: a step is a
fixed number of array operations, and those for contacts are made only for pairs that touch. Contacts are
solved by Jacobi iterations with mass splitting, as in `physics2d`.

Lengths are meters, times seconds, masses kilograms; x points from the goal of team 0 to that of team 1, z to
the left of it, seen from above.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..parts.physics2d import TIME_STEP, Array, Flags, Indices

PLAYERS = 4
"""The number of players in an area: two of team 0, then two of team 1; the ball follows."""
BALL = PLAYERS
PLAYER_RADIUS, BALL_RADIUS = 0.5, 0.62

_PLAYER_MASS, _BALL_MASS = 50.0, 3.0
_PLAYER_DRAG, _BALL_DRAG = 3.0, 1.0
_BOUNCE = 0.8
"""The share of the speed with which the ball bounces; players bounce off neither each other nor walls."""
_BOUNCE_THRESHOLD = 2.0
"""The speed in m/s below which nothing bounces."""
_TOUCH = 0.02
"""The contact offsets of colliders, in meters."""
_ITERATIONS = 4
_CORRECTION = 0.2 / TIME_STEP
_FASTEST_CORRECTION = 2.0
_CUT = 0.6
"""Meters along the side for each meter across that the walls beside a goal cut off: 60 degrees."""
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Pitch:
    """A rectangle whose ends are the goals: slanting walls lead from the sides to the posts."""

    length: float
    width: float
    goal: float
    """The meters between the posts."""

    @property
    def corners(self) -> Array:
        """The corners around the pitch, [2, 8], starting at the right post of team 1's goal."""
        x, z, post = self.length / 2, self.width / 2, self.goal / 2
        bend = x - _CUT * (z - post)
        xs = [x, x, bend, -bend, -x, -x, -bend, bend]
        return np.array([xs, [-post, post, z, z, post, -post, -z, -z]])

    @property
    def planes(self) -> tuple[Array, Array]:
        """Outward normals [8, 2] of the edges from corner to corner, and distances [8] from the center.

        Edge 0 is team 1's goal, edge 4 team 0's.
        """
        corners = self.corners
        edges = np.roll(corners, -1, axis=1) - corners
        normals = np.stack([edges[1], -edges[0]]) / np.hypot(edges[0], edges[1])
        return normals.T, (normals * corners).sum(axis=0)


GOAL_OF_TEAM = (4, 0)
"""The edges of a pitch that are the goals of team 0 and of team 1."""


class SoccerDynamics:
    """The bodies of all areas."""

    def __init__(self, areas: int, pitch: Pitch, kick: float) -> None:
        """`kick`: newtons with which a player pushes the ball for one step when it starts to touch it."""
        self.position: Array = np.zeros((2, areas, PLAYERS + 1))
        self.velocity: Array = np.zeros((2, areas, PLAYERS + 1))
        self.touching: Flags = np.zeros((areas, PLAYERS), np.bool_)
        """Which players touch the ball, [areas, players]."""
        self._kick = kick * TIME_STEP / _BALL_MASS
        self._keep = 1 - np.array([_PLAYER_DRAG] * PLAYERS + [_BALL_DRAG]) * TIME_STEP
        self._inverse_mass = 1 / np.array([_PLAYER_MASS] * PLAYERS + [_BALL_MASS])
        radius = np.array([PLAYER_RADIUS] * PLAYERS + [BALL_RADIUS])
        self._normals, distances = pitch.planes
        self._limits = np.tile(distances[:, None] - radius, (1, areas))
        # The pairs with the ball come last, in the order of the players.
        pairs = [*combinations(range(PLAYERS), 2), *((player, BALL) for player in range(PLAYERS))]
        self._pairs = np.array(pairs).T
        self._reach = radius[self._pairs].sum(axis=0)
        self._difference = np.zeros((PLAYERS + 1, len(pairs)))
        self._difference[self._pairs[1], np.arange(len(pairs))] = 1
        self._difference[self._pairs[0], np.arange(len(pairs))] = -1

    def put(self, which: Indices, position: Array) -> None:
        """Put all bodies of these areas at places [2, k, players + 1], at rest."""
        self.position[:, which] = position
        self.velocity[:, which] = 0
        self.touching[which] = False

    def step(self, push: Array, strength: Array) -> tuple[Flags, Array]:
        """Make one physics step.

        Args:
            push: [2, areas, players], what is added to the players' velocities.
            strength: [areas, players], the share of a kick that a player gives the ball on touching it.

        Returns:
            Which players started to touch the ball, [areas, players]; how deep the balls are in the goals of
            team 0 and team 1, [2, areas], meters, negative outside.
        """
        self.velocity[..., :PLAYERS] += push
        self.velocity *= self._keep
        touched = self._collide(strength)
        self.position += self.velocity * TIME_STEP
        return touched, self._stop_at_walls()

    def _collide(self, strength: Array) -> Flags:
        """Resolve collisions by changing velocities, and kick the ball."""
        areas = self.position.shape[1]
        apart = (self.position.reshape(-1, PLAYERS + 1) @ self._difference).reshape(2, areas, -1)
        squared = apart[0] * apart[0] + apart[1] * apart[1]
        close = squared < (self._reach + _TOUCH) ** 2
        touching: Flags = close[:, -PLAYERS:]
        touched: Flags = touching & ~self.touching
        self.touching = touching
        if close.any():
            self._solve(close, apart)
            area, player = np.nonzero(touched)
            if len(area):
                # From the player to the ball; two may start to touch it at once.
                way = apart[:, area, player - PLAYERS]
                push = self._kick * strength[area, player] / np.maximum(np.hypot(way[0], way[1]), _TINY)
                for axis in range(2):
                    self.velocity[axis, :, BALL] += np.bincount(area, way[axis] * push, areas)
        return touched

    def _solve(self, close: Flags, apart: Array) -> None:
        area, pair = np.nonzero(close)
        bodies = area * (PLAYERS + 1) + self._pairs[:, pair]
        way = apart[:, area, pair]
        distance = np.maximum(np.hypot(way[0], way[1]), _TINY)
        normal = way / distance
        inverse = self._inverse_mass[self._pairs[:, pair]]
        velocity = self.velocity.reshape(2, -1)
        size = velocity.shape[1]
        shares = np.bincount(bodies.ravel(), minlength=size)[bodies]
        scale = 1 / (inverse * shares).sum(axis=0)
        closing = -(normal * (velocity[:, bodies[1]] - velocity[:, bodies[0]])).sum(axis=0)
        depth = self._reach[pair] - distance
        # Bodies that are near without touching may close the gap.
        wanted = np.minimum(depth * _CORRECTION, _FASTEST_CORRECTION)
        wanted[depth < 0] = depth[depth < 0] / TIME_STEP
        bounces = (pair >= len(self._reach) - PLAYERS) & (closing > _BOUNCE_THRESHOLD)
        wanted = np.where(bounces, np.maximum(wanted, _BOUNCE * closing), wanted)
        impulse = np.zeros(len(area))
        for _ in range(_ITERATIONS):
            parting = (normal * (velocity[:, bodies[1]] - velocity[:, bodies[0]])).sum(axis=0)
            before, impulse = impulse, np.maximum(impulse + (wanted - parting) * scale, 0)
            change = normal * (impulse - before)
            for axis in range(2):
                given = np.concatenate([-change[axis] * inverse[0], change[axis] * inverse[1]])
                velocity[axis] += np.bincount(bodies.ravel(), given, size)

    def _stop_at_walls(self) -> Array:
        flat, velocity = self.position.reshape(2, -1), self.velocity.reshape(2, -1)
        depth = self._normals @ flat - self._limits
        edge, body = np.nonzero(depth > 0)
        in_goals: Array = depth[GOAL_OF_TEAM, :].reshape(2, -1, PLAYERS + 1)[..., BALL]
        if len(edge):
            normal = self._normals[edge].T
            speed = (velocity[:, body] * normal).sum(axis=0)
            bounces = (body % (PLAYERS + 1) == BALL) & (speed > _BOUNCE_THRESHOLD)
            lost = np.maximum(speed, 0) * np.where(bounces, 1 + _BOUNCE, 1)
            moved = normal * depth[edge, body]
            for axis in range(2):
                velocity[axis] -= np.bincount(body, normal[axis] * lost, velocity.shape[1])
                flat[axis] -= np.bincount(body, moved[axis], flat.shape[1])
        return in_goals
