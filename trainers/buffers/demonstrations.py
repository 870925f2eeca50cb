"""Demonstrations of experts, as the columns that imitation learns from."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ...agent_processor.rollout import first_steps, runs
from ...agent_processor.trajectory import take_rows
from ...envs.base import ObsArray
from ...envs.demonstrations.demonstration import Demonstration, demonstration_files, read_demonstration
from ...envs.errors import DemonstrationError
from ...envs.images import as_floats

logger = logging.getLogger(__name__)

Number = TypeVar("Number", np.float32, np.int32)


@dataclass(frozen=True, slots=True)
class Demonstrations:
    """The steps of J episodes as columns of N rows, one episode after another; named as in a `Rollout`.

    A step is an observation, what the expert did then, and what came of it. The observation that ends an
    episode is followed by no action and is no step (ML-Agents makes one of it, whose reward is the next
    episode's); nor does a step lead from one file into the next.
    """

    spec: BehaviorSpec
    obs: list[ObsArray]
    """The observations per sensor [N, *shape]: float32, or uint8 for images."""
    continuous: NDArray[np.float32]
    """[N, continuous_size] actions as the engine got them, mostly from -1 to 1, not as drawn by a policy."""
    discrete: NDArray[np.int32]
    """[N, branches] the discrete actions."""
    action_mask: NDArray[np.bool_] | None
    """The mask [N, sum of branch sizes], True where an action was not allowed; None without discrete ones."""
    reward: NDArray[np.float32]
    """[N] the environment's reward for the step, to the agent alone."""
    group_reward: NDArray[np.float32]
    done: NDArray[np.bool_]
    """[N] whether the step ended the episode."""
    interrupted: NDArray[np.bool_]
    """[N] whether the step ended the episode by a limit of steps."""
    prev_continuous: NDArray[np.float32]
    """[N, continuous_size] the actions before, in the same episode; zeros at first."""
    prev_discrete: NDArray[np.int32]
    """[N, branches] the discrete actions before, likewise."""
    lengths: NDArray[np.int64]
    """[J] the numbers of steps of the episodes; their sum is N."""
    next_obs: list[ObsArray]
    """The observations after the episodes' last steps, per sensor [J, *shape]."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def rewards(self) -> NDArray[np.float32]:
        """[N] what the agent and its group got for the step."""
        return self.reward + self.group_reward

    @property
    def done_reached(self) -> NDArray[np.bool_]:
        """[J] whether the episode was recorded to its end."""
        return self.done[np.cumsum(self.lengths) - 1]


class SavedSteps(NamedTuple):
    """Steps of another source than a .demo file."""

    path: Path
    behavior: str
    steps: Demonstrations

    @property
    def spec(self) -> BehaviorSpec:
        """The spec of the behavior."""
        return self.steps.spec

    @property
    def note(self) -> None:
        """None: there is nothing to warn of."""


def load_demonstrations(
    path: str | Path, spec: BehaviorSpec | None = None, partial: bool = False
) -> Demonstrations:
    """All steps of a file, or of a folder's files in the order of their names.

    Args:
        path: `demo_path` of the settings.
        spec: of the behavior that learns from them; None skips the comparison.
        partial: `partial_demos` of the settings.

    Raises:
        DemonstrationError: there is no such file, one is damaged, they are not of the behavior, or there is
            no step in them.
    """
    demos = [read_demonstration(file, images="uint8", partial=partial) for file in demonstration_files(path)]
    if spec is not None:
        for demo in demos:
            require_same_spec(demo, spec)
    return join_demonstrations(demos, Path(path))


def load_transitions(path: str | Path, spec: BehaviorSpec | None, partial: bool = False) -> Demonstrations:
    """As `load_demonstrations`, to learn values from: what an action leads to, up to some episode's end.

    Raises:
        DemonstrationError: also where no episode was recorded to its end.
    """
    demos = load_demonstrations(path, spec, partial)
    if not demos.done_reached.any():
        raise DemonstrationError(
            Path(path),
            "none of its episodes was recorded to its end, so that nothing tells what the last steps were "
            "worth: record whole episodes, or use it for behavioral_cloning or gail, which read no rewards.",
        )
    return demos


def join_demonstrations(demos: Sequence[Demonstration | SavedSteps], path: Path) -> Demonstrations:
    """The steps of several files, one after another; `path` stands for all of them in messages.

    Raises:
        DemonstrationError: they are not of one behavior, or there is no step in them.
    """
    for demo in demos:
        if demo.note is not None:
            logger.warning("%s: %s", demo.path, demo.note)
        require_same_spec(demo, demos[0].spec, f"those of {demos[0].path.name}")
    result = _joined([demo.steps if isinstance(demo, SavedSteps) else _steps(demo) for demo in demos])
    if len(result) == 0:
        raise DemonstrationError(
            path,
            "there is no step in it: what was recorded are single observations without a successor.",
        )
    return result


def held_out(demos: Demonstrations, share: float, seed: int) -> tuple[Demonstrations, Demonstrations | None]:
    """Divide episodes at random into those to learn from, and about `share` of them to measure by.

    At least one is held out, unless `share` is 0 or there is but one: then the second is None.
    """
    count = len(demos.lengths)
    wanted = min(max(round(share * count), 1), count - 1) if share > 0 else 0
    if wanted == 0:
        return demos, None
    order = np.random.default_rng(seed).permutation(count)
    return of_episodes(demos, np.sort(order[wanted:])), of_episodes(demos, np.sort(order[:wanted]))


def digest(demos: Demonstrations, *, outcomes: bool = False) -> str:
    """A hash of the observations, actions and masks, and of where episodes begin.

    With `outcomes` also of rewards, ends and final observations.
    """
    found = hashlib.sha256(demos.lengths.tobytes())
    came = (demos.rewards, demos.done, demos.interrupted, *demos.next_obs) if outcomes else ()
    for column in (*demos.obs, demos.continuous, demos.discrete, demos.action_mask, *came):
        if column is not None:
            found.update(np.ascontiguousarray(column).data)
    return found.hexdigest()


def of_episodes(demos: Demonstrations, indices: Sequence[int] | NDArray[np.int64]) -> Demonstrations:
    """Some of the episodes, in the order of their `indices`, such as those for training."""
    episodes = list(indices)
    rows = runs(first_steps(demos.lengths)[episodes], demos.lengths[episodes])
    return replace(
        demos,
        lengths=demos.lengths[episodes],
        next_obs=take_rows(demos.next_obs, episodes),
        **{name: take_rows(getattr(demos, name), rows) for name in _COLUMNS},
    )


_COLUMNS = (
    *("obs", "continuous", "discrete", "action_mask", "reward", "group_reward"),
    *("done", "interrupted", "prev_continuous", "prev_discrete"),
)
"""The names of the columns of N rows."""


def require_same_spec(
    demo: Demonstration | SavedSteps, spec: BehaviorSpec, whose: str = "the policy's"
) -> None:
    """Refuse a demonstration of another behavior, with ML-Agents' sentences where it has any.

    Raises:
        DemonstrationError: naming what differs.
    """
    theirs, ours = demo.spec, spec
    if theirs.action_spec != ours.action_spec:
        raise DemonstrationError(
            demo.path,
            f"The actions {theirs.action_spec} in demonstration do not match {whose} {ours.action_spec}.",
        )
    counts = len(theirs.observation_specs), len(ours.observation_specs)
    if counts[0] != counts[1]:
        names = [[each.name for each in both.observation_specs] for both in (theirs, ours)]
        raise DemonstrationError(
            demo.path,
            f"The demonstrations do not have the same number of observations as the policy: {counts[0]} "
            f"({_listed(names[0])}) and {counts[1]} ({_listed(names[1])}).",
        )
    for number, (there, here) in enumerate(zip(theirs.observation_specs, ours.observation_specs)):
        if tuple(there.shape) != tuple(here.shape):
            raise DemonstrationError(
                demo.path,
                f"The shape {tuple(there.shape)} for observation {number} ({there.name!r}) in demonstration "
                f"do not match {whose} {tuple(here.shape)} ({here.name!r}).",
            )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def _steps(demo: Demonstration) -> Demonstrations:
    """The steps of one file: every pair that another one of its episode follows."""
    starts = demo.episode_starts
    lengths = np.diff(starts, append=len(demo)) - 1
    last = np.zeros(len(demo), np.bool_)
    last[starts + lengths] = True
    rows = np.flatnonzero(~last)
    lengths = lengths[lengths > 0]
    first = first_steps(lengths)
    continuous, discrete = demo.continuous[rows], demo.discrete[rows]
    return Demonstrations(
        demo.spec,
        [column[rows] for column in demo.obs],
        continuous,
        discrete,
        demo.action_mask[rows] if demo.spec.action_spec.discrete_size else None,
        demo.reward[rows + 1],
        demo.group_reward[rows + 1],
        demo.done[rows + 1],
        demo.interrupted[rows + 1],
        previous(continuous, first),
        previous(discrete, first),
        lengths,
        [column[rows[first + lengths - 1] + 1] for column in demo.obs],
    )


def previous(actions: NDArray[Number], first: NDArray[np.int64]) -> NDArray[Number]:
    """Each row's predecessor; zeros at the `first` rows of episodes."""
    before = np.zeros_like(actions)
    before[1:] = actions[:-1]
    before[first] = 0
    return before


def _joined(parts: Sequence[Demonstrations]) -> Demonstrations:
    """The steps of several files, one after another."""
    if len(parts) == 1:
        return parts[0]

    def join(columns: Sequence[Any]) -> Any:
        if isinstance(columns[0], list):
            return [_alike(of_sensor) for of_sensor in zip(*columns)]
        return None if columns[0] is None else np.concatenate(columns)

    names = [*_COLUMNS, "lengths", "next_obs"]
    return replace(parts[0], **{name: join([getattr(part, name) for part in parts]) for name in names})


def _alike(columns: Sequence[ObsArray]) -> ObsArray:
    """A sensor's columns of several files as one: as bytes only where all of them are."""
    if len({column.dtype for column in columns}) > 1:
        columns = [as_floats(column) for column in columns]
    joined: ObsArray = np.concatenate(columns)
    return joined
