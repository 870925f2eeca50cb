"""The columns of a replay's steps, but for their observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.sequences import Sequences
from ...agent_processor.trajectory import Rollout
from .layout import ReplayLayout
from .observations import Ints, Kept, PlainObservations


class StepColumns:
    """Arrays of `capacity` rows, not touched before they are written."""

    def __init__(self, layout: ReplayLayout) -> None:
        n = layout.capacity
        self.continuous = np.zeros((n, layout.continuous), np.float32)
        self.discrete = np.zeros((n, len(layout.branches)), np.int32)
        self.rewards = np.zeros((n, layout.signals), np.float32)
        self.following = np.zeros(n, np.int32)
        """The slot of the next observation."""
        self.ended = np.zeros(n, np.bool_)
        """Behind the step nothing is earned. So it is of padding."""
        self.real = np.zeros(n, np.bool_)
        """False for padding."""
        self.states = np.zeros((layout.sequences, layout.memory_size), np.float32)
        """[sequences, memory_size] the actor's before each sequence."""
        self.extra = {e.name: np.zeros((n, *e.shape), e.dtype) for e in layout.extra}
        self.masks: PlainObservations | None = None
        """Of the observations; None as long as no action ever was forbidden."""
        self._layout = layout
        self._ends = 0

    def write(
        self,
        places: Ints,
        sequences: Sequences,
        rollout: Rollout,
        rewards: NDArray[np.float32],
        extra: Mapping[str, NDArray[Any]],
    ) -> None:
        """Put the rollout's steps, padded, at `places` [n]; `rewards` is [steps, S], `extra` [steps, ...]."""
        index = sequences.index
        self.real[places] = sequences.real
        self.continuous[places] = rollout.continuous[index]
        self.discrete[places] = rollout.discrete[index]
        self.rewards[places] = sequences.column(rewards)
        for name, column in self.extra.items():
            column[places] = extra[name][index]
        length = self._layout.sequence_length
        if rollout.memory is not None and self._layout.memory_size:
            self.states[places[::length] // length] = rollout.memory[index[::length]]

    def write_masks(self, slots: Ints, masks: NDArray[np.bool_] | None) -> None:
        """The masks [n, sum of branch sizes] of the observations in these slots [n]."""
        if masks is None or (self.masks is None and not masks.any()):
            return
        if self.masks is None:
            self._have_masks()
        assert self.masks is not None
        self.masks.write(slots, masks, slots, slots)

    def _have_masks(self) -> None:
        self.masks = PlainObservations(self._layout.capacity, (sum(self._layout.branches),), np.bool_)
        self.masks.reserve(self._ends)

    def reserve(self, ends: int) -> None:
        """Make room for the masks of this many ends."""
        self._ends = ends
        if self.masks is not None:
            self.masks.reserve(ends)

    def kept(self, places: Sequence[slice]) -> dict[str, Kept]:
        """All arrays; `places`: of the steps that the replay holds."""
        length = self._layout.sequence_length
        sequences = [slice(part.start // length, part.stop // length) for part in places]
        arrays = {
            "continuous": self.continuous,
            "discrete": self.discrete,
            "rewards": self.rewards,
            "following": self.following,
            "ended": self.ended,
            "real": self.real,
            **{f"extra.{name}": column for name, column in self.extra.items()},
        }
        kept = {name: Kept(array, places) for name, array in arrays.items()}
        kept["states"] = Kept(self.states, sequences)
        if self.masks is not None:
            kept.update({f"masks.{name}": one for name, one in self.masks.kept(places).items()})
        return kept

    def state(self) -> dict[str, Any]:
        """What is to be saved beside the arrays."""
        return {"masks": self.masks is not None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave, before the arrays are filled."""
        if state["masks"]:
            self._have_masks()
