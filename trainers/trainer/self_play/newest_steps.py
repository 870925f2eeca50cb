"""Learning from both sides: which steps of a symmetric game the newest weights have taken."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter

import numpy as np

from ....agent_processor.trajectory import AgentKey, EpisodesForgotten, Trajectory

Item = Trajectory | EpisodesForgotten


class NewestSteps:
    """Selects the trajectories in which the newest weights acted, whichever team's they are.

    A trajectory ends where its team gets other weights (`AgentProcessor`): it is wholly of the newest ones,
    as they were at each of its steps, or wholly of a snapshot.
    """

    def __init__(self) -> None:
        self._open: set[AgentKey] = set()
        """Opponents in episodes that go on, of whose trajectories so far none is missing at the end."""
        self._gaps: set[AgentKey] = set()
        """Opponents whose trajectories were learned from until a snapshot acted for them."""

    def select(self, trajectory: Trajectory, own: bool) -> list[Item]:
        """The trajectory if it is to be learned from; `own`: of the learning team.

        What a trainer keeps of an agent from one trajectory to the next (the state of a critic's memory, the
        return so far) is forgotten where steps in between are missing.
        """
        agent = trajectory.agent
        if trajectory.by_snapshot:
            if agent in self._open:
                self._open.remove(agent)
                self._gaps.add(agent)
            return []
        if own:
            return [trajectory]
        trajectory.of_opponent = True
        forgotten = self._close_gaps()
        if trajectory.done_reached:
            self._open.discard(agent)
        else:
            self._open.add(agent)
        return [*forgotten, trajectory]

    def _close_gaps(self) -> list[EpisodesForgotten]:
        """What is to be forgotten now, together: trajectories are processed together in between."""
        gaps, self._gaps = sorted(self._gaps), set()
        return [
            EpisodesForgotten(env, np.array([key.agent for key in keys], dtype=np.int32))
            for env, keys in groupby(gaps, key=attrgetter("env"))
        ]

    def on_forgotten(self, forgotten: EpisodesForgotten) -> None:
        """These episodes will not go on."""
        for agents in (self._open, self._gaps):
            if forgotten.env is None:
                agents.clear()
            elif forgotten.agent_ids is None:
                agents -= {key for key in agents if key.env == forgotten.env}
            else:
                agents -= {AgentKey(forgotten.env, agent) for agent in forgotten.agent_ids.tolist()}
