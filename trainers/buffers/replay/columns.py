"""The columns of a replay's steps other than observations, and how much memory all of them take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ....agent_processor.rollout import PaddedSequences
from ....agent_processor.trajectory import Rollout
from .frame_stacks import spare_frames, stack_sizes
from .observations import Ints, PlainObservations, SavedRows
from .priorities import tree_bytes

BYTES, FLOATS = np.dtype(np.uint8), np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class ExtraColumn:
    """Values of each step that an algorithm needs in batches beside the usual columns."""

    name: str
    shape: tuple[int, ...]
    dtype: Any = FLOATS


@dataclass(frozen=True, slots=True)
class ReplayLayout:
    """The columns of a replay. A saved replay describes them by these field names."""

    capacity: int
    """The number of steps, padding among them; a multiple of `sequence_length`."""
    sensors: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """The shapes of the observations."""
    dtypes: tuple[Any, ...]
    """The types of the observations: uint8 for images that come as bytes, else float32."""
    stacks: tuple[int, ...]
    """The number of frames that each observation stacks; 1: it is no stack."""
    continuous: int
    branches: tuple[int, ...]
    signals: int
    sequence_length: int = 1
    memory_size: int = 0
    longest: int = 64
    """The greatest number of steps of a trajectory."""
    prioritized: bool = False
    extra: tuple[ExtraColumn, ...] = ()

    @classmethod
    def of(
        cls,
        spec: BehaviorSpec,
        buffer_size: int,
        signals: int,
        *,
        frame_stack: int = 1,
        sequence_length: int = 1,
        memory_size: int = 0,
        longest: int = 64,
        prioritized: bool = False,
        extra: Sequence[ExtraColumn] = (),
    ) -> ReplayLayout:
        """The layout for a behavior, assuming that images come as bytes."""
        sensors = tuple(str(o.name) for o in spec.observation_specs)
        shapes = tuple(tuple(int(n) for n in o.shape) for o in spec.observation_specs)
        return cls(
            capacity=max(buffer_size // sequence_length, 1) * sequence_length,
            sensors=sensors,
            shapes=shapes,
            dtypes=tuple(BYTES if len(shape) == 3 else FLOATS for shape in shapes),
            stacks=tuple(stack_sizes(sensors, shapes, frame_stack)),
            continuous=int(spec.action_spec.continuous_size),
            branches=tuple(int(n) for n in spec.action_spec.discrete_branches),
            signals=signals,
            sequence_length=sequence_length,
            memory_size=memory_size,
            longest=longest,
            prioritized=prioritized,
            extra=tuple(extra),
        )

    @property
    def sequences(self) -> int:
        """The number of sequences that fit."""
        return self.capacity // self.sequence_length

    def observation_bytes(self) -> list[int]:
        """The bytes of each sensor's observations when the replay is full."""
        return [self._of_one(*one) for one in zip(self.shapes, self.dtypes, self.stacks, strict=True)]

    def _of_one(self, shape: tuple[int, ...], dtype: Any, stack: int) -> int:
        size = prod(shape) * int(np.dtype(dtype).itemsize)
        if stack == 1:
            return self.capacity * size
        frames = self.capacity + spare_frames(self.capacity, stack, self.longest)
        return frames * size // stack + self.capacity * stack * 8

    def nbytes(self) -> int:
        """Bytes of memory when the replay is full.

        Final observations, one per episode, come on top, and masks if any action is ever forbidden.
        """
        words = self.continuous + len(self.branches) + self.signals + 1
        step = 4 * words + 2 + sum(prod(e.shape) * int(np.dtype(e.dtype).itemsize) for e in self.extra)
        tree = tree_bytes(self.sequences) if self.prioritized else 0
        states = self.sequences * 4 * self.memory_size
        return sum(self.observation_bytes()) + self.capacity * step + states + tree


class ReplayColumns:
    """Arrays of `capacity` rows, whose memory is not touched before they are written."""

    def __init__(self, layout: ReplayLayout) -> None:
        n = layout.capacity
        self.continuous = np.zeros((n, layout.continuous), np.float32)
        self.discrete = np.zeros((n, len(layout.branches)), np.int32)
        self.rewards = np.zeros((n, layout.signals), np.float32)
        self.following = np.zeros(n, np.int32)
        """The slot of the next observation."""
        self.ended = np.zeros(n, np.bool_)
        """Whether nothing is earned after the step; True for padding too."""
        self.real = np.zeros(n, np.bool_)
        """Whether the row is a step; False for padding."""
        self.states = np.zeros((layout.sequences, layout.memory_size), np.float32)
        """[sequences, memory_size] the actor's state before each sequence."""
        self.extra = {e.name: np.zeros((n, *e.shape), e.dtype) for e in layout.extra}
        self.masks: PlainObservations | None = None
        """The action masks at the observations; None until an action is forbidden."""
        self._layout = layout
        self._final_count = 0

    def write(
        self,
        places: Ints,
        sequences: PaddedSequences,
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
        """Store the masks [n, sum of branch sizes] of the observations in these slots [n]."""
        if masks is None or (self.masks is None and not masks.any()):
            return
        if self.masks is None:
            self._add_masks()
        assert self.masks is not None
        self.masks.write(slots, masks, slots, slots)

    def _add_masks(self) -> None:
        self.masks = PlainObservations(self._layout.capacity, (sum(self._layout.branches),), np.bool_)
        self.masks.reserve(self._final_count)

    def reserve(self, finals: int) -> None:
        """Make room for the masks of this many final observations."""
        self._final_count = finals
        if self.masks is not None:
            self.masks.reserve(finals)

    def saved_rows(self, places: Sequence[slice]) -> dict[str, SavedRows]:
        """All arrays to be saved, by name; `places` are those of the steps that the replay holds."""
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
        saved = {name: SavedRows(array, places) for name, array in arrays.items()}
        saved["states"] = SavedRows(self.states, sequences)
        if self.masks is not None:
            saved.update({f"masks.{name}": one for name, one in self.masks.saved_rows(places).items()})
        return saved

    def state(self) -> dict[str, Any]:
        """What is saved beside the arrays."""
        return {"masks": self.masks is not None}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned, before the arrays are filled."""
        if state["masks"]:
            self._add_masks()
