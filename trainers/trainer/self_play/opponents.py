"""Acts for the teams that do not learn."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from mlagents_envs.base_env import DecisionSteps

from ....agent_processor.queues import AgentManagerQueue
from ....envs.base import BehaviorId, BehaviorName, Decision
from ...policies.agent_states import Asking
from ...policies.policy import Policy
from .snapshots import Snapshot

Act = Callable[[Policy, Sequence[DecisionSteps], Sequence[Asking]], list[Decision]]
"""Lets a policy decide for the agents of some batches, at least one agent in all."""


@dataclass(eq=False)
class _Player:
    """A network on its own, and what acts by it."""

    network: Any
    policy: Policy
    snapshot: Snapshot | None = None


class Opponents:
    """By whom each team of one behaviour acts; teams with one snapshot act in one forward pass.

    `learn` and `assign` may be called by the thread that learns; they take effect with the next decision.
    """

    def __init__(self, network: Any, make: Callable[[Any], Policy], seed: int) -> None:
        """Begin without opponents.

        Args:
            network: that is copied for every snapshot that plays; it is not changed.
            make: the policy that acts by such a copy.
            seed: of what all opponents leave to chance.
        """
        self.generator = torch.Generator().manual_seed(seed)
        self._network = network
        self._make = make
        self._told: AgentManagerQueue[tuple[int, Snapshot | None]] = AgentManagerQueue("opponents")
        self._players: list[_Player] = []
        self._of_team: dict[int, _Player] = {}

    def learn(self, team: int) -> None:
        """The team acts by what is learnt."""
        self._told.put((team, None))

    def assign(self, team: int, snapshot: Snapshot) -> None:
        """The team acts by a snapshot."""
        self._told.put((team, snapshot))

    def decide(
        self, learner: Policy, batches: Sequence[DecisionSteps], asking: Sequence[Asking], act: Act
    ) -> list[Decision]:
        """Decide for all teams, each by its own policy; one Decision per batch."""
        for team, snapshot in self._told.drain():
            self._seat(team, snapshot)
        shares: dict[Policy, list[int]] = {}
        for k, (_, behavior_id) in enumerate(asking):
            player = self._of_team.get(_team(behavior_id))
            shares.setdefault(learner if player is None else player.policy, []).append(k)
        decided: dict[int, Decision] = {}
        for policy, which in shares.items():
            answers = act(policy, [batches[k] for k in which], [asking[k] for k in which])
            decided.update(zip(which, answers, strict=True))
        return [decided[k] for k in range(len(batches))]

    def _seat(self, team: int, snapshot: Snapshot | None) -> None:
        self._of_team.pop(team, None)
        if snapshot is not None:
            self._of_team[team] = self._player(snapshot)

    def _player(self, snapshot: Snapshot) -> _Player:
        """Who plays by the snapshot already, else who plays for nobody, else somebody new."""
        for player in self._of_team.values():
            if player.snapshot is snapshot:
                return player
        playing = list(self._of_team.values())
        free = next((player for player in self._players if player not in playing), None)
        if free is None:
            network = copy.deepcopy(self._network).cpu().requires_grad_(False)
            free = _Player(network, self._make(network))
            free.policy.generator = self.generator
            self._players.append(free)
        free.network.load_state_dict(snapshot.weights)
        free.snapshot = snapshot
        return free


@lru_cache(maxsize=256)
def _team(behavior_id: BehaviorId) -> int:
    return BehaviorName.parse(behavior_id).team_id
