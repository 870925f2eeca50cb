"""A saved replay as episodes, from which a policy can be learned without an environment."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ....agent_processor.rollout import first_steps
from ...buffers.demonstrations import Demonstrations, previous
from ...buffers.replay.buffer import Replay
from ...buffers.replay.columns import ExtraColumn, ReplayLayout
from ...buffers.replay.memory_limit import shortage, size_text
from ...buffers.replay.observations import Ints
from ...buffers.replay.storage import ReplayFileError, SavedReplay


def replay_episodes(path: Path, spec: BehaviorSpec, signal: int) -> Demonstrations:
    """The steps that a saved replay holds, one agent's after another's.

    What the replay has of an episode counts as one: its beginning may have been overwritten, and its end may
    not have arrived. An interrupted episode looks like the latter: in both, something follows the last step.

    Args:
        path: of the file.
        spec: of the behavior.
        signal: the column of the rewards to take, which is that of the signal `extrinsic`.

    Raises:
        FileNotFoundError: there is no such file.
        ReplayFileError: it is damaged, of another behavior, empty, or too large for the memory.
    """
    replay = read_replay(path)
    _require_spec(replay.layout, spec)
    columns = replay.columns
    order, lengths = _chains(replay)
    if not len(order):
        raise ReplayFileError("it holds no steps")
    _check_memory(replay.layout, len(order))
    first = first_steps(lengths)
    last = order[first + lengths - 1]
    ended = columns.ended[order]
    continuous, discrete = columns.continuous[order], columns.discrete[order]
    mask = None
    if spec.action_spec.discrete_size:
        mask = np.zeros((len(order), sum(spec.action_spec.discrete_branches)), np.bool_)
        if columns.masks is not None:
            mask[:] = columns.masks.pairs(order, order)[0]
    finals = [
        each.pairs(last, columns.following[last].astype(np.int64))[1].copy() for each in replay.observations
    ]
    return Demonstrations(
        spec=spec,
        obs=[each.pairs(order, order)[0].copy() for each in replay.observations],
        continuous=continuous,
        discrete=discrete,
        action_mask=mask,
        reward=columns.rewards[order, signal],
        group_reward=np.zeros(len(order), np.float32),
        done=ended,
        interrupted=np.zeros(len(order), np.bool_),
        prev_continuous=previous(continuous, first),
        prev_discrete=previous(discrete, first),
        lengths=lengths,
        next_obs=finals,
    )


def read_replay(path: Path) -> Replay:
    """A saved replay, as it was laid out.

    Raises:
        FileNotFoundError: there is no such file.
        ReplayFileError: it is damaged.
    """
    saved = SavedReplay(path)
    try:
        layout = _layout(saved.about["layout"])
        replay = Replay(layout, 0.0 if layout.prioritized else None)
        replay.restore(saved.about["state"])
        saved.fill(replay.saved_rows())
    except (KeyError, TypeError, ValueError, MemoryError) as error:
        raise ReplayFileError(f"it is damaged ({type(error).__name__}: {error})") from error
    return replay


def _layout(described: Mapping[str, Any]) -> ReplayLayout:
    """The layout that a saved replay describes."""
    names = ("sensors", "stacks", "branches")
    return ReplayLayout(
        **{
            **described,
            **{name: tuple(described[name]) for name in names},
            "shapes": tuple(tuple(shape) for shape in described["shapes"]),
            "dtypes": tuple(np.dtype(name) for name in described["dtypes"]),
            "extra": tuple(
                ExtraColumn(name, tuple(shape), np.dtype(dtype)) for name, shape, dtype in described["extra"]
            ),
        }
    )


def _chains(replay: Replay) -> tuple[Ints, NDArray[np.int64]]:
    """The places of all real steps, agent by agent in chronological order, and how many belong together."""
    columns, capacity = replay.columns, replay.layout.capacity
    places = np.arange(replay.tail, replay.head) % capacity
    places = places[columns.real[places]]
    following = columns.following[places].astype(np.int64)
    goes_on = (following < capacity) & (following != places) & ~columns.ended[places]
    chain = np.full(capacity, -1, np.int64)
    count = 0
    # Steps are held in the order of their numbers, so that a step comes after those before it.
    for place, successor, on in zip(places.tolist(), following.tolist(), goes_on.tolist(), strict=True):
        if chain[place] < 0:
            chain[place], count = count, count + 1
        if on:
            chain[successor] = chain[place]
    of_steps = chain[places]
    return places[np.argsort(of_steps, kind="stable")], np.bincount(of_steps, minlength=count)


def _require_spec(layout: ReplayLayout, spec: BehaviorSpec) -> None:
    found = layout.shapes, layout.continuous, layout.branches
    actions = spec.action_spec
    shapes = tuple(tuple(int(n) for n in sensor.shape) for sensor in spec.observation_specs)
    expected = shapes, int(actions.continuous_size), tuple(int(n) for n in actions.discrete_branches)
    for what, here, there in zip(("observations", "continuous actions", "branches"), found, expected):
        if here != there:
            raise ReplayFileError(f"its {what} are {here}, and those of the checkpoint beside it {there}")


def _check_memory(layout: ReplayLayout, steps: int) -> None:
    """Images that are stored frame by frame are stacked in memory: refuse them before that fills it."""
    sizes = zip(layout.shapes, layout.dtypes, strict=True)
    wanted = steps * sum(prod(shape) * int(np.dtype(dtype).itemsize) for shape, dtype in sizes)
    if (lacking := shortage(wanted)) is not None:
        left, culprit = lacking
        raise ReplayFileError(
            f"its {steps:,} steps take {size_text(wanted)} of memory, and {culprit} leaves {size_text(left)}"
        )
