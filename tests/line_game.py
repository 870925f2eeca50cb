"""The environment of the reference's recorded runs, stepped in place. It needs no torch."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from lanista.envs.base import StatsAggregationMethod as How
from lanista.envs.base import no_steps
from mlagents_envs.base_env import (
    ActionSpec,
    ActionTuple,
    BaseEnv,
    BehaviorSpec,
    DecisionSteps,
    TerminalSteps,
)
from mlagents_envs.exception import UnityCommunicatorStoppedException
from specs import sensor

ENGINE_STATISTICS = {
    "Engine/Average": [(0.5, How.AVERAGE)],
    "Engine/Last": [(2.0, How.MOST_RECENT)],
    "Engine/Sum": [(1.0, How.SUM)],
    "Engine/Histogram": [(3.0, How.HISTOGRAM)],
}


class Line:
    """The agents of one behavior id. They walk along a line to the side that their goal's sign says.

    Alone they start again, under the same id, in the message that ends their episode. In pairs (agents 0
    and 1, 2 and 3) who has ended stays away until its mate has, and who ends last gets the group's reward.
    """

    def __init__(
        self, spec: BehaviorSpec, agents: int, max_len: int, groups: bool, seed: int, first_id: int = 0
    ) -> None:
        self.spec = spec
        self.first_id = first_id
        shape = spec.observation_specs[0].shape
        self.frames = np.zeros((agents, *shape), np.float32) if len(shape) == 3 else None
        """Where observations are images: each agent's last frames."""
        self.max_len = max_len
        self.groups = groups
        self.random = np.random.default_rng(seed)
        self.ids = np.arange(agents, dtype=np.int32)
        self.of_group = (self.ids // 2 + 1 if groups else np.zeros(agents)).astype(np.int32)
        self.position, self.goal = np.zeros(agents), np.zeros(agents)
        self.age = np.zeros(agents, int)
        self.alive = np.zeros(agents, bool)
        self.begin(self.ids)
        self.decisions, self.terminals = self._steps(self.ids), TerminalSteps.empty(spec)

    def begin(self, ids: np.ndarray) -> None:
        """New episodes."""
        self.position[ids], self.age[ids], self.alive[ids] = 0.0, 0, True
        self.goal[ids] = self.random.choice([-1.0, 1.0], len(ids))
        if self.frames is not None:
            self.frames[ids] = 0.0
            self._draw(ids)

    def _draw(self, ids: np.ndarray) -> None:
        """The newest frames: a row for the agents' places, one for their goals."""
        assert self.frames is not None
        self.frames[ids, :-1] = self.frames[ids, 1:]
        self.frames[ids, -1] = 0.0
        for row, places in enumerate((self.position, self.goal)):
            columns = np.clip(np.rint(3.0 + 2.0 * places[ids]), 0, 6).astype(int)
            self.frames[ids, -1, row, columns] = 1.0

    def act(self, action: ActionTuple) -> None:
        """One step of all agents that wait."""
        ids = self.decisions.agent_id - self.first_id
        if self.spec.action_spec.continuous_size:
            self.position[ids] += 0.4 * np.clip(action.continuous[:, 0], -1, 1)
        else:
            self.position[ids] += 0.3 * (action.discrete[:, 0] - 1.0)
        self.age[ids] += 1
        arrived = np.abs(self.position) >= 1
        reward = np.full(len(self.ids), -0.01)
        reward += np.where(arrived, np.where(np.sign(self.position) == self.goal, 1.0, -1.0), 0.0)
        over = self.alive & (arrived | (self.age >= self.max_len))
        if self.frames is not None:
            self._draw(ids)
        self.alive &= ~over
        team_over = np.array([not self.alive[self.of_group == g].any() for g in self.of_group])
        team = np.where(over & team_over & self.groups, 0.5, 0.0)
        self.terminals = TerminalSteps(
            [self._obs()[over]],
            reward[over].astype(np.float32),
            ~arrived[over],
            self.ids[over] + self.first_id,
            self.of_group[over],
            team[over].astype(np.float32),
        )
        self.begin(self.ids[~self.alive & team_over] if self.groups else self.ids[over])
        self.decisions = self._steps(self.ids[self.alive], np.where(over | ~self._old(), 0.0, reward))

    def _old(self) -> np.ndarray:
        return self.age > 0

    def _obs(self) -> np.ndarray:
        if self.frames is not None:
            return self.frames.copy()
        return np.stack([self.position, self.goal], axis=1).astype(np.float32)

    def _steps(self, ids: np.ndarray, reward: np.ndarray | None = None) -> DecisionSteps:
        zeros = np.zeros(len(ids), np.float32)
        earned = zeros if reward is None else reward[ids].astype(np.float32)
        return DecisionSteps([self._obs()[ids]], earned, ids + self.first_id, None, self.of_group[ids], zeros)


class LineGame(BaseEnv):
    """One `Line` per behavior id."""

    def __init__(
        self, seed: int, behaviors: Sequence[str], agents: int, max_len: int, **options: Any
    ) -> None:
        self.seed = seed
        self.engine_stats = options.pop("engine_stats", False)
        groups = options.pop("groups", False)
        apart = agents if options.pop("unique_ids", False) else 0
        self.until = options.pop("until", None)
        """The step with which it ends the session, as the Editor does when Stop is pressed."""
        self.late: dict[str, int] = options.pop("late", {})
        """The steps with which behavior ids appear, the first one with 0."""
        self.silent: dict[str, int] = options.pop("silent", {})
        """The steps from which the agents of ids do nothing any more, and ask for no decisions."""
        self.steps = 0
        actions = ActionSpec(options.pop("cont", 0), tuple(options.pop("disc", ())))
        shape = (options.pop("frames"), 2, 7) if "frames" in options else (2,)
        assert not options, f"unknown rules: {options}"
        self.spec = BehaviorSpec([sensor(shape, "line")], actions)
        self.max_len = max_len
        """Steps of an episode; also an environment parameter."""
        self.make = lambda k: Line(self.spec, agents, self.max_len, groups, seed + 100 * k, apart * k)
        self.names = list(behaviors)
        self.lines: dict[str, Line] = {}

    @property
    def behavior_specs(self) -> dict[str, BehaviorSpec]:
        """All that have appeared, of the same kind."""
        return {name: self.spec for name in self.names if self.steps >= self.late.get(name, 0)}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Episodes in progress continue with the new rules."""
        if "max_len" in parameters:
            self.max_len = int(parameters["max_len"].value)
        for line in self.lines.values():
            line.max_len = self.max_len

    def reset(self) -> None:
        """All start again, with the same random numbers."""
        self.lines = {name: self.make(k) for k, name in enumerate(self.names)}
        self.actions: dict[str, ActionTuple] = {}

    def step(self) -> None:
        """All lines go one step."""
        there = list(self.behavior_specs)
        self.steps += 1
        if self.steps == self.until:
            raise UnityCommunicatorStoppedException("Communicator has exited.")
        for name in there:
            if not self._is_silent(name):
                self.lines[name].act(self.actions[name])

    def get_steps(self, behavior_name: str) -> tuple[DecisionSteps, TerminalSteps]:
        """What the agents say."""
        if self._is_silent(behavior_name):
            return no_steps(self.spec)
        return self.lines[behavior_name].decisions, self.lines[behavior_name].terminals

    def _is_silent(self, behavior_name: str) -> bool:
        return self.steps >= self.silent.get(behavior_name, math.inf)

    def set_actions(self, behavior_name: str, action: ActionTuple) -> None:
        """For all that wait."""
        self.actions[behavior_name] = action

    def set_action_for_agent(self, behavior_name: str, agent_id: int, action: ActionTuple) -> None:
        """Not used by a run."""
        raise NotImplementedError

    def close(self) -> None:
        """There is nothing to close."""

    def statistics(self) -> dict[str, list[tuple[float, How]]]:
        """What an engine's StatsRecorder would say."""
        return ENGINE_STATISTICS if self.engine_stats else {}
