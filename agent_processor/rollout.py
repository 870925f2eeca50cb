"""Makes of trajectories, which are row numbers, the columns that a trainer takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .blocks import Block, Blocks, Rows
from .trajectory import Rollout, Trajectory


def rollout(trajectories: Sequence[Trajectory], with_mates: bool = True) -> Rollout:
    """The steps of these trajectories, then the teammates' steps that are not among them, each row once.

    Trajectories of several behaviours may be mixed when their observations and actions are alike. Without
    `with_mates` the teammates are left out, for algorithms that do not look at them.
    """
    if not trajectories:
        raise ValueError("a rollout needs at least one trajectory")
    blocks = _blocks(trajectories)
    own = np.concatenate([t.rows for t in trajectories])
    mates = blocks.mates(own) if with_mates else None
    rows = own
    if mates is not None:
        rows, mates = _renumber(own, mates)
    next_mates, next_mates_obs = _next_mates(blocks, trajectories, mates is not None)
    found = list(blocks.parts(rows))
    n, like = len(rows), blocks.any_block()
    return Rollout(
        obs=[blocks.gather(found, n, lambda b, i=i: b.obs[i]) for i in range(len(like.obs))],  # type: ignore[misc]
        continuous=blocks.gather(found, n, lambda b: b.continuous),
        discrete=blocks.gather(found, n, lambda b: b.discrete),
        log_probs=blocks.gather(found, n, lambda b: b.log_probs),
        action_mask=None if like.action_mask is None else blocks.gather(found, n, _action_mask),
        reward=blocks.gather(found, n, lambda b: b.reward),
        group_reward=blocks.gather(found, n, lambda b: b.group_reward),
        done=blocks.gather(found, n, lambda b: b.done),
        interrupted=blocks.gather(found, n, lambda b: b.interrupted),
        memory=None if like.memory is None else blocks.gather(found, n, _memory),
        prev_discrete=blocks.gather(found, n, lambda b: b.prev_discrete),
        mates=mates,
        lengths=np.array([len(t) for t in trajectories], dtype=np.int64),
        next_obs=blocks.obs(np.array([t.next_row for t in trajectories], dtype=np.int64)),
        next_mates_obs=next_mates_obs,
        next_mates=next_mates,
        done_reached=np.array([t.done_reached for t in trajectories], dtype=bool),
        interrupted_at_end=np.array([t.interrupted for t in trajectories], dtype=bool),
        all_group_dones=np.array([t.all_group_dones_reached for t in trajectories], dtype=bool),
        agents=[t.agent for t in trajectories],
    )


def _action_mask(block: Block) -> NDArray[np.bool_]:
    assert block.action_mask is not None  # one store's blocks are alike
    return block.action_mask


def _memory(block: Block) -> NDArray[np.float32]:
    assert block.memory is not None  # one store's blocks are alike
    return block.memory


def _blocks(trajectories: Sequence[Trajectory]) -> Blocks:
    """Every block that any of the trajectories holds."""
    distinct = {id(t.blocks): t.blocks for t in trajectories}
    shifts = {blocks.shift for blocks in distinct.values()}
    if len(shifts) > 1:
        names = sorted({t.behavior_id for t in trajectories})
        raise ValueError(f"the behaviours {', '.join(names)} have different rows and cannot share a rollout")
    merged: dict[int, Block] = {}
    for blocks in distinct.values():
        merged.update(blocks.by_number)
    return Blocks(merged, shifts.pop())


def _renumber(own: Rows, mates: Rows) -> tuple[Rows, Rows]:
    """The own rows and the teammates' other rows behind them; `mates` as places among these."""
    order = np.argsort(own)
    place, known = _find(own[order], mates)
    others = np.unique(mates[~known & (mates >= 0)])
    numbers = np.where(known, order[place], -1)
    missing = ~known & (mates >= 0)
    numbers[missing] = len(own) + np.searchsorted(others, mates[missing])
    return np.concatenate([own, others]), numbers


def _find(ordered: Rows, rows: Rows) -> tuple[Rows, NDArray[np.bool_]]:
    """Where each of `rows` stands in `ordered`, and whether it does."""
    place = np.minimum(np.searchsorted(ordered, rows), len(ordered) - 1)
    return place, ordered[place] == rows


def _next_mates(
    blocks: Blocks, trajectories: Sequence[Trajectory], wanted: bool
) -> tuple[NDArray[np.int64], list[NDArray[np.float32]] | None]:
    """How many teammates follow each trajectory, and their observations [J, M', *shape] per sensor."""
    counts = np.array([len(t.next_mates) if wanted else 0 for t in trajectories], dtype=np.int64)
    if not wanted:
        return counts, None
    there = np.arange(counts.max(initial=0)) < counts[:, None]
    found = blocks.obs(np.concatenate([t.next_mates for t in trajectories]))
    padded = [np.zeros((*there.shape, *obs.shape[1:]), dtype=np.float32) for obs in found]
    for column, obs in zip(padded, found):
        column[there] = obs
    return counts, padded
