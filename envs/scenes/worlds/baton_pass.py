"""Baton pass: runners fetch balls and spawn their successors.

The rules are Lanista's own, after the task of that name in "On the Use and Misuse of Absorbing States in
Multi-agent Reinforcement Learning" (Cohen et al., 2021): teams that grow and shrink within an episode, in
which what a member does pays after it has gone. docs/scenes.md has them in words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ...base import StatsAggregationMethod
from ...protocol.engine import AgentBatch
from ..options import SceneOptions, SceneWorld, option
from ..parts.agents import GROUP_RETURN
from ..parts.physics2d import Indices
from ..parts.sensors import vector_spec
from ..world import Actions, Batches, Statistic

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]
Where = tuple[NDArray[np.intp], ...]
"""Areas and places of runners."""

BEHAVIOR = "BatonPass?team=0"
OBSERVATIONS = 14
BALLS = "Baton Pass/Balls"
"""The statistic of how many balls a team has fetched in its episode."""

_MOVES = np.array([[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]], np.float32)
"""The move of each action: stay, +z, -z, +x, -x."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatonPassOptions(SceneOptions):
    """Sizes and duration; times are in decisions."""

    scene: ClassVar[str] = "baton-pass"

    areas: int = option(8, "how many teams there are, each on its own ground")
    ground: float = option(20.0, "meters along a side", small=6.0)
    speed: float = option(1.0, "meters that a runner moves with each decision", small=0.75)
    stamina: int = option(100, "decisions for which a runner can carry the baton", small=30)
    linger: int = option(
        600, "decisions for which a runner stays after its pass; 0 for none", small=15, may_be_zero=True
    )
    max_steps: int = option(1000, "decisions after which an episode is interrupted", small=150)
    agents: int = option(20, "runners of a team, one after the other", small=8)

    @property
    def reach(self) -> float:
        """The distance in meters from which a runner touches the ball and the button."""
        return 0.75 if self.size == "small" else 1.0

    @property
    def body(self) -> float:
        """Diameter of a runner, in meters."""
        return 0.6 if self.size == "small" else 0.9


