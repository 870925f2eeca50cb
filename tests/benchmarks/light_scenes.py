"""Scenes that cost next to nothing (timed_scene.py runs them).

`team`: members of a team see their place and their team's goal on a line and step left or right; the team is
rewarded for how near its members are to the goal, and its episode ends after 100 steps.

`duel`: two players on a plane, one of each team, move by continuous actions and choose by two discrete ones
whether to dash and whether to strike; whoever strikes when near wins, and after 100 steps nobody has.
"""

from collections.abc import Mapping

import numpy as np
from lanista.envs.protocol.engine import AgentBatch
from lanista.envs.scenes.world import Actions, Batches, EndedAgents, Parameters, World, without_groups
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)

BEHAVIOR = "Team?team=0"
SIZE = 32
EPISODE = 100


class Teams(World):
    def __init__(self, members: int = 3, agents: int = 96) -> None:
        self.members = members
        self.teams = max(1, agents // members)
        self._ids = np.arange(self.teams * members, dtype=np.int32)
        self._groups = np.repeat(np.arange(1, self.teams + 1, dtype=np.int32), members)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        observation = ObservationSpec((SIZE,), (DimensionProperty.NONE,), ObservationType.DEFAULT, "Line")
        return {BEHAVIOR: BehaviorSpec([observation], ActionSpec.create_discrete((3,)))}

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        self._random = random
        self._features = random.normal(size=(len(self._ids), SIZE)).astype(np.float32)
        self._age = random.integers(0, EPISODE, self.teams)
        self._begin(np.arange(self.teams))
        return {BEHAVIOR: self._batch(np.zeros(len(self._ids), np.float32), np.zeros(0, np.int64))}

    def _begin(self, which):
        shape = (len(which), self.members)
        if not hasattr(self, "_x"):
            self._x = np.zeros((self.teams, self.members), np.float32)
            self._goal = np.zeros(self.teams, np.float32)
        self._x[which] = self._random.uniform(-1, 1, shape)
        self._goal[which] = self._random.uniform(-1, 1, len(which))

    def step(self, actions: Actions) -> Batches:
        moves = actions[BEHAVIOR][1][:, 0].reshape(self.teams, self.members) - 1
        self._x += 0.1 * moves
        np.clip(self._x, -1, 1, out=self._x)
        reward = -np.abs(self._x - self._goal[:, None]).mean(1) / EPISODE
        self._age += 1
        (over,) = np.nonzero(self._age >= EPISODE)
        return {BEHAVIOR: self._batch(np.repeat(reward, self.members).astype(np.float32), over)}

    def _batch(self, group_reward, over):
        ended = np.zeros(0, np.int64)
        obs = self._observe()
        if len(over):
            ended = (over[:, None] * self.members + np.arange(self.members)).ravel()
            last = obs[ended]
            self._begin(over)
            self._age[over] = 0
            obs = np.concatenate([last, self._observe()])
        done = np.zeros(len(obs), bool)
        done[: len(ended)] = True
        earned = group_reward.copy()
        earned[ended] = 0.0  # the new episodes have earned nothing yet
        return AgentBatch(
            obs=[obs],
            reward=np.zeros(len(obs), np.float32),
            done=done,
            interrupted=done.copy(),
            agent_id=np.concatenate([self._ids[ended], self._ids]),
            group_id=np.concatenate([self._groups[ended], self._groups]),
            group_reward=np.concatenate([group_reward[ended], earned]),
        )

    def _observe(self):
        obs = self._features.copy()
        obs[:, 0] = self._x.ravel()
        obs[:, 1] = np.repeat(self._goal, self.members)
        return obs


DUELISTS = ("Duel?team=0", "Duel?team=1")
FEATURES = 16
NEAR = 0.3


class Duel(World):
    def __init__(self, areas: int = 8) -> None:
        self._ids = [np.arange(areas, dtype=np.int32) + areas * team for team in (0, 1)]
        self._place = np.zeros((2, areas, 2), np.float32)
        self._age = np.zeros(areas, np.int64)

    def specs(self) -> Mapping[str, BehaviorSpec]:
        shape = (FEATURES,)
        observation = ObservationSpec(shape, (DimensionProperty.NONE,), ObservationType.DEFAULT, "Plane")
        return dict.fromkeys(DUELISTS, BehaviorSpec([observation], ActionSpec(2, (2, 2))))

    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        self._random = random
        self._features = random.normal(size=(2, len(self._age), FEATURES)).astype(np.float32)
        self._age[:] = random.integers(0, EPISODE, len(self._age))
        self._place[:] = random.uniform(-1, 1, self._place.shape)
        return self._batches(np.zeros((2, len(self._age)), np.float32), np.zeros(len(self._age), bool))

    def step(self, actions: Actions) -> Batches:
        strikes = np.zeros((2, len(self._age)), bool)
        for team, name in enumerate(DUELISTS):
            continuous, discrete = actions[name]
            speed = np.float32(0.1) * (1 + discrete[:, :1])
            self._place[team] = np.clip(self._place[team] + speed * np.clip(continuous, -1, 1), -1, 1)
            strikes[team] = discrete[:, 1] == 1
        self._age += 1
        distance = np.linalg.norm(self._place[0] - self._place[1], axis=1)
        hits = (strikes & (distance < NEAR)).astype(np.float32)
        reward = hits - hits[::-1]
        return self._batches(reward, (reward[0] != 0) | (self._age >= EPISODE))

    def _batches(self, reward, over):
        last = self._observe()[:, over]
        self._place[:, over] = self._random.uniform(-1, 1, (2, over.sum(), 2))
        self._age[over] = 0
        obs, earned = self._observe(), reward.copy()
        earned[:, over] = 0.0
        return {
            name: without_groups(
                self._ids[team],
                [obs[team]],
                earned[team],
                [EndedAgents(self._ids[team][over], [last[team]], reward[team][over])],
            )
            for team, name in enumerate(DUELISTS)
        }

    def _observe(self):
        obs = self._features.copy()
        obs[:, :, :2] = self._place
        obs[:, :, 2:4] = self._place[::-1]
        return obs
