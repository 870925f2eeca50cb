"""The replay itself: takes trajectories in, forgets the oldest, and gives batches (Lin 1992)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.rollout import only
from ....agent_processor.sequences import Sequences, pad_sequences
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ....envs.images import as_floats
from ...utils.errors import TrainerError
from .columns import BYTES, ReplayLayout, StepColumns
from .final_observations import Ends
from .frame_stacks import StackedObservations
from .observations import Ints, Kept, Observations, PlainObservations
from .priorities import Priorities


class Behind(NamedTuple):
    """What follows a rollout's steps."""

    following: Ints
    """[n] the slot of each step's next observation."""
    before: Ints
    """[n] the slot of each step's observation before, -1 where there is none."""
    known: Ints
    """[n] the slot in which a step's observation lies already, -1 where there is none."""
    ends: Ints
    """[e] the trajectories that need a slot for what is behind them."""
    slots: Ints
    """[e] these slots."""
    last: Ints
    """[e] the place of each one's last step."""


class Replay:
    """A ring of steps, each with its observation; what follows a step is a number.

    The steps are numbered from 0 on, and step k lies at the place k modulo the capacity. An observation's
    slot is its step's place or, of what is behind a trajectory and not (yet) the first of the agent's next
    one, a number beyond all places.
    """

    def __init__(self, layout: ReplayLayout, prioritized_alpha: float | None = None) -> None:
        """Room for `layout.capacity` steps; `prioritized_alpha`: see `Priorities`, None without."""
        self.layout = layout
        self.alpha = prioritized_alpha
        self.tail, self.head = 0, 0
        """The oldest step that is held, and the next one to come."""
        self.columns = StepColumns(layout)
        self.ends = Ends(layout.capacity)
        self.observations: list[Observations] = [
            StackedObservations(layout.capacity, shape, dtype, stack, layout.longest)
            if stack > 1
            else PlainObservations(layout.capacity, shape, dtype)
            for shape, dtype, stack in zip(layout.shapes, layout.dtypes, layout.stacks, strict=True)
        ]
        self.priorities = (
            None if prioritized_alpha is None else Priorities(layout.sequences, prioritized_alpha)
        )
        self.overfull = False
        """More steps came than there is room for, since `shorten`."""

    def __len__(self) -> int:
        return self.head - self.tail

    # Taking in ------------------------------------------------------------------------------------------

    def append(
        self, rollout: Rollout, rewards: NDArray[np.float32], extra: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Take in the trajectories' own steps, over the oldest where there is no room.

        Args:
            rollout: an agent's trajectories in their order in time.
            rewards: [steps, S].
            extra: [steps, ...] of each column that the layout has beside.
        """
        columns = dict(extra or {})
        for part, own in self._parts(rollout):
            self._append(part, rewards[own], {name: column[own] for name, column in columns.items()})

    def _parts(self, rollout: Rollout) -> Iterator[tuple[Rollout, NDArray[np.int64] | slice]]:
        """The rollout in parts no larger than what can be taken in at once, and the steps of each."""
        stacked = any(stack > 1 for stack in self.layout.stacks)
        most = min(self.layout.capacity, self.layout.longest if stacked else self.layout.capacity)
        padded = -(-rollout.lengths // self.layout.sequence_length) * self.layout.sequence_length
        if int(padded.sum()) <= most:
            yield rollout, slice(rollout.steps)
            return
        which, filled, part = np.empty(len(padded), np.int64), 0, 0
        for j, length in enumerate(padded.tolist()):
            if filled and filled + length > most:
                filled, part = 0, part + 1
            filled += length
            which[j] = part
        of_steps = np.repeat(which, rollout.lengths)
        for number in range(part + 1):
            yield only(rollout, which == number), np.flatnonzero(of_steps == number)

    def _append(
        self, rollout: Rollout, rewards: NDArray[np.float32], extra: Mapping[str, NDArray[Any]]
    ) -> None:
        capacity = self.layout.capacity
        sequences = pad_sequences(rollout.lengths, self.layout.sequence_length)
        count = min(len(sequences.index), capacity)
        sequences = Sequences(sequences.index[-count:], sequences.real[-count:])
        self.overfull |= len(self) + count > capacity
        self._drop(self.head + count - capacity)
        places = (self.head + np.arange(count)) % capacity
        behind = self._behind(rollout, sequences, places)
        self.columns.write(places, sequences, rollout, rewards, extra)
        self.columns.following[places] = behind.following
        self.columns.ended[places] = ~sequences.real | _ends_of(rollout)[sequences.index]
        self._observe(rollout, sequences, places, behind)
        if self.priorities is not None:
            self.priorities.begin(self._units(places))
        self.head += count
        self._drop(max((o.oldest(self.tail) for o in self.observations), default=self.tail))

    def _behind(self, rollout: Rollout, sequences: Sequences, places: Ints) -> Behind:
        """Link the steps to what follows them, within the rollout and to what is there already."""
        firsts, lasts = _bounds(rollout, sequences)
        steps = len(places)
        following = np.where(sequences.real, np.roll(places, -1), places)
        before = np.where(sequences.real, np.roll(places, 1), places)
        known = np.full(steps, -1, np.int64)
        begins = _begins(rollout, sequences, firsts)
        used: list[int] = []
        before[0], before[firsts[firsts >= 0]] = -1, -1
        for row, first in begins.items():
            awaited = self.ends.awaited(row)
            if awaited is not None:
                self.columns.following[awaited.place] = places[first]
                before[first], known[first] = awaited.place, awaited.slot
                used.append(awaited.slot)
        ends, slots = [], []
        numbers = [-1] * len(lasts) if rollout.next_numbers is None else rollout.next_numbers.tolist()
        flags = zip(rollout.episode_over.tolist(), rollout.interrupted_at_end.tolist())
        for j, (row, (over, interrupted)) in enumerate(zip(numbers, flags, strict=True)):
            last = int(lasts[j])
            if over and interrupted:
                following[last] = places[last]
            elif row in begins:
                following[last], before[begins[row]] = places[begins[row]], places[last]
            else:
                ends.append(j)
                slots.append(self.ends.take(int(places[last]), None if over or row < 0 else row))
                following[last] = slots[-1]
        # Only now: what lies in them is still to be read.
        self.ends.give_back(used)
        which = np.array(ends, np.int64)
        return Behind(following, before, known, which, np.array(slots, np.int64), places[lasts[which]])

    def _observe(self, rollout: Rollout, sequences: Sequences, places: Ints, behind: Behind) -> None:
        """Put the observations and masks of the steps, and of what is behind them, into their slots."""
        index, real = sequences.index[sequences.real], sequences.real
        slots = np.concatenate([places[real], behind.slots])
        before = np.concatenate([behind.before[real], behind.last])
        known = np.concatenate([behind.known[real], np.full(len(behind.slots), -1, np.int64)])
        for k, column in enumerate(self.observations):
            obs = np.concatenate([rollout.obs[k][index], rollout.next_obs[k][behind.ends]])
            column.reserve(self.ends.slots)
            column.room(self.head)
            column.write(slots, self._as_kept(k, obs), before, known)
            column.blank(places[~real])
        self.columns.reserve(self.ends.slots)
        if rollout.action_mask is not None:
            # Padding repeats a mask: what forbids nothing or all would be no choice.
            self.columns.write_masks(places, rollout.action_mask[sequences.index])
        if rollout.next_action_mask is not None:
            self.columns.write_masks(behind.slots, rollout.next_action_mask[behind.ends])

    def _as_kept(self, sensor: int, obs: ObsArray) -> ObsArray:
        """Observations as they are kept, though others of the sensor came as bytes, or as numbers."""
        wanted = self.layout.dtypes[sensor]
        if obs.dtype == wanted:
            return obs
        if wanted != BYTES:
            floats: ObsArray = as_floats(obs)
            return floats
        pixels: NDArray[np.float32] = np.rint(obs * 255.0)
        if not np.allclose(pixels, obs * 255.0, atol=1e-3) or pixels.min() < 0 or pixels.max() > 255:
            raise TrainerError(
                f"the sensor {self.layout.sensors[sensor]!r} first sent pictures of bytes, and now numbers "
                "that are none: let it send either of them"
            )
        return pixels.astype(np.uint8)

    # Forgetting -----------------------------------------------------------------------------------------

    def _drop(self, first: int) -> None:
        """Forget the steps before `first`."""
        first += -first % self.layout.sequence_length
        if first <= self.tail:
            return
        places = np.arange(self.tail, min(first, self.head)) % self.layout.capacity
        following = self.columns.following[places]
        self.ends.give_back(following[following >= self.layout.capacity].tolist())
        if self.priorities is not None:
            self.priorities.drop(self._units(places))
        self.tail = min(first, self.head)

    def shorten(self, newest: int) -> None:
        """Where more steps came than there is room for: keep so many of the newest, in whole sequences."""
        if self.overfull:
            self._drop(self.head - newest)
            self.overfull = False

    def clear(self) -> None:
        """Forget everything."""
        self._drop(self.head)
        self.overfull = False

    # Reading --------------------------------------------------------------------------------------------

    def draw(self, chances: NDArray[np.float64]) -> Ints:
        """[n] units (see `places`) by as many numbers in [0, 1).

        By priorities where there are some, else each step or sequence alike, with repetitions. The replay
        must hold something.
        """
        if self.priorities is not None:
            return self.priorities.draw(chances)
        length = self.layout.sequence_length
        numbers = self.tail // length + (chances * (len(self) // length)).astype(np.int64)
        return numbers % self.layout.sequences

    def places(self, units: Ints) -> Ints:
        """The places of units' steps: a unit is a sequence, of one step without a memory."""
        length = self.layout.sequence_length
        return (units[:, None] * length + np.arange(length)).ravel()

    def _units(self, places: Ints) -> Ints:
        length = self.layout.sequence_length
        return places[::length] // length

    # Saving ---------------------------------------------------------------------------------------------

    def held(self) -> list[slice]:
        """The places of the steps that are held, in one or two runs."""
        capacity = self.layout.capacity
        first, last = self.tail % capacity, self.tail % capacity + len(self)
        runs = [slice(first, min(last, capacity)), slice(0, max(0, last - capacity))]
        return [run for run in runs if run.stop > run.start]

    def kept(self) -> dict[str, Kept]:
        """All arrays by name, to be saved from and loaded into."""
        places = self.held()
        kept = self.columns.kept(places)
        if self.priorities is not None:
            length = self.layout.sequence_length
            units = [slice(part.start // length, part.stop // length) for part in places]
            kept["priorities"] = Kept(self.priorities.tree.leaves, units)
        for k, observations in enumerate(self.observations):
            kept.update({f"obs.{k}.{name}": one for name, one in observations.kept(places).items()})
        return kept

    def state(self) -> dict[str, Any]:
        """What is to be saved beside the arrays, as JSON has it."""
        return {
            "tail": self.tail,
            "head": self.head,
            "ends": self.ends.slots,
            "free": self.ends.free,
            "overfull": self.overfull,
            "columns": self.columns.state(),
            "observations": [observations.state() for observations in self.observations],
            "largest": None if self.priorities is None else self.priorities.largest,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave; the replay must be new. Then come the arrays, then `restored`."""
        self.tail, self.head = int(state["tail"]), int(state["head"])
        self.overfull = bool(state["overfull"])
        self.ends.restore(int(state["ends"]), state["free"])
        self.columns.reserve(self.ends.slots)
        self.columns.restore(state["columns"])
        for observations, one in zip(self.observations, state["observations"], strict=True):
            observations.reserve(self.ends.slots)
            observations.restore(one)
        if self.priorities is not None:
            self.priorities.largest = float(state["largest"])

    def restored(self) -> None:
        """The arrays are filled."""
        if self.priorities is not None:
            self.priorities.tree.build()


def _ends_of(rollout: Rollout) -> NDArray[np.bool_]:
    """[steps] behind which nothing is earned: the last ones of episodes that were not interrupted."""
    ended = np.zeros(rollout.steps, np.bool_)
    ended[np.cumsum(rollout.lengths) - 1] = rollout.done_reached & ~rollout.interrupted_at_end
    return ended


def _bounds(rollout: Rollout, sequences: Sequences) -> tuple[Ints, Ints]:
    """[J] where each trajectory's first and last step stand; where the begin is cut off, the first is < 0."""
    # Padding repeats the last step: the first of these rows is the step itself.
    stop = np.cumsum(rollout.lengths) - 1
    lasts = np.searchsorted(sequences.index, stop)
    starts = np.searchsorted(sequences.index, stop - rollout.lengths + 1)
    cut = sequences.index[starts] != stop - rollout.lengths + 1
    return np.where(cut, -1, starts), lasts


def _begins(rollout: Rollout, sequences: Sequences, firsts: Ints) -> dict[int, int]:
    """Where each trajectory begins, by the number of its first row."""
    there = firsts[firsts >= 0]
    numbers = rollout.numbers[sequences.index[there]]
    return dict(zip(numbers.tolist(), there.tolist(), strict=True))
