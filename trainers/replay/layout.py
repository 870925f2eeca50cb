"""What a replay holds, and how much memory that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec

from .frames import spare_frames
from .priorities import tree_bytes
from .stacks import stack_sizes

BYTES, FLOATS = np.dtype(np.uint8), np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class ExtraColumn:
    """Numbers of each step that an algorithm wants to have back with a batch."""

    name: str
    shape: tuple[int, ...]
    dtype: Any = FLOATS


@dataclass(frozen=True, slots=True)
class ReplayLayout:
    """The columns of a replay."""

    capacity: int
    """Steps, padding among them; a multiple of `sequence_length`."""
    sensors: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    """Of the observations."""
    dtypes: tuple[Any, ...]
    """uint8 for pictures that come as bytes, else float32."""
    stacks: tuple[int, ...]
    """Frames that each observation is a stack of; 1: it is none."""
    continuous: int
    branches: tuple[int, ...]
    signals: int
    sequence_length: int = 1
    memory_size: int = 0
    longest: int = 64
    """Steps of a trajectory, at most."""
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
        """The layout for a behaviour, as long as nothing tells otherwise with its pictures as bytes."""
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
        """How many sequences there is room for."""
        return self.capacity // self.sequence_length

    def observation_bytes(self) -> list[int]:
        """Of each sensor, when the replay is full."""
        return [self._of_one(*one) for one in zip(self.shapes, self.dtypes, self.stacks, strict=True)]

    def _of_one(self, shape: tuple[int, ...], dtype: Any, stack: int) -> int:
        size = prod(shape) * int(np.dtype(dtype).itemsize)
        if stack == 1:
            return self.capacity * size
        frames = self.capacity + spare_frames(self.capacity, stack, self.longest)
        return frames * size // stack + self.capacity * stack * 8

    def nbytes(self) -> int:
        """Bytes of memory when the replay is full.

        The observations behind episodes come to it, one an episode, and masks only where some action is ever
        forbidden.
        """
        words = self.continuous + len(self.branches) + self.signals + 1
        step = 4 * words + 2 + sum(prod(e.shape) * int(np.dtype(e.dtype).itemsize) for e in self.extra)
        tree = tree_bytes(self.sequences) if self.prioritized else 0
        states = self.sequences * 4 * self.memory_size
        return sum(self.observation_bytes()) + self.capacity * step + states + tree
