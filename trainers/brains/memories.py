"""The recurrent states of the agents that a brain plays."""

import numpy as np
from numpy.typing import NDArray


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
