"""An environment of any specification: agents, groups, teams and pauses are drawn at random."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorMapping,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)

NONE, SPATIAL, VARIABLE = (
    DimensionProperty.NONE,
    DimensionProperty.TRANSLATIONAL_EQUIVARIANCE,
    DimensionProperty.VARIABLE_SIZE,
)
OBSERVATIONS = {
    "vector": ObservationSpec((3,), (NONE,), ObservationType.DEFAULT, "VectorSensor_size3"),
    "goal": ObservationSpec((2,), (NONE,), ObservationType.GOAL_SIGNAL, "Goal"),
    "image": ObservationSpec((3, 20, 20), (NONE, SPATIAL, SPATIAL), ObservationType.DEFAULT, "Camera"),
    "entities": ObservationSpec((4, 3), (VARIABLE, NONE), ObservationType.DEFAULT, "BufferSensor"),
}
"""The kinds of observations by name."""
GROUP_SIZE = 3


@dataclass(frozen=True)
class Rules:
    """What the environment is like; plain values, so that another process can be told."""

    observations: Sequence[str] = ("vector",)
    continuous: int = 1
    branches: Sequence[int] = ()
    masked: bool = False
    """Some discrete actions are forbidden."""
    groups: bool = False
    """Agents are in groups of 3, which earn rewards of their own."""
    behaviors: Sequence[str] = ("A?team=0",)
    """Their full names."""
    agents: int = 3
    """Of each of them."""
    pauses: bool = False
    """Agents do not ask for a decision at every step."""
    longest: int = 12
    """Decisions of the longest episode."""

    @property
    def spec(self) -> BehaviorSpec:
        """The specification of every behavior."""
        specs = [OBSERVATIONS[kind] for kind in self.observations]
        return BehaviorSpec(specs, ActionSpec(self.continuous, tuple(self.branches)))

    def text(self) -> str:
        """The rules as one word of a command line."""
        return json.dumps(asdict(self), separators=(",", ":"))


@dataclass
class _Agent:
    number: int
    group: int
    length: int
    """Of its episode, in decisions."""
    secret: float
    """What it sees, and is to answer."""
    age: int = 0
    earned: float = 0.0
    pausing: bool = False


@dataclass
class _Report:
    deciding: list[tuple[_Agent, float]] = field(default_factory=list)
    """Agents that ask for a decision, with their group's reward."""
    ended: list[tuple[_Agent, float, bool]] = field(default_factory=list)
    """The same of those whose episode is over, and whether it was interrupted."""


