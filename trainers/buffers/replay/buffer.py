"""The replay buffer: appends trajectories, drops the oldest steps, and samples the others (Lin 1992)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.rollout import PaddedSequences, pad_sequences, select_trajectories
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ....envs.images import as_floats
from ...utils.errors import TrainerError
from .columns import BYTES, ReplayColumns, ReplayLayout
from .frame_stacks import StackedObservations
from .observations import FinalObservations, Ints, Observations, PlainObservations, SavedRows
from .priorities import Priorities


class NextIndices(NamedTuple):
    """How the observations of a rollout's n steps are linked."""

    following: Ints
    """[n] the slot of each step's next observation."""
    before: Ints
    """[n] the slot of each step's previous observation, -1 for none."""
    known: Ints
    """[n] the slot that already holds a step's observation, -1 for none."""
    finals: Ints
    """[e] the trajectories whose final observation needs a slot."""
    slots: Ints
    """[e] these slots."""
    last: Ints
    """[e] the place of each one's last step."""


class Replay:
    """A ring of steps, each with its observation and the index of the next one.

    The steps are numbered from 0 on, and step k lies at the place k modulo the capacity. The slot of an
    observation is its step's place; a final observation, which is not (yet) the first of the agent's next
    trajectory, has a slot beyond all places.
    """

    def __init__(
        self,
        layout: ReplayLayout,
        prioritized_alpha: float | None = None,
        *,
        own_observation: bool = False,
    ) -> None:
        """Allocate room for `layout.capacity` steps.

        Args:
            layout: the columns.
            prioritized_alpha: see `Priorities`; None samples uniformly.
            own_observation: the last step of an interrupted episode is followed by its own observation, as in
                ML-Agents, rather than by the last one that the engine sent.
        """
        self.layout = layout
        self.alpha = prioritized_alpha
        self.own_observation = own_observation
        self.tail, self.head = 0, 0
        """The oldest step that is held, and the number of the next one."""
        self.columns = ReplayColumns(layout)
        self.finals = FinalObservations(layout.capacity)
        self.observations: list[Observations] = [
            StackedObservations(layout.capacity, shape, dtype, stack, layout.longest)
            if stack > 1
            else PlainObservations(layout.capacity, shape, dtype)
            for shape, dtype, stack in zip(layout.shapes, layout.dtypes, layout.stacks, strict=True)
        ]
        self.priorities = (
            None if prioritized_alpha is None else Priorities(layout.sequences, prioritized_alpha)
        )

    def __len__(self) -> int:
        return self.head - self.tail

    # Appending ------------------------------------------------------------------------------------------

    def append(
        self, rollout: Rollout, rewards: NDArray[np.float32], extra: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Append the trajectories' own steps, overwriting the oldest when full.

        Args:
            rollout: trajectories, those of one agent in chronological order.
            rewards: [steps, S].
            extra: [steps, ...] of each extra column of the layout.
        """
        columns = dict(extra or {})
        for part, own in self._split(rollout):
            self._append(part, rewards[own], {name: column[own] for name, column in columns.items()})

    def _split(self, rollout: Rollout) -> Iterator[tuple[Rollout, NDArray[np.int64] | slice]]:
        """The rollout in parts that can be appended at once, and the steps of each."""
        stacked = any(stack > 1 for stack in self.layout.stacks)
        most = min(self.layout.capacity, self.layout.longest if stacked else self.layout.capacity)
        padded = -(-rollout.lengths // self.layout.sequence_length) * self.layout.sequence_length
        if int(padded.sum()) <= most:
            yield rollout, slice(rollout.steps)
            return
        part_of, count, part = np.empty(len(padded), np.int64), 0, 0
        for j, length in enumerate(padded.tolist()):
            if count and count + length > most:
                count, part = 0, part + 1
            count += length
            part_of[j] = part
        part_of_step = np.repeat(part_of, rollout.lengths)
        for number in range(part + 1):
            yield select_trajectories(rollout, part_of == number), np.flatnonzero(part_of_step == number)

    def _append(
        self, rollout: Rollout, rewards: NDArray[np.float32], extra: Mapping[str, NDArray[Any]]
    ) -> None:
        capacity = self.layout.capacity
        sequences = pad_sequences(rollout.lengths, self.layout.sequence_length)
        count = min(len(sequences.index), capacity)
        sequences = PaddedSequences(sequences.index[-count:], sequences.real[-count:])
        self._drop(self.head + count - capacity)
        places = (self.head + np.arange(count)) % capacity
        links = self._link(rollout, sequences, places)
        self.columns.write(places, sequences, rollout, rewards, extra)
        self.columns.following[places] = links.following
        self.columns.ended[places] = ~sequences.real | rollout.at_ends(rollout.terminated)[sequences.index]
        self._write_observations(rollout, sequences, places, links)
        if self.priorities is not None:
            self.priorities.add(self._units(places))
        self.head += count
        self._drop(max((o.oldest(self.tail) for o in self.observations), default=self.tail))

    def _link(self, rollout: Rollout, sequences: PaddedSequences, places: Ints) -> NextIndices:
        """Link the steps to their next observations, in the rollout or stored already."""
        firsts, lasts = _bounds(rollout, sequences)
        steps = len(places)
        following = np.where(sequences.real, np.roll(places, -1), places)
        before = np.where(sequences.real, np.roll(places, 1), places)
        known = np.full(steps, -1, np.int64)
        starts = _starts(rollout, sequences, firsts)
        used: list[int] = []
        before[0], before[firsts[firsts >= 0]] = -1, -1
        for row, first in starts.items():
            pending = self.finals.pop_pending(row)
            if pending is not None:
                self.columns.following[pending.place] = places[first]
                before[first], known[first] = pending.place, pending.slot
                used.append(pending.slot)
        finals, slots = [], []
        numbers = [-1] * len(lasts) if rollout.next_numbers is None else rollout.next_numbers.tolist()
        flags = zip(rollout.episode_over.tolist(), rollout.interrupted_at_end.tolist())
        for j, (row, (over, interrupted)) in enumerate(zip(numbers, flags, strict=True)):
            last = int(lasts[j])
            if over and interrupted and self.own_observation:
                following[last] = places[last]
            elif row in starts:
                following[last], before[starts[row]] = places[starts[row]], places[last]
            else:
                finals.append(j)
                slots.append(self.finals.allocate(int(places[last]), None if over or row < 0 else row))
                following[last] = slots[-1]
        # Only now: `known` refers to what they hold.
        self.finals.release(used)
        which = np.array(finals, np.int64)
        return NextIndices(following, before, known, which, np.array(slots, np.int64), places[lasts[which]])

    def _write_observations(
        self, rollout: Rollout, sequences: PaddedSequences, places: Ints, links: NextIndices
    ) -> None:
        """Write the observations and masks of the steps, and the final ones, into their slots."""
        index, real = sequences.index[sequences.real], sequences.real
        slots = np.concatenate([places[real], links.slots])
        before = np.concatenate([links.before[real], links.last])
        known = np.concatenate([links.known[real], np.full(len(links.slots), -1, np.int64)])
        for k, column in enumerate(self.observations):
            obs = np.concatenate([rollout.obs[k][index], rollout.next_obs[k][links.finals]])
            column.reserve(self.finals.slots)
            column.begin_write(self.head)
            column.write(slots, self._as_stored(k, obs), before, known)
            column.clear(places[~real])
        self.columns.reserve(self.finals.slots)
        if rollout.action_mask is not None:
            # Padding repeats a mask, so that no row forbids all actions.
            self.columns.write_masks(places, rollout.action_mask[sequences.index])
        if rollout.next_action_mask is not None:
            self.columns.write_masks(links.slots, rollout.next_action_mask[links.finals])

    def _as_stored(self, sensor: int, obs: ObsArray) -> ObsArray:
        """Observations in the dtype of those stored, whether these came as bytes or as floats."""
        wanted = self.layout.dtypes[sensor]
        if obs.dtype == wanted:
            return obs
        if wanted != BYTES:
            floats: ObsArray = as_floats(obs)
            return floats
        pixels: NDArray[np.float32] = np.rint(obs * 255.0)
        if not np.allclose(pixels, obs * 255.0, atol=1e-3) or pixels.min() < 0 or pixels.max() > 255:
            raise TrainerError(
                f"the sensor {self.layout.sensors[sensor]!r} first sent images of bytes, and now floats "
                "that are no bytes / 255: let it send one kind only"
            )
        return pixels.astype(np.uint8)

    # Dropping -------------------------------------------------------------------------------------------

    def _drop(self, first: int) -> None:
        """Drop the steps before `first`."""
        first += -first % self.layout.sequence_length
        if first <= self.tail:
            return
        places = np.arange(self.tail, min(first, self.head)) % self.layout.capacity
        following = self.columns.following[places]
        self.finals.release(following[following >= self.layout.capacity].tolist())
        if self.priorities is not None:
            self.priorities.drop(self._units(places))
        self.tail = min(first, self.head)

    def clear(self) -> None:
        """Drop everything."""
        self._drop(self.head)

    # Reading --------------------------------------------------------------------------------------------

    def sample(self, uniform: NDArray[np.float64]) -> Ints:
        """[n] units (see `places`) from uniform numbers [n] in [0, 1).

        With priorities if there are any, else uniformly with replacement. The replay must not be empty.
        """
        if self.priorities is not None:
            return self.priorities.sample(uniform)
        length = self.layout.sequence_length
        numbers = self.tail // length + (uniform * (len(self) // length)).astype(np.int64)
        return numbers % self.layout.sequences

    def places(self, units: Ints) -> Ints:
        """The places of units' steps: a unit is a sequence, of one step without a memory."""
        length = self.layout.sequence_length
        return units if length == 1 else (units[:, None] * length + np.arange(length)).ravel()

    def _units(self, places: Ints) -> Ints:
        length = self.layout.sequence_length
        return places[::length] // length

    # Saving ---------------------------------------------------------------------------------------------

    def held(self) -> list[slice]:
        """The places of the steps that are held, as one or two slices."""
        capacity = self.layout.capacity
        first, last = self.tail % capacity, self.tail % capacity + len(self)
        slices = [slice(first, min(last, capacity)), slice(0, max(0, last - capacity))]
        return [part for part in slices if part.stop > part.start]

    def saved_rows(self) -> dict[str, SavedRows]:
        """All arrays by name, which are saved and loaded into."""
        places = self.held()
        saved = self.columns.saved_rows(places)
        if self.priorities is not None:
            length = self.layout.sequence_length
            units = [slice(part.start // length, part.stop // length) for part in places]
            saved["priorities"] = SavedRows(self.priorities.tree.leaves, units)
        for k, observations in enumerate(self.observations):
            rows = observations.saved_rows(places)
            saved.update({f"obs.{k}.{name}": one for name, one in rows.items()})
        return saved

    def state(self) -> dict[str, Any]:
        """What is saved beside the arrays, as JSON."""
        return {
            "tail": self.tail,
            "head": self.head,
            "ends": self.finals.slots,
            "free": self.finals.free,
            "columns": self.columns.state(),
            "observations": [observations.state() for observations in self.observations],
            "largest": None if self.priorities is None else self.priorities.largest,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned, in a new replay; to be followed by `after_load`."""
        self.tail, self.head = int(state["tail"]), int(state["head"])
        self.finals.restore(int(state["ends"]), state["free"])
        self.columns.reserve(self.finals.slots)
        self.columns.restore(state["columns"])
        for observations, one in zip(self.observations, state["observations"], strict=True):
            observations.reserve(self.finals.slots)
            observations.restore(one)
        if self.priorities is not None:
            self.priorities.largest = float(state["largest"])

    def after_load(self) -> None:
        """Restore what is computed from the arrays."""
        if self.priorities is not None:
            self.priorities.tree.build()


def _bounds(rollout: Rollout, sequences: PaddedSequences) -> tuple[Ints, Ints]:
    """[J] the positions of each trajectory's first and last step; the first is -1 where it is cut off."""
    # Padding repeats the last step: the first of these rows is the step itself.
    stop = np.cumsum(rollout.lengths) - 1
    lasts = np.searchsorted(sequences.index, stop)
    starts = np.searchsorted(sequences.index, stop - rollout.lengths + 1)
    cut = sequences.index[starts] != stop - rollout.lengths + 1
    return np.where(cut, -1, starts), lasts


def _starts(rollout: Rollout, sequences: PaddedSequences, firsts: Ints) -> dict[int, int]:
    """The position of each trajectory's first step, by the number of its row."""
    there = firsts[firsts >= 0]
    numbers = rollout.numbers[sequences.index[there]]
    return dict(zip(numbers.tolist(), there.tolist(), strict=True))
