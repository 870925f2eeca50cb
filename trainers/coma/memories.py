"""What a recurrent critic remembers of the members who go on behind trajectories."""

from __future__ import annotations

import numpy as np

from ...agent_processor.trajectory import AgentKey, Rollout
from ..recurrent import CriticMemories
from .steps import Floats


class Following:
    """The E members who go on behind the trajectories of a rollout, trajectory by trajectory."""

    def __init__(self, rollout: Rollout) -> None:
        assert rollout.next_roster is not None
        self.rollout = rollout
        self.end, self.place = np.nonzero(rollout.next_roster >= 0)
        """[E] behind which trajectory, and at which place."""
        self.rows = rollout.next_roster[self.end, self.place]

    def read(self, memories: CriticMemories) -> Floats:
        """[E, size] their states as they are kept before the rollout is gone through; zeros of strangers."""
        return memories.read(self._agents())

    def newest(self, earlier: Floats, behind: Floats) -> Floats:
        """[E, size] the newest state that is known of each member.

        That is the state behind its own trajectory, where that ends in this very row; else behind its last
        trajectory before this one; else what was known `earlier` [E, size], from `read`. A member whose
        episode has ended begins the next one with zeros. `behind` [J, size] are the states behind the
        trajectories.
        """
        rollout, states = self.rollout, earlier.copy()
        assert rollout.next_place is not None and rollout.next_roster is not None
        goes_on = np.flatnonzero(rollout.next_place >= 0)
        their_rows = rollout.next_roster[goes_on, rollout.next_place[goes_on]]
        of_row = dict(zip(their_rows.tolist(), goes_on.tolist()))
        so_far: dict[AgentKey, int] = {}
        counted = 0
        members = zip(self.end.tolist(), self.rows.tolist(), self._agents(), strict=True)
        for i, (end, row, agent) in enumerate(members):
            for j in range(counted, end + 1):
                so_far[rollout.agents[j]] = j
            counted = end + 1
            own = of_row.get(row)
            last = so_far.get(agent)
            if own is not None:
                states[i] = behind[own]
            elif last is not None:
                states[i] = 0.0 if rollout.done_reached[last] else behind[last]
        return states

    def _agents(self) -> list[AgentKey]:
        assert self.rollout.next_agents is not None
        ids = self.rollout.next_agents[self.end, self.place].tolist()
        agents = self.rollout.agents
        return [AgentKey(agents[j].env, agent) for j, agent in zip(self.end.tolist(), ids, strict=True)]
