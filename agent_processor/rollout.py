"""Gathers the columns of trajectories, which are row numbers, for trainers; pads and indexes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs.base import ObsArray
from .blocks import Block, Blocks, RowColumns, Rows
from .trajectory import Rollout, Trajectory, take_rows


def build_rollout(trajectories: Sequence[Trajectory], with_teammates: bool = True) -> Rollout:
    """The steps of these trajectories, then the teammates' steps that are not among them, each row once.

    Trajectories of several behaviors may be mixed if their observations and actions have the same layout.
    Without `with_teammates`, teammates are left out, for algorithms that do not use them.
    """
    if not trajectories:
        raise ValueError("a rollout needs at least one trajectory")
    blocks = _blocks(trajectories)
    own = np.concatenate([t.rows for t in trajectories])
    teammates = blocks.teammates(own) if with_teammates else None
    next_rosters = [t.next_roster for t in trajectories]
    rosters = [blocks.rosters(own), _stacked(next_rosters)] if blocks.layout.places else []
    rows, (teammates, roster, next_roster) = _renumber(blocks, own, teammates, *(rosters or (None, None)))
    next_teammates, next_teammates_obs = _next_teammates(blocks, trajectories, teammates is not None)
    held = blocks.columns(rows)
    next_numbers = np.array([t.next_row for t in trajectories], dtype=np.int64)
    following = blocks.columns(next_numbers)
    return Rollout(
        numbers=rows,
        **{field.name: getattr(held, field.name) for field in fields(held)},
        teammates=teammates,
        lengths=np.array([len(t) for t in trajectories], dtype=np.int64),
        next_obs=following.obs,
        next_teammates_obs=next_teammates_obs,
        next_teammates=next_teammates,
        done_reached=np.array([t.done_reached for t in trajectories], dtype=bool),
        interrupted_at_end=np.array([t.interrupted for t in trajectories], dtype=bool),
        all_group_dones=np.array([t.all_group_dones_reached for t in trajectories], dtype=bool),
        agents=[t.agent for t in trajectories],
        behavior_ids=[t.behavior_id for t in trajectories],
        roster=roster,
        next_roster=next_roster,
        next_place=_next_places(trajectories) if rosters else None,
        next_agents=_stacked([t.next_agents for t in trajectories]) if rosters else None,
        life_lost=np.array([t.life_lost for t in trajectories], dtype=bool),
        of_opponent=np.array([t.of_opponent for t in trajectories], dtype=bool),
        counts_group=np.array([t.counts_group for t in trajectories], dtype=bool),
        next_numbers=next_numbers,
        next_action_mask=following.action_mask,
    )


_OF_TRAJECTORIES = (
    *("lengths", "next_obs", "next_teammates_obs", "next_teammates", "done_reached", "interrupted_at_end"),
    *("all_group_dones", "next_place", "next_agents", "life_lost", "of_opponent", "next_numbers"),
    *("next_action_mask", "counts_group"),
)
"""The columns of a `Rollout` with one entry per trajectory."""


def select_trajectories(whole: Rollout, keep: NDArray[np.bool_]) -> Rollout:
    """`whole` without the trajectories for which `keep` [J] is False.

    If algorithms look at teammates, the rows of those trajectories stay as teammates' rows.
    """
    kept = np.repeat(keep, whole.lengths)
    order = np.flatnonzero(kept)
    if whole.teammates is not None or whole.roster is not None:
        order = np.concatenate([order, np.flatnonzero(~kept), np.arange(len(kept), len(whole.reward))])
    place = np.empty(len(whole.reward), dtype=np.int64)
    place[order] = np.arange(len(order))

    def moved(rows: NDArray[np.int64] | None, which: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        return None if rows is None else np.where(rows[which] >= 0, place[rows[which]], -1)

    return Rollout(
        numbers=whole.numbers[order],
        **{field.name: take_rows(getattr(whole, field.name), order) for field in fields(RowColumns)},
        **{name: take_rows(getattr(whole, name), keep) for name in _OF_TRAJECTORIES},
        teammates=moved(whole.teammates, kept),
        agents=list(compress(whole.agents, keep)),
        behavior_ids=list(compress(whole.behavior_ids, keep)),
        roster=moved(whole.roster, kept),
        next_roster=moved(whole.next_roster, keep),
    )


def _blocks(trajectories: Sequence[Trajectory]) -> Blocks:
    """All blocks that the trajectories refer to."""
    distinct = {id(t.blocks): t.blocks for t in trajectories}
    one = trajectories[0].blocks
    merged: dict[int, Block] = {}
    for blocks in distinct.values():
        if (blocks.layout, blocks.shift) != (one.layout, one.shift):
            names = ", ".join(sorted({t.behavior_id for t in trajectories}))
            raise ValueError(f"{names}: their observations or actions differ, so they cannot share a rollout")
        merged.update(blocks.by_number)
    return Blocks(one.layout, merged, one.shift)


def _renumber(blocks: Blocks, own: Rows, *tables: Rows | None) -> tuple[Rows, list[NDArray[np.int64] | None]]:
    """The own rows, followed by the others that `tables` name, and `tables` as indices into these."""
    given = [table for table in tables if table is not None]
    if not given:
        return own, list(tables)
    place = blocks.dense_index()
    named = np.concatenate([table[table >= 0] for table in given])
    wanted = place(named)
    numbers = np.full(len(blocks.by_number) << blocks.shift, -1, dtype=np.int32)
    numbers[place(own)] = np.arange(len(own))
    others = np.unique(named[numbers[wanted] < 0])
    numbers[place(others)] = np.arange(len(own), len(own) + len(others))
    found = iter(np.split(numbers[wanted], np.cumsum([np.count_nonzero(t >= 0) for t in given])[:-1]))
    renumbered: list[NDArray[np.int64] | None] = []
    for table in tables:
        if table is not None:
            new = np.full_like(table, -1)
            new[table >= 0] = next(found)
            renumbered.append(new)
        else:
            renumbered.append(None)
    return np.concatenate([own, others]), renumbered


def _stacked(of_places: Sequence[NDArray[np.int64] | None]) -> NDArray[np.int64]:
    """[J, places] the entries of the trajectories, which are all set."""
    columns = [column for column in of_places if column is not None]
    assert len(columns) == len(of_places), "a processor with rosters sets it for every trajectory"
    return np.stack(columns)


def _next_places(trajectories: Sequence[Trajectory]) -> NDArray[np.int64]:
    """[J] the place at which each trajectory's own agent continues; -1 if it does not."""
    rows = _stacked([t.next_roster for t in trajectories])
    own = rows == np.array([t.next_row for t in trajectories], dtype=np.int64)[:, None]
    return np.where(own.any(axis=1), own.argmax(axis=1), -1)


