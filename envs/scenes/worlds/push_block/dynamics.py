"""How the agents of Unity's PushBlock scenes move, and where they start."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlagents_envs.base_env import ActionSpec
from numpy.typing import NDArray

from ...physics2d import Array, Indices, RigidBody

ACTIONS = ActionSpec.create_discrete((7,))
"""Nothing, forward, back, turn right, turn left, left and right at three quarters of the speed."""
AGENT = RigidBody(half=0.5, mass=10, drag=4)
"""The original's box never turns physically; its corners are cut off here."""
GRAVITY_SCALE = 1.5

_FORWARD = np.array([0, 1, -1, 0, 0, 0, 0])
_RIGHT = np.array([0, 0, 0, 0, 0, -0.75, 0.75])
_TURN = np.radians([0, 0, 0, 4, -4, 0, 0])
_TRIES = 48


class PushBlockMotion:
    """The agents' headings, and what their actions do in a physics step."""

    def __init__(self, areas: int, members: int, speed: float) -> None:
        """`speed`: meters per second that an action adds in each physics step."""
        self.heading: Array = np.zeros((areas, members))
        """[areas, members], radians from z towards x: to the right, seen from above."""
        self.push: Array = np.zeros((2, areas, members))
        """Velocity to add in a physics step."""
        self._turn = np.zeros((areas, members))
        self._speed = speed

    def command(self, asked: Indices, chosen: NDArray[np.int32]) -> None:
        """Repeat these actions until the next ones. `asked`: flat indices [n] of agents; `chosen`: [n]."""
        heading = self.heading.reshape(-1)[asked]
        sine, cosine = np.sin(heading), np.cos(heading)
        forward, right = self._speed * _FORWARD[chosen], self._speed * _RIGHT[chosen]
        push = self.push.reshape(2, -1)
        push[0, asked] = forward * sine + right * cosine
        push[1, asked] = forward * cosine - right * sine
        self._turn.reshape(-1)[asked] = _TURN[chosen]

    def turn(self) -> None:
        """One physics step's turns."""
        self.heading += self._turn

    def stop(self, areas: Indices, members: Indices | slice = slice(None)) -> None:
        """These agents do nothing until their next action."""
        self.push[:, areas, members] = 0
        self._turn[areas, members] = 0


@dataclass(frozen=True, slots=True)
class RandomPlacement:
    """Random places for bodies, one after the other, each free of those before."""

    half: float
    """Centers are within this of the area's, along x and z."""
    room: float
    """Half the edge of the box, around a body's center, in which there must be nothing of another."""
    sizes: Sequence[float]
    """Half the edge of each body to place."""
    taken: Array
    """[3, t]: x, z and half the edge of what stands there already."""
    highest: Sequence[float]
    """The greatest z of each body's center, where that is less than `half`."""

    def sample(self, random: np.random.Generator, areas: int) -> Array:
        """Places [2, areas, bodies]. Where there is hardly room, the freest of 48 places is taken."""
        count = len(self.sizes)
        places = np.zeros((2, areas, self.taken.shape[1] + count))
        places[..., :-count] = self.taken[:2, None]
        sizes = np.concatenate([self.taken[2], self.sizes])
        tries = random.uniform(-self.half, self.half, (count, 2, areas, _TRIES))
        shares = (np.minimum(self.highest, self.half) + self.half) / (2 * self.half)
        tries[:, 1] = (tries[:, 1] + self.half) * shares[:, None, None] - self.half
        for k, tried in enumerate(tries):
            known = places[..., : self.taken.shape[1] + k]
            gap = np.abs(tried[..., None] - known[:, :, None]).max(axis=0) - sizes[: known.shape[2]]
            free = gap.min(axis=2, initial=self.room) if known.shape[2] else np.ones(tried.shape[1:])
            best = (free >= self.room).argmax(axis=1)
            best = np.where((free >= self.room).any(axis=1), best, free.argmax(axis=1))
            places[:, :, known.shape[2]] = tried[:, np.arange(areas), best]
        return places[..., -count:]