class BatonPass(SceneWorld[BatonPassOptions]):
    """Grounds with one ball, one button and a team that starts with one runner."""

    options_type = BatonPassOptions
    parameters_read = ()

    def __init__(self, **given: int | float | str) -> None:
        super().__init__(**given)
        areas, shape = self.areas, (self.areas, self.options.agents)
        self.alive: Mask = np.zeros(shape, np.bool_)
        """Where a runner is, [areas, places]; places are taken in order, each once in an episode. The other
        arrays hold nothing of meaning elsewhere."""
        self.carries: Mask = np.zeros(shape, np.bool_)
        """Which runner carries the team's baton, [areas, places]."""
        self.ids: NDArray[np.int32] = np.zeros(shape, np.int32)
        self.place: Array = np.zeros((*shape, 2), np.float32)
        """The runners' positions, [areas, places, 2], x and z in meters from the center of the ground."""
        self.left: NDArray[np.int32] = np.zeros(shape, np.int32)
        """The number of decisions until each runner has to leave, [areas, places]."""
        self.loaded: Mask = np.zeros(areas, np.bool_)
        """Whether the carrier has the ball and the button is armed, [areas]."""
        self.ball: Array = np.zeros((areas, 2), np.float32)
        self.button: Array = np.zeros((areas, 2), np.float32)
        self._born: Indices = np.zeros(areas, np.intp)
        """The number of runners that there have been in this episode, [areas]."""
        self._fetched: Array = np.zeros(areas, np.float32)
        self._finished: list[float] = []
        self._asking: Where = np.nonzero(self.alive)
        self._next_id = 0

    def specs(self) -> Mapping[str, BehaviorSpec]:
        """One behavior: 14 floats, and one branch of 5 (stay, +z, -z, +x, -x)."""
        actions = ActionSpec.create_discrete((len(_MOVES),))
        return {BEHAVIOR: BehaviorSpec([vector_spec(OBSERVATIONS, "BatonPass")], actions)}

    def step(self, actions: Actions) -> Batches:
        """Make one move of every runner. Actions: [runners, 1], in the order of the last batch."""
        first_new_id = self._next_id
        self._move(actions[BEHAVIOR][1][:, 0])
        self.left -= 1
        self._age += 1
        reward, passing = self._play()
        self._fetched += reward
        lost = (self.carries & (self.left <= 0)).any(axis=1)
        decided = lost | (self.loaded & (self._born == self.options.agents))
        over = decided | (self._age >= self.options.max_steps)
        leaving = ~self.carries & (self.left <= 0)
        ended = self._end_episodes(
            self.alive & (leaving | over[:, None]), reward, (over & ~decided)[:, None] & ~leaving
        )
        if passing.any():
            self._spawn(np.flatnonzero(passing & ~over))
        if over.any():
            self._finished += self._fetched[over].tolist()
            self._start_episodes(np.flatnonzero(over))
        return self._request_decisions(reward, first_new_id, ended)

    def _request_decisions(
        self, reward: Array | None = None, first_new_id: int = 0, ended: AgentBatch | None = None
    ) -> Batches:
        """The runners `ended`, then all that live; new ones get nothing of the `reward` [areas]."""
        self._asking = np.nonzero(self.alive)
        earned = np.zeros(len(self._asking[0]), np.float32) if reward is None else reward[self._asking[0]]
        earned[self.ids[self._asking] >= first_new_id] = 0
        asking = self._batch(self._observe()[self._asking], earned, 0)
        return {BEHAVIOR: asking if ended is None else _joined(ended, asking)}

    def statistics(self) -> Sequence[Statistic]:
        """The balls of each team whose episode has ended, also as what its group has earned."""
        finished, self._finished = self._finished, []
        names = (BALLS, GROUP_RETURN)
        return [(name, balls, StatsAggregationMethod.AVERAGE) for balls in finished for name in names]

    def _move(self, moves: NDArray[np.int32]) -> None:
        self.place[self._asking] += _MOVES[moves] * np.float32(self.options.speed)
        if np.count_nonzero(self.alive) > self.areas:
            self._part()
        edge = np.float32(self.options.ground / 2)
        np.clip(self.place, -edge, edge, out=self.place)

    def _part(self) -> None:
        """Push overlapping runners apart: each by half of the overlap."""
        apart, distance = self._between()
        overlap = np.maximum(np.float32(self.options.body) - distance, 0) / 2
        self.place += (apart * (overlap / np.maximum(distance, 1e-6))[..., None]).sum(axis=2)

    def _between(self) -> tuple[Array, Array]:
        """The ways from teammates to runners [areas, places, places, 2], and the distances; inf for none."""
        apart = self.place[:, :, None] - self.place[:, None]
        distance = np.sqrt((apart * apart).sum(axis=-1))
        there = self.alive[:, :, None] & self.alive[:, None]
        there &= ~np.eye(there.shape[1], dtype=np.bool_)
        return apart, np.where(there, distance, np.float32(np.inf))

    def _play(self) -> tuple[Array, Mask]:
        """Fetch balls and pass batons; return the teams' rewards [areas], and which areas pass."""
        carrier = self._carrier()
        fetched = ~self.loaded & (_distance(carrier, self.ball) <= self.options.reach)
        self.loaded |= fetched
        passing = self.loaded & (_distance(carrier, self.button) <= self.options.reach)
        self.left[passing[:, None] & self.carries] = self.options.linger
        self.carries[passing] = False
        return fetched.astype(np.float32), passing

    def _end_episodes(self, ending: Mask, reward: Array, interrupted: Mask) -> AgentBatch | None:
        """Remove the runners `ending` [areas, places]; return their last observations and rewards."""
        if not ending.any():
            return None
        who = np.nonzero(ending)
        batch = self._batch(self._observe()[who], reward[who[0]], 1, who)
        batch.interrupted[:] = interrupted[who]
        self.alive[who] = False
        self.carries[who] = False
        return batch

    def _spawn(self, which: Indices) -> None:
        """Add a runner with the baton, and a ball, in these areas."""
        count = len(which)
        new = (which, self._born[which])
        self.alive[new] = True
        self.carries[new] = True
        self.left[new] = self.options.stamina
        self.ids[new] = np.arange(self._next_id, self._next_id + count)
        self.place[new] = self._anywhere(count)
        self._next_id += count
        self._born[which] += 1
        self.ball[which] = self._anywhere(count)
        self.loaded[which] = False

    def _start_episodes(self, which: Indices) -> None:
        """Start with a team of one, with ball and button at new places."""
        self.alive[which] = False
        self.carries[which] = False
        self.button[which] = self._anywhere(len(which))
        self._age[which] = 0
        self._born[which] = 0
        self._fetched[which] = 0
        self._spawn(which)

    def _anywhere(self, count: int) -> Array:
        """Random places [count, 2] on the ground."""
        edge = self.options.ground / 2
        return self._random.uniform(-edge, edge, (count, 2)).astype(np.float32)

    def _carrier(self) -> Array:
        """The places of the carriers, [areas, 2]; the center where there is none."""
        where: Array = (self.place * self.carries[..., None]).sum(axis=1)
        return where

    def _observe(self) -> Array:
        """The observations [areas, places, 14], of meaning where a runner is."""
        place, options = self.place, self.options
        obs = np.zeros((*self.alive.shape, OBSERVATIONS), np.float32)
        obs[..., 0:2] = place * 2
        obs[..., 4:6] = np.where(self.loaded[:, None, None], 0, self.ball[:, None] - place)
        obs[..., 6:8] = self.button[:, None] - place
        carried: Mask = np.count_nonzero(self.carries, axis=1) > 0
        obs[..., 8:10] = np.where(carried[:, None, None], self._carrier()[:, None] - place, 0)
        if np.count_nonzero(self.alive) > self.areas:
            apart, distance = self._between()
            nearest = distance.argmin(axis=2)[..., None]
            alone = np.isinf(np.take_along_axis(distance, nearest, axis=2))
            obs[..., 10:12] = np.where(
                alone, 0, -np.take_along_axis(apart, nearest[..., None], axis=2)[:, :, 0]
            )
        obs /= np.float32(options.ground)
        obs[..., 2] = self.carries
        obs[..., 3] = self.loaded[:, None]
        whole = np.where(self.carries, options.stamina, max(1, options.linger))
        obs[..., 12] = np.maximum(self.left, 0) / whole
        obs[..., 13] = (self._born / options.agents)[:, None]
        return obs

    def _batch(
        self,
        obs: Array,
        group_reward: Array,
        done: int,
        who: Where | None = None,
    ) -> AgentBatch:
        """A batch of runners, by default those that request a decision; group ids count areas from 1."""
        who = self._asking if who is None else who
        count = len(who[0])
        return AgentBatch(
            obs=[obs],
            reward=np.zeros(count, np.float32),
            done=np.full(count, bool(done)),
            interrupted=np.zeros(count, np.bool_),
            agent_id=self.ids[who],
            group_id=(who[0] + 1).astype(np.int32),
            group_reward=group_reward,
        )


def _distance(first: Array, second: Array) -> Array:
    distance: Array = np.sqrt(((first - second) ** 2).sum(axis=-1))
    return distance


def _joined(first: AgentBatch, second: AgentBatch) -> AgentBatch:
    """Both batches as one, in this order."""
    columns = ("reward", "done", "interrupted", "agent_id", "group_id", "group_reward")
    both = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in columns}
    return AgentBatch(obs=[np.concatenate([first.obs[0], second.obs[0]])], **both)