class RandomEnv(BaseEnv):
    """Agents earn by answering what they see; who they are, and how long they live, is drawn."""

    def __init__(self, rules: Rules, seed: int = 0) -> None:
        self.rules, self.random = rules, np.random.default_rng(seed)
        self._specs = BehaviorMapping(dict.fromkeys(rules.behaviors, rules.spec))
        self._newest = 0
        self._agents: dict[str, list[_Agent]] = {}
        self._reports: dict[str, _Report] = {}
        self._steps: dict[str, tuple[DecisionSteps, TerminalSteps]] = {}

    @property
    def behavior_specs(self) -> BehaviorMapping:
        """All of the same kind."""
        return self._specs

    def reset(self) -> None:
        """All agents are new."""
        self._agents = {name: [] for name in self.rules.behaviors}
        self._reports = {name: _Report() for name in self.rules.behaviors}
        self._fill()

    def step(self) -> None:
        """Every agent with an action goes on, pauses or ends."""
        self._reports = {name: _Report() for name in self.rules.behaviors}
        for name, agents in self._agents.items():
            over = {agent.group for agent in agents if agent.group and self.random.random() < 0.05}
            for agent in agents:
                self._advance(agent, over, self._reports[name])
            gone = {id(agent) for agent, *_ in self._reports[name].ended}
            self._agents[name] = [agent for agent in agents if id(agent) not in gone]
        self._fill()

    def _advance(self, agent: _Agent, over: set[int], report: _Report) -> None:
        if self.rules.pauses and not agent.pausing and self.random.random() < 0.3:
            agent.pausing = True
            return
        agent.pausing = False
        agent.age += 1
        agent.secret = float(self.random.normal())
        of_group = float(self.random.random() < 0.1) if agent.group else 0.0
        if agent.age >= agent.length or agent.group in over:
            report.ended.append((agent, of_group, bool(self.random.random() < 0.3)))
        else:
            report.deciding.append((agent, of_group))

    def _fill(self) -> None:
        """New agents take the places of those that have gone: of groups, once all members have."""
        for which, (name, agents) in enumerate(self._agents.items()):
            wanted: list[int] = []
            if self.rules.groups:
                groups = range(1 + 8 * which, 1 + 8 * which + -(-self.rules.agents // GROUP_SIZE))
                living = {agent.group for agent in agents}
                wanted += [group for group in groups if group not in living for _ in range(GROUP_SIZE)]
            else:
                wanted += [0] * (self.rules.agents - len(agents))
            for group in wanted:
                self._newest += 1
                length = int(self.random.integers(2, self.rules.longest + 1))
                agent = _Agent(self._newest, group, length, float(self.random.normal()))
                agents.append(agent)
                self._reports[name].deciding.append((agent, 0.0))
        self._steps = {name: self._told(report) for name, report in self._reports.items()}

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        """What the agents say."""
        return self._steps[behavior_name]

    def _told(self, report: _Report) -> tuple[DecisionSteps, TerminalSteps]:
        deciding, ended = [each[0] for each in report.deciding], [each[0] for each in report.ended]
        decisions = DecisionSteps(
            *(self._seen(deciding), self._earned(deciding), self._ids(deciding), self._mask(len(deciding))),
            *(self._groups(deciding), np.array([each[1] for each in report.deciding], np.float32)),
        )
        terminals = TerminalSteps(
            *(self._seen(ended), self._earned(ended), np.array([each[2] for each in report.ended], bool)),
            *(self._ids(ended), self._groups(ended)),
            np.array([each[1] for each in report.ended], np.float32),
        )
        for agent in deciding:
            agent.earned = 0.0
        return decisions, terminals

    def _ids(self, agents: Sequence[_Agent]) -> np.ndarray:
        return np.array([agent.number for agent in agents], np.int32)

    def _groups(self, agents: Sequence[_Agent]) -> np.ndarray:
        return np.array([agent.group for agent in agents], np.int32)

    def _earned(self, agents: Sequence[_Agent]) -> np.ndarray:
        return np.array([agent.earned for agent in agents], np.float32)

    def _seen(self, agents: Sequence[_Agent]) -> list[np.ndarray]:
        found = []
        for kind in self.rules.observations:
            shape = OBSERVATIONS[kind].shape
            if kind == "image":
                rows = self.random.integers(0, 256, (len(agents), *shape)).astype(np.float32) / 255
            else:
                rows = self.random.normal(size=(len(agents), *shape)).astype(np.float32)
            if kind == "vector":
                rows[:, 0] = [agent.secret for agent in agents]
            for row in rows if kind == "entities" else ():
                row[int(self.random.integers(0, shape[0] + 1)) :] = 0.0
            found.append(rows)
        return found

    def _mask(self, count: int) -> list[np.ndarray] | None:
        if not self.rules.masked:
            return None
        masks = []
        for size in self.rules.branches:
            mask = self.random.random((count, size)) < 0.4
            mask[np.arange(count), self.random.integers(0, size, count)] = False
            masks.append(mask)
        return masks

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """Reward what the agents answer."""
        for row, (agent, _) in enumerate(self._reports[behavior_name].deciding):
            if self.rules.continuous:
                assert (
                    np.isfinite(action.continuous[row]).all() and np.abs(action.continuous[row]).max() < 1.001
                )
                agent.earned += 1.0 - abs(float(action.continuous[row, 0]) - float(np.tanh(agent.secret)))
            if self.rules.branches:
                agent.earned += float(int(action.discrete[row, 0]) == int(agent.secret > 0))

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Not used by a run."""
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""


def make(rules: str, seed: int = 0) -> RandomEnv:
    """The environment of these rules, for `python:random_env:make`."""
    given: dict[str, Any] = json.loads(rules)
    return RandomEnv(Rules(**given), seed)
