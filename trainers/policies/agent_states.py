"""The states, of a memory or of a drifting noise, with which a run's agents go into their next decisions.

The recurrent states of the agents that a brain plays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlagents_envs.base_env import DecisionSteps
from numpy.typing import NDArray

from ...envs.base import BehaviorId, Decision, EnvironmentStep


class AgentMemories:
    """One row of floats per agent id; an agent that is not known yet has zeros."""

    def __init__(self, size: int) -> None:
        self._ids = np.empty(0, np.int64)
        self._rows = np.empty((0, size), np.float32)

    def read(self, agent_ids: NDArray[np.int32]) -> NDArray[np.float32]:
        """[n] ids -> [n, size]."""
        rows = np.zeros((len(agent_ids), self._rows.shape[1]), np.float32)
        if len(self._ids):
            places = np.minimum(np.searchsorted(self._ids, agent_ids), len(self._ids) - 1)
            known = self._ids[places] == agent_ids
            rows[known] = self._rows[places[known]]
        return rows

    def store(self, agent_ids: NDArray[np.int32], rows: NDArray[np.float32]) -> None:
        """Replace the memories of these agents; [n] distinct ids, [n, size]."""
        self.forget(agent_ids)
        ids = np.concatenate([self._ids, agent_ids])
        order = np.argsort(ids)
        self._ids = ids[order]
        self._rows = np.concatenate([self._rows, rows])[order]

    def forget(self, agent_ids: NDArray[np.int32]) -> None:
        """Drop these agents, known or not."""
        keep = ~np.isin(self._ids, agent_ids)
        self._ids, self._rows = self._ids[keep], self._rows[keep]

    def __len__(self) -> int:
        return len(self._ids)


Asking = tuple[int, BehaviorId]
"""The environment and the behaviour id of a batch of agents."""


class ActingMemories:
    """The states of one behaviour's agents, of every environment.

    The agent processors keep the same states with the steps that they belong to; but they take a message in
    only after it has been answered, and an answer needs the state that came out of the one before.
    """

    def __init__(self, size: int) -> None:
        """`size`: of an agent's state."""
        self.size = size
        self._of: dict[Asking, AgentMemories] = {}

    def end(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Forget the agents whose episodes end with this message, or began before it and are void."""
        key = (step.env, behavior_id)
        known = self._of.get(key)
        if known is None:
            return
        if step.fresh:
            del self._of[key]
            return
        if behavior_id in step.void_agents:
            known.forget(step.void_agents[behavior_id])
        if behavior_id in step.steps:
            terminals = step.steps[behavior_id][1]
            if len(terminals):
                known.forget(np.asarray(terminals.agent_id))

    def read(self, asking: Sequence[Asking], batches: Sequence[DecisionSteps]) -> NDArray[np.float32]:
        """The states of the agents of all batches, one batch behind another: [n, size]; zeros at first."""
        return np.concatenate(
            [self._known(key).read(np.asarray(batch.agent_id)) for key, batch in zip(asking, batches)]
        )

    def store(self, asking: Sequence[Asking], decided: Sequence[Decision]) -> None:
        """Keep the states that came out of these decisions, one for each batch."""
        for key, decision in zip(asking, decided, strict=True):
            assert decision.memory is not None
            self._known(key).store(decision.agent_id, decision.memory)

    def replace(
        self, asking: Sequence[Asking], batches: Sequence[DecisionSteps], states: NDArray[np.float32]
    ) -> None:
        """Keep new states of the agents of all batches, which lie one batch behind another: [n, size]."""
        start = 0
        for key, batch in zip(asking, batches, strict=True):
            self._known(key).store(np.asarray(batch.agent_id), states[start : start + len(batch)])
            start += len(batch)

    def _known(self, key: Asking) -> AgentMemories:
        if key not in self._of:
            self._of[key] = AgentMemories(self.size)
        return self._of[key]
