"""Unity's Basic: walk along a corridor to the better of two goals."""

from collections.abc import Mapping

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ..parts.sensors import vector_spec
from ..world import Actions, Batches, EndedAgents, Parameters, World, without_groups

BEHAVIOR = "Basic?team=0"
LENGTH = 20
START, SMALL_GOAL, LARGE_GOAL = 10, 7, 17

_MOVES = np.array([0, -1, 1], np.int32)
_STEP_REWARD = np.float32(-0.01)
_SMALL_REWARD = np.float32(0.1)
_LARGE_REWARD = np.float32(1)


class Basic(World):
    """Corridors of one agent each. The best return is 0.93, seven moves to the right."""

    parameters_read = ()

    def __init__(self, areas: int = 1) -> None:
        """`areas`: how many corridors there are; the original has one."""
        if areas < 1:
            raise ValueError(f"Basic has {areas} areas; it needs at least 1.")
        self.areas = areas
        self.position = np.full(areas, START, np.int32)
        self.ids = np.arange(areas, dtype=np.int32)
        self._next_id = 0

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior: the position as one of 20, and one branch of 3 (stay, left, right)."""
        return {BEHAVIOR: BehaviorSpec([vector_spec(LENGTH, "Basic")], ActionSpec.create_discrete((3,)))}

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Put every agent at the start. The world uses no random numbers and no parameters."""
        self._start_episodes(np.arange(self.areas))
        return self._asking(np.zeros(self.areas, np.float32))

    def step(self, actions: Actions) -> Batches:
        """One move of each agent. Actions: [areas, 1], 0 stays, 1 goes left, 2 right."""
        self.position += _MOVES[actions[BEHAVIOR][1][:, 0]]
        np.clip(self.position, 0, LENGTH - 1, out=self.position)
        reward = np.full(self.areas, _STEP_REWARD)
        small, large = self.position == SMALL_GOAL, self.position == LARGE_GOAL
        reward[small] += _SMALL_REWARD
        reward[large] += _LARGE_REWARD
        (ended,) = np.nonzero(small | large)
        if not len(ended):
            return self._asking(reward)
        end = EndedAgents(self.ids[ended], [_one_hot(self.position[ended])], reward[ended])
        self._start_episodes(ended)
        reward[ended] = 0
        return self._asking(reward, end)

    def _asking(self, reward: NDArray[np.float32], *ended: EndedAgents) -> Batches:
        return {BEHAVIOR: without_groups(self.ids, [_one_hot(self.position)], reward, ended)}

    def _start_episodes(self, which: NDArray[np.intp]) -> None:
        """The original reloads the scene: each episode has a new agent id."""
        self.position[which] = START
        self.ids = self.ids.copy()
        self.ids[which] = np.arange(self._next_id, self._next_id + len(which))
        self._next_id += len(which)


def _one_hot(position: NDArray[np.int32]) -> NDArray[np.float32]:
    obs = np.zeros((len(position), LENGTH), np.float32)
    obs[np.arange(len(position)), position] = 1
    return obs
