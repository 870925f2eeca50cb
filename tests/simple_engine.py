"""A minimal engine: its events are which agents decide and which end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lanista.agent_processor.processor import AgentManager
from lanista.agent_processor.trajectory import Trajectory
from lanista.envs.base import Decision, StatsAggregationMethod
from mlagents_envs.base_env import ActionSpec, ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from specs import sensor


def vector_spec(
    *shapes: tuple[int, ...], continuous: int = 0, branches: tuple[int, ...] = ()
) -> BehaviorSpec:
    sensors = [sensor(shape, f"sensor{i}") for i, shape in enumerate(shapes)]
    return BehaviorSpec(sensors, ActionSpec(continuous, branches))


class ListSink:
    """Statistics as a list of [key, value, aggregation]."""

    def __init__(self) -> None:
        self.stats: list[list[Any]] = []

    def add_stat(self, key: str, value: float, aggregation: StatsAggregationMethod) -> None:
        self.stats.append([key, value, aggregation.name])

    def add_stats(self, key: str, values: np.ndarray, aggregation: StatsAggregationMethod) -> None:
        self.stats.extend([key, value, aggregation.name] for value in values.tolist())

    def set_stat(self, key: str, value: float) -> None:
        self.stats.append([key, value, "MOST_RECENT"])


class SimpleEngine:
    """Agents are numbers; their decisions are 0.5 and, in each branch, their number modulo its size.

    Args:
        horizon: the time horizon.
        spec: of the behavior.
        sees: what an agent observes at a time, in all components; by default its number.
        group: the group of all agents, or of each.
        reward: of every step.
        forbids: the actions that an agent must not take, of all branches side by side; None: nothing.
        manager: further arguments of `AgentManager`.
    """

    def __init__(
        self,
        horizon: int = 100,
        spec: BehaviorSpec | None = None,
        sees: Callable[[int, int], Any] = lambda agent, time: agent,
        group: int | dict[int, int] = 0,
        reward: float = 1.0,
        forbids: Callable[[int], list[bool]] | None = None,
        **manager: Any,
    ) -> None:
        self.spec = spec or vector_spec((3,), continuous=1)
        self.sees, self.forbids, self.group, self.reward = sees, forbids, group, reward
        self.sink, self.time = ListSink(), 0
        self.waiting: dict[int, list[int]] = {}
        self.memory_size = manager.get("memory_size", 0)
        self.manager = AgentManager("B?team=0", self.spec, horizon, self.sink, **manager)

    def step(
        self,
        decide: Sequence[int],
        end: Sequence[int] = (),
        *,
        env: int = 0,
        group: int | dict[int, int] | None = None,
        group_reward: float = 0.0,
        answer: bool = True,
        interrupted: bool = False,
        exploration: float = 0.0,
        by_snapshot: bool = False,
        lost: Sequence[int] = (),
    ) -> list[Trajectory]:
        """One step of one environment; the decisions that wait there are answered first."""
        group = self.group if group is None else group
        answered = self.waiting.get(env, []) if answer else []
        decided = self._decision(answered, exploration, by_snapshot) if answered else None
        self.waiting[env] = list(decide)
        obs, reward, ids, *groups = self._batch(decide, group, group_reward)
        decisions = DecisionSteps(obs, reward, ids, self._masks(decide), *groups)
        obs, reward, ids, *groups = self._batch(end, group, group_reward)
        terminals = TerminalSteps(obs, reward, np.full(len(ids), interrupted), ids, *groups)
        lives = np.array(lost, np.int32) if lost else None
        self.manager.add_experiences(decisions, terminals, env, decided, lives)
        self.time += 1
        return self.manager.trajectory_queue.drain()

    def _batch(self, agents: Sequence[int], group: int | dict[int, int], group_reward: float) -> Any:
        n = len(agents)
        seen = [np.zeros((n, *sensor.shape), np.float32) for sensor in self.spec.observation_specs]
        for row, agent in enumerate(agents):
            for obs in seen:
                obs[row] = self.sees(agent, self.time)
        groups = [group if isinstance(group, int) else group[agent] for agent in agents]
        return (
            seen,
            np.full(n, self.reward, np.float32),
            np.array(agents, np.int32),
            np.array(groups, np.int32),
            np.full(n, group_reward, np.float32),
        )

    def _masks(self, agents: Sequence[int]) -> list[np.ndarray] | None:
        if self.forbids is None:
            return None
        branches = self.spec.action_spec.discrete_branches
        forbidden = np.array([self.forbids(agent) for agent in agents], bool).reshape(-1, sum(branches))
        return np.split(forbidden, np.cumsum(branches)[:-1], axis=1)

    def _decision(self, agents: list[int], exploration: float, by_snapshot: bool) -> Decision:
        n, continuous = len(agents), self.spec.action_spec.continuous_size
        branches = self.spec.action_spec.discrete_branches
        discrete = np.array([[agent % size for size in branches] for agent in agents], np.int32)
        action = ActionTuple(np.full((n, continuous), 0.5, np.float32), discrete.reshape(n, len(branches)))
        log_probs = np.full((n, continuous + len(branches)), -1.0, np.float32)
        memory = np.full((n, self.memory_size), self.time, np.float32) if self.memory_size else None
        ids = np.array(agents, np.int32)
        entropy = np.zeros(n, np.float32)
        return Decision(ids, action, action, log_probs, entropy, memory, exploration, by_snapshot)
