"""Inference for the teams that do not learn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from mlagents_envs.base_env import DecisionSteps

from ....agent_processor.queues import AgentManagerQueue
from ....envs.base import BehaviorId, BehaviorName
from ...policies.agent_states import BatchSource
from ...policies.joint import ActRequest
from ...policies.policy import Policy
from .snapshots import Snapshot

MakeRequest = Callable[[Policy, Sequence[DecisionSteps], Sequence[BatchSource]], ActRequest]
"""A request to a policy for the agents of some batches, at least one agent in all."""


@dataclass(eq=False)
class _Opponent:
    """A network of its own, and the policy that acts with it."""

    network: Any
    policy: Policy
    snapshot: Snapshot | None = None


class Opponents:
    """The policies of one behavior's teams; teams with the same snapshot act in one forward pass.

    `learn` and `assign` may be called from the thread that learns; they take effect with the next decision.
    """

    def __init__(self, network: Any, make: Callable[[Any], Policy], seed: int, marks: bool = False) -> None:
        """Start without opponents.

        Args:
            network: copied for every snapshot that plays; it is not changed.
            make: makes the policy that acts with such a copy.
            seed: of the actions that all opponents sample.
            marks: whether decisions of snapshots are marked as `by_snapshot`.
        """
        self._marks = marks
        self.generator = torch.Generator().manual_seed(seed)
        self._network = network
        self._make = make
        self._assignments: AgentManagerQueue[tuple[int, Snapshot | None]] = AgentManagerQueue("opponents")
        self._opponents: list[_Opponent] = []
        self._opponent_of: dict[int, _Opponent] = {}

    def learn(self, team: int) -> None:
        """The team acts with the weights that are being trained."""
        self._assignments.put((team, None))

    def assign(self, team: int, snapshot: Snapshot) -> None:
        """The team acts with a snapshot."""
        self._assignments.put((team, snapshot))

    def requests(
        self,
        learner: Policy,
        batches: Sequence[DecisionSteps],
        sources: Sequence[BatchSource],
        request: MakeRequest,
    ) -> list[ActRequest]:
        """What to ask each team's own policy; every batch is in one of them."""
        for team, snapshot in self._assignments.drain():
            self._assign(team, snapshot)
        batches_of: dict[Policy, list[int]] = {}
        for k, (_, behavior_id) in enumerate(sources):
            opponent = self._opponent_of.get(team_of(behavior_id))
            batches_of.setdefault(learner if opponent is None else opponent.policy, []).append(k)
        found: list[ActRequest] = []
        for policy, which in batches_of.items():
            made = request(policy, [batches[k] for k in which], [sources[k] for k in which])
            by_snapshot = self._marks and policy is not learner
            found.append(made._replace(by_snapshot=True) if by_snapshot else made)
        return found

    def _assign(self, team: int, snapshot: Snapshot | None) -> None:
        self._opponent_of.pop(team, None)
        if snapshot is not None:
            self._opponent_of[team] = self._opponent_for(snapshot)

    def _opponent_for(self, snapshot: Snapshot) -> _Opponent:
        """The opponent that already has the snapshot, else an idle one, else a new one."""
        for opponent in self._opponent_of.values():
            if opponent.snapshot is snapshot:
                return opponent
        busy = list(self._opponent_of.values())
        free = next((opponent for opponent in self._opponents if opponent not in busy), None)
        if free is None:
            network = copy.deepcopy(self._network).cpu().requires_grad_(False)
            free = _Opponent(network, self._make(network))
            free.policy.generator = self.generator
            self._opponents.append(free)
        free.network.load_state_dict(snapshot.weights)
        free.snapshot = snapshot
        return free


@lru_cache(maxsize=256)
def team_of(behavior_id: BehaviorId) -> int:
    """The number of the team."""
    return BehaviorName.parse(behavior_id).team_id
