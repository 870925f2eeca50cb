"""Snapshots of a policy during training, and their Elo ratings (Elo 1978, The Rating of Chessplayers)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

NEWEST = -1
"""In place of a slot: the weights that are being learned. Their rating is the last one."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The weights of a policy; two snapshots are the same only if they are the same object."""

    weights: Mapping[str, Tensor]


class SnapshotPool:
    """The last snapshots, of which the oldest gives way to the next one, and their ratings."""

    def __init__(self, window: int, rating: float) -> None:
        """`window`: how many snapshots there are at most; `rating`: of all to begin with."""
        self.window = window
        self.snapshots: list[Snapshot] = []
        self.next_slot = 0
        self.ratings = [rating] * (window + 1)
        """By slot; the last one is that of the newest weights."""

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
        return state, {key: known[snapshot] for key, snapshot in others.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> list[Snapshot]:
        """Take over a state; the snapshots of its `weights`. A smaller window keeps the youngest."""
        known = [Snapshot(weights) for weights in state["weights"]]
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
        """All begin with this rating."""
        self.ratings = [rating] * (self.window + 1)


WIN, DRAW, LOSS = 1.0, 0.5, 0.0
"""Results of a game, as the player's share of it."""
SCALE = 400.0
"""A player rated so many points higher is expected to win ten times as often as to lose."""


def expected_result(own: float, other: float) -> float:
    """What a player rated `own` gets on average of a game against one rated `other`: 0 to 1."""
    return 1.0 / (1.0 + math.pow(10.0, (other - own) / SCALE))


def rating_change(own: float, other: float, result: float) -> float:
    """By how much a game changes the player's rating; the other's changes by as much the other way.

    The factor K, 10 to 40 among people, is 1: agents play very many games, as in ML-Agents.
    """
    return result - expected_result(own, other)


def result_of(reward: float) -> float:
    """The result of a game by its last reward, the agent's and its group's together."""
    return WIN if reward > 0 else LOSS if reward < 0 else DRAW
