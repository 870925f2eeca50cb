"""Makes of trajectories, which are row numbers, the columns that a trainer takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..envs.base import ObsArray
from .blocks import Block, Blocks, Rows
from .trajectory import Rollout, Trajectory


def build_rollout(trajectories: Sequence[Trajectory], with_mates: bool = True) -> Rollout:
    """The steps of these trajectories, then the teammates' steps that are not among them, each row once.

    Trajectories of several behaviors may be mixed when their observations and actions are alike. Without
    `with_mates` the teammates are left out, for algorithms that do not look at them.
    """
    if not trajectories:
        raise ValueError("a rollout needs at least one trajectory")
    blocks = _blocks(trajectories)
    own = np.concatenate([t.rows for t in trajectories])
    mates = blocks.mates(own) if with_mates else None
    next_rosters = [t.next_roster for t in trajectories]
    rosters = [blocks.rosters(own), _stacked(next_rosters)] if blocks.layout.places else []
    rows, (mates, roster, next_roster) = _renumber(blocks, own, mates, *(rosters or (None, None)))
    next_mates, next_mates_obs = _next_mates(blocks, trajectories, mates is not None)
    held = blocks.columns(rows)
    next_numbers = np.array([t.next_row for t in trajectories], dtype=np.int64)
    following = blocks.columns(next_numbers)
    return Rollout(
        numbers=rows,
        obs=held.obs,
        continuous=held.continuous,
        discrete=held.discrete,
        log_probs=held.log_probs,
        action_mask=held.action_mask,
        reward=held.reward,
        group_reward=held.group_reward,
        done=held.done,
        interrupted=held.interrupted,
        memory=held.memory,
        prev_discrete=held.prev_discrete,
        mates=mates,
        lengths=np.array([len(t) for t in trajectories], dtype=np.int64),
        next_obs=following.obs,
        next_mates_obs=next_mates_obs,
        next_mates=next_mates,
        done_reached=np.array([t.done_reached for t in trajectories], dtype=bool),
        interrupted_at_end=np.array([t.interrupted for t in trajectories], dtype=bool),
        all_group_dones=np.array([t.all_group_dones_reached for t in trajectories], dtype=bool),
        agents=[t.agent for t in trajectories],
        roster=roster,
        next_roster=next_roster,
        next_place=_next_places(trajectories) if rosters else None,
        next_agents=_stacked([t.next_agents for t in trajectories]) if rosters else None,
        exploration=held.exploration,
        life_lost=np.array([t.life_lost for t in trajectories], dtype=bool),
        next_numbers=next_numbers,
        next_action_mask=following.action_mask,
    )


def select_trajectories(whole: Rollout, keep: NDArray[np.bool_]) -> Rollout:
    """`whole` without the trajectories for which `compact` [J] says False.

    Where teammates are looked at, the rows of these stay as teammates' rows.
    """
    kept = np.repeat(keep, whole.lengths)
    order = np.flatnonzero(kept)
    if whole.mates is not None or whole.roster is not None:
        order = np.concatenate([order, np.flatnonzero(~kept), np.arange(len(kept), len(whole.reward))])
    place = np.empty(len(whole.reward), dtype=np.int64)
    place[order] = np.arange(len(order))

    def moved(rows: NDArray[np.int64] | None, which: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        return None if rows is None else np.where(rows[which] >= 0, place[rows[which]], -1)

    next_mates_obs = whole.next_mates_obs
    return Rollout(
        numbers=whole.numbers[order],
        obs=[o[order] for o in whole.obs],
        continuous=whole.continuous[order],
        discrete=whole.discrete[order],
        log_probs=whole.log_probs[order],
        action_mask=None if whole.action_mask is None else whole.action_mask[order],
        reward=whole.reward[order],
        group_reward=whole.group_reward[order],
        done=whole.done[order],
        interrupted=whole.interrupted[order],
        memory=None if whole.memory is None else whole.memory[order],
        prev_discrete=whole.prev_discrete[order],
        mates=moved(whole.mates, kept),
        lengths=whole.lengths[keep],
        next_obs=[o[keep] for o in whole.next_obs],
        next_mates_obs=None if next_mates_obs is None else [o[keep] for o in next_mates_obs],
        next_mates=whole.next_mates[keep],
        done_reached=whole.done_reached[keep],
        interrupted_at_end=whole.interrupted_at_end[keep],
        all_group_dones=whole.all_group_dones[keep],
        agents=[agent for agent, stays in zip(whole.agents, keep.tolist(), strict=True) if stays],
        roster=moved(whole.roster, kept),
        next_roster=moved(whole.next_roster, keep),
        next_place=None if whole.next_place is None else whole.next_place[keep],
        next_agents=None if whole.next_agents is None else whole.next_agents[keep],
        exploration=None if whole.exploration is None else whole.exploration[order],
        life_lost=None if whole.life_lost is None else whole.life_lost[keep],
        next_numbers=None if whole.next_numbers is None else whole.next_numbers[keep],
        next_action_mask=None if whole.next_action_mask is None else whole.next_action_mask[keep],
    )


def _blocks(trajectories: Sequence[Trajectory]) -> Blocks:
    """Every block that any of the trajectories holds."""
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
    """The own rows, and behind them the others that `tables` name; `tables` as places among these."""
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
    """[J, places] what each trajectory says of the places after its last step."""
    columns = [column for column in of_places if column is not None]
    assert len(columns) == len(of_places), "a processor with rosters sets it for every trajectory"
    return np.stack(columns)


def _next_places(trajectories: Sequence[Trajectory]) -> NDArray[np.int64]:
    """[J] where each trajectory's own agent goes on; -1 where it does not."""
    rows = _stacked([t.next_roster for t in trajectories])
    own = rows == np.array([t.next_row for t in trajectories], dtype=np.int64)[:, None]
    return np.where(own.any(axis=1), own.argmax(axis=1), -1)


def _next_mates(
    blocks: Blocks, trajectories: Sequence[Trajectory], wanted: bool
) -> tuple[NDArray[np.int64], list[ObsArray] | None]:
    """How many teammates follow each trajectory, and their observations [J, M', *shape] per sensor."""
    counts = np.array([len(t.next_mates) if wanted else 0 for t in trajectories], dtype=np.int64)
    if not wanted:
        return counts, None
    there = np.arange(counts.max(initial=0)) < counts[:, None]
    found = blocks.obs(np.concatenate([t.next_mates for t in trajectories]))
    padded: list[ObsArray] = [np.zeros((*there.shape, *obs.shape[1:]), dtype=obs.dtype) for obs in found]
    for column, obs in zip(padded, found):
        column[there] = obs
    return counts, padded