def _next_teammates(
    blocks: Blocks, trajectories: Sequence[Trajectory], wanted: bool
) -> tuple[NDArray[np.int64], list[ObsArray] | None]:
    """How many teammates follow each trajectory, and their observations [J, M', *shape] per sensor."""
    counts = np.array([len(t.next_teammates) if wanted else 0 for t in trajectories], dtype=np.int64)
    if not wanted:
        return counts, None
    there = np.arange(counts.max(initial=0)) < counts[:, None]
    found = blocks.obs(np.concatenate([t.next_teammates for t in trajectories]))
    padded: list[ObsArray] = [np.zeros((*there.shape, *obs.shape[1:]), dtype=obs.dtype) for obs in found]
    for column, obs in zip(padded, found):
        column[there] = obs
    return counts, padded


@dataclass(frozen=True, slots=True)
class PaddedSequences:
    """How to pad the columns of trajectories at their ends to whole sequences: P padded rows."""

    index: NDArray[np.int64]
    """[P] the step that each padded row is taken from; padding repeats the trajectory's last step."""
    real: NDArray[np.bool_]
    """[P] False for padding."""

    def column(self, steps: NDArray[Any], repeat_last: bool = False) -> NDArray[Any]:
        """A column [N, ...] as [P, ...]: padding is zeros, or repeats the last step (action masks)."""
        padded = steps[self.index]
        if not repeat_last:
            padded[~self.real] = 0
        return padded


def pad_sequences(lengths: NDArray[np.int64], sequence_length: int) -> PaddedSequences:
    """Pad consecutive trajectories of `lengths` [J] to multiples of `sequence_length`."""
    if sequence_length == 1:
        steps = int(lengths.sum())
        return PaddedSequences(np.arange(steps), np.ones(steps, np.bool_))
    padded = -(-lengths // sequence_length) * sequence_length
    starts = np.repeat(np.cumsum(padded) - padded, padded)
    within = np.arange(len(starts)) - starts
    last = np.repeat(lengths, padded) - 1
    first_step = np.repeat(np.cumsum(lengths) - lengths, padded)
    return PaddedSequences(first_step + np.minimum(within, last), within <= last)


def newest(n: int, max_length: int, sequence_length: int = 1) -> slice:
    """Which of n entries to keep, at most `max_length`: the newest whole sequences, or all."""
    if n <= max_length:
        return slice(0, n)
    return slice(n - (max_length - max_length % sequence_length), n)


def next_steps(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N] the index of the step after each step in [N steps, J ends].

    A trajectory's last step is followed by its entry among the J ends, as in `next_obs` of a `Rollout`.
    """
    total = int(lengths.sum())
    following = np.arange(1, total + 1, dtype=np.int64)
    following[np.cumsum(lengths) - 1] = total + np.arange(len(lengths))
    return following


def gather_teammates(column: NDArray[Any], teammates: NDArray[np.int64], fill: float) -> NDArray[Any]:
    """The entries [steps, M, ...] of a column [N, ...] in the rows `teammates`; `fill` where these are -1."""
    found = column[np.maximum(teammates, 0)]
    found[teammates < 0] = fill
    return found


def first_steps(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[J] the first step of each of some consecutive trajectories."""
    starts: NDArray[np.int64] = np.cumsum(lengths) - lengths
    return starts


def runs(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """The indices of consecutive runs of `lengths` entries that start at `starts`."""
    return np.repeat(starts - first_steps(lengths), lengths) + np.arange(int(lengths.sum()))
