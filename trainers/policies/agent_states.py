"""Per-agent states between decisions: recurrent states, or those of autocorrelated noise."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlagents_envs.base_env import DecisionSteps
from numpy.typing import NDArray

from ...envs.base import BehaviorId, EnvironmentStep

BatchSource = tuple[int, BehaviorId]
"""The environment and the behavior id of a batch of agents."""


class AgentMemories:
    """One row of floats per agent id; zeros for an unknown agent."""

    def __init__(self, size: int) -> None:
        self._ids = np.empty(0, np.int64)
        self._rows = np.empty((0, size), np.float32)

    def read(self, agent_ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """[n] ids -> [n, size]."""
        if self._holds(agent_ids):
            return self._rows.copy()
        rows = np.zeros((len(agent_ids), self._rows.shape[1]), np.float32)
        if len(self._ids):
            order = np.argsort(self._ids)
            place = np.searchsorted(self._ids, agent_ids, sorter=order)
            index = order[np.minimum(place, len(order) - 1)]
            known = self._ids[index] == agent_ids
            rows[known] = self._rows[index[known]]
        return rows

    def store(self, agent_ids: NDArray[np.int32], rows: NDArray[np.float32]) -> None:
        """Replace the rows of these agents; [n] distinct ids, [n, size]."""
        if self._holds(agent_ids):
            self._rows = rows.copy()
            return
        self.drop(agent_ids)
        self._ids = np.concatenate([self._ids, agent_ids])
        self._rows = np.concatenate([self._rows, rows])

    def _holds(self, agent_ids: NDArray[np.int32]) -> bool:
        """Whether these are all that are known, in the same order: as it mostly is."""
        return len(agent_ids) == len(self._ids) and bool((agent_ids == self._ids).all())

    def drop(self, agent_ids: NDArray[np.int32]) -> None:
        """Remove these agents, known or not."""
        if not len(self._ids):
            return
        keep = ~np.isin(self._ids, agent_ids)
        self._ids, self._rows = self._ids[keep], self._rows[keep]

    def __len__(self) -> int:
        return len(self._ids)


class AgentStates:
    """The states of one behavior's agents, of every environment.

    The agent processors keep the same states with the steps that they belong to; but they process a message
    only after it has been answered, and an answer needs the state that resulted from the previous one.
    """

    def __init__(self, size: int) -> None:
        """`size`: of an agent's state."""
        self.size = size
        self._sources: dict[BatchSource, AgentMemories] = {}

    def end_episodes(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Drop the agents whose episodes end with this message, or started before it and are void."""
        source = (step.env, behavior_id)
        known = self._sources.get(source)
        if known is None:
            return
        if step.fresh:
            del self._sources[source]
            return
        if behavior_id in step.void_agents:
            known.drop(step.void_agents[behavior_id])
        if behavior_id in step.steps:
            terminals = step.steps[behavior_id][1]
            if len(terminals):
                known.drop(np.asarray(terminals.agent_id))

    def read(self, sources: Sequence[BatchSource], batches: Sequence[DecisionSteps]) -> NDArray[np.float32]:
        """The states of the agents of all batches, one batch after another: [n, size]; zeros at first."""
        of_each = [
            self._of(source).read(np.asarray(batch.agent_id)) for source, batch in zip(sources, batches)
        ]
        return of_each[0] if len(of_each) == 1 else np.concatenate(of_each)

    def store(
        self, sources: Sequence[BatchSource], batches: Sequence[DecisionSteps], states: NDArray[np.float32]
    ) -> None:
        """Replace the states of the agents of all batches, one batch after another: [n, size]."""
        start = 0
        for source, batch in zip(sources, batches, strict=True):
            self._of(source).store(np.asarray(batch.agent_id), states[start : start + len(batch)])
            start += len(batch)

    def drop(self, source: BatchSource, agent_ids: NDArray[np.int32]) -> None:
        """Remove these agents of one environment and behavior id, known or not."""
        self._of(source).drop(agent_ids)

    def _of(self, source: BatchSource) -> AgentMemories:
        if source not in self._sources:
            self._sources[source] = AgentMemories(self.size)
        return self._sources[source]
