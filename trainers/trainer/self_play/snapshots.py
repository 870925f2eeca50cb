"""Snapshots of a policy, their win rates and ratings (Elo 1978), and the opponents that act with them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from mlagents_envs.base_env import DecisionSteps
from torch import Tensor

from ....agent_processor.queues import AgentManagerQueue
from ....envs.base import BehaviorId, BehaviorName
from ...policies.agent_states import BatchSource
from ...policies.joint import ActRequest
from ...policies.policy import Policy

MakeRequest = Callable[[Policy, Sequence[DecisionSteps], Sequence[BatchSource]], ActRequest]
"""A request to a policy for the agents of some batches, at least one agent in all."""
NEWEST = -1
"""The slot of the weights that are being learned, which are no snapshot. Their rating is the last one."""

RECORD_DISCOUNT = 0.99
"""The factor by which a game counts less after each later one: a record is of about the last hundred."""


@dataclass(slots=True)
class WinRecord:
    """The learner's games against a snapshot; older ones, of a weaker learner, count for less."""

    games: float = 0.0
    score: float = 0.0
    """The games won and half of the games drawn, counted like `games`."""

    def add(self, result: float) -> None:
        """Count a game; the learner's `result` is its share of it, 0 to 1."""
        self.games = RECORD_DISCOUNT * self.games + 1.0
        self.score = RECORD_DISCOUNT * self.score + result

    @property
    def win_rate(self) -> float:
        """The estimated share of games that the learner wins, as if it had won one more and lost one more."""
        return (self.score + 1.0) / (self.games + 2.0)


def prioritized_choice(win_rates: Sequence[float], uniform: float) -> int:
    """Choose an opponent that is hard to beat; `uniform`: a random number from [0, 1).

    Prioritized fictitious self-play, Vinyals et al. 2019, "Grandmaster level in StarCraft II using
    multi-agent reinforcement learning": opponents are sampled in proportion to f_hard(p) = (1 - p)^2 of the
    learner's win rate p against them, which must be below 1.
    """
    totals = list(accumulate((1.0 - p) ** 2 for p in win_rates))
    return next((k for k, total in enumerate(totals) if uniform * totals[-1] < total), len(totals) - 1)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The weights of a policy; two snapshots are the same only if they are the same object."""

    weights: Mapping[str, Tensor]
    record: WinRecord = field(default_factory=WinRecord)
    """The learner's games against the snapshot."""


class SnapshotPool:
    """The last snapshots, of which the oldest gives way to the next one, and their ratings."""

    def __init__(self, window: int, rating: float) -> None:
        """`window`: how many snapshots there are at most; `rating`: of all to begin with."""
        self.window = window
        self.snapshots: list[Snapshot] = []
        self.next_slot = 0
        self.ratings = [rating] * (window + 1)
        """The ratings by slot; the last one is that of the newest weights."""

    def save(self, snapshot: Snapshot) -> None:
        """Keep the newest weights, rated as they are now."""
        if self.next_slot < len(self.snapshots):
            self.snapshots[self.next_slot] = snapshot
        else:
            self.snapshots.append(snapshot)
        self.ratings[self.next_slot] = self.ratings[NEWEST]
        self.next_slot = (self.next_slot + 1) % self.window

    def state_dict(self, others: Mapping[int, Snapshot]) -> tuple[dict[str, Any], dict[int, int]]:
        """The pool, and snapshots that may have left it: all weights once, by number in `weights`.

        Returns:
            The pool's state, and the numbers of the `others` by their keys.
        """
        known: dict[Snapshot, int] = {}
        for snapshot in (*self.snapshots, *others.values()):
            known.setdefault(snapshot, len(known))
        state = {
            "weights": [dict(snapshot.weights) for snapshot in known],
            "slots": [known[snapshot] for snapshot in self.snapshots],
            "next_slot": self.next_slot,
            "ratings": list(self.ratings),
        }
        if any(snapshot.record.games for snapshot in known):
            state["records"] = records_of(known)
        return state, {key: known[snapshot] for key, snapshot in others.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> list[Snapshot]:
        """Take over a state; return the snapshots of its `weights`. A smaller window keeps the youngest."""
        known = [Snapshot(weights) for weights in state["weights"]]
        restore_records(known, state.get("records", []))
        slots = [known[number] for number in state["slots"]]
        ratings = [float(rating) for rating in state["ratings"]]
        if len(ratings) == self.window + 1:
            self.snapshots, self.next_slot, self.ratings = slots, int(state["next_slot"]), ratings
            return known
        # The oldest is in the slot that is filled next, once all are filled.
        turn = int(state["next_slot"]) if len(slots) == len(ratings) - 1 else 0
        order = [*range(turn, len(slots)), *range(turn)][-self.window :]
        self.snapshots = [slots[k] for k in order]
        kept = [ratings[k] for k in order]
        self.ratings = [*kept, *[ratings[NEWEST]] * (self.window - len(kept)), ratings[NEWEST]]
        self.next_slot = len(order) % self.window
        return known

    def reset_ratings(self, rating: float) -> None:
        """Let all begin with this rating."""
        self.ratings = [rating] * (self.window + 1)


def records_of(snapshots: Iterable[Snapshot]) -> list[list[float]]:
    """Plain values of the snapshots' records, for a checkpoint."""
    return [[snapshot.record.games, snapshot.record.score] for snapshot in snapshots]


def restore_records(snapshots: Iterable[Snapshot], saved: Iterable[Sequence[float]]) -> None:
    """Restore what `records_of` returned for these snapshots."""
    for snapshot, (games, score) in zip(snapshots, saved):
        snapshot.record.games, snapshot.record.score = float(games), float(score)


WIN, DRAW, LOSS = 1.0, 0.5, 0.0
"""Results of a game, as the player's share of it."""
SCALE = 400.0
"""A player rated so many points higher is expected to win ten times as often as to lose."""


def expected_result(own: float, other: float) -> float:
    """What a player rated `own` gets on average of a game against one rated `other`: 0 to 1."""
    return 1.0 / (1.0 + math.pow(10.0, (other - own) / SCALE))


def rating_change(own: float, other: float, result: float) -> float:
    """The points that a game adds to the player's rating; the other's changes by as much the other way.

    The factor K, 10 to 40 among people, is 1: agents play very many games, as in ML-Agents.
    """
    return result - expected_result(own, other)


def result_of(reward: float) -> float:
    """The result of a game by its last reward, the agent's and its group's together."""
    return WIN if reward > 0 else LOSS if reward < 0 else DRAW


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
            seed: the seed of the actions that all opponents sample.
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
