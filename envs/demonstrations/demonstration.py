"""A demonstration: an expert's observations, rewards and actions, read from a `.demo` file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ..base import ObsArray
from ..errors import DemonstrationError, WireError
from ..images import BYTES, Images
from ..protocol.agents import AgentColumns
from ..protocol.messages import AgentInfoActionPairProto
from ..protocol.specs import describe_behavior
from ..protocol.wire_format import Malformed
from ..utils.regular_files import read_bytes
from .format import Outline, outline, parsed
from .pairs import PairActions, PairReader

SUFFIX = ".demo"


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a file."""

    name: str
    steps: int
    """The number of pairs."""
    episodes: int
    """Unity's recorder counts one more if it is closed during or after an episode."""
    mean_reward: float
    """Over these episodes."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The n pairs of a file as columns.

    Pair k is the agent's observation and the action that followed. An episode ends with a pair that is
    `done`: its observation is the final one, and its action was never taken.
    """

    path: Path
    metadata: Metadata
    behavior: str
    """The behavior's full name, such as `3DBall?team=0`."""
    spec: BehaviorSpec
    """Images are channels first, also in old files."""
    obs: list[ObsArray]
    """Per sensor [n, *shape]: float32, or uint8 for images if requested."""
    reward: NDArray[np.float32]
    """[n] The reward since the previous pair, which came with this observation."""
    done: NDArray[np.bool_]
    interrupted: NDArray[np.bool_]
    """[n] The episode was interrupted, by a step limit for example."""
    agent_id: NDArray[np.int32]
    group_id: NDArray[np.int32]
    group_reward: NDArray[np.float32]
    action_mask: NDArray[np.bool_]
    """[n, sum of branch sizes] True for actions that were not allowed."""
    continuous: NDArray[np.float32]
    """[n, continuous_size] As sent to the engine: mostly within -1 and 1."""
    discrete: NDArray[np.int32]
    """[n, branches]"""
    note: str | None = None
    """A warning about a file that is usable."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def episode_starts(self) -> NDArray[np.int64]:
        """[J] The first pair of each episode, finished or not."""
        first = np.ones(len(self), np.bool_)
        # An agent keeps its id for an episode; in a file of several agents the id changes without `done`.
        first[1:] = self.done[:-1] | (self.agent_id[1:] != self.agent_id[:-1])
        return np.flatnonzero(first)

    @property
    def returns(self) -> NDArray[np.float64]:
        """[J] Each episode's return, without the first pair's reward, which no action has earned."""
        earned = self.reward.astype(np.float64)
        earned[self.episode_starts] = 0.0
        return np.add.reduceat(earned, self.episode_starts)


def demonstration_files(path: str | Path) -> list[Path]:
    """The file, or the `.demo` files of a folder, sorted by name.

    Raises:
        DemonstrationError: There is none.
    """
    path = Path(path)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix == SUFFIX and file.is_file())
        if not files:
            raise DemonstrationError(path, "there are no '.demo' files in the provided directory.")
        return files
    if not path.exists():
        raise DemonstrationError(path, "the demonstration file or directory does not exist.")
    if path.suffix != SUFFIX:
        raise DemonstrationError(path, "the path provided is not a '.demo' file.")
    return [path]


def read_demonstration(path: str | Path, images: Images = "float32", partial: bool = False) -> Demonstration:
    """Read one file. Nothing in it is executed, and everything is checked.

    Args:
        path: The file.
        images: The dtype of compressed images: 0 to 1, or bytes.
        partial: Take the whole pairs of a truncated file, such as a crash leaves, with a note.

    Raises:
        DemonstrationError: It cannot be read, is truncated, or is not a demonstration. The error names the
            byte.
    """
    path = Path(path)
    try:
        data = read_bytes(path)
    except OSError as error:
        raise DemonstrationError(path, f"it cannot be read: {error.strerror or error}.") from error
    try:
        return _read(path, data, images, partial)
    except Malformed as error:
        remedy = "" if partial else _remedy(data)
        raise DemonstrationError(
            path, f"{error.found}. (The file has {len(data)} bytes.){remedy}", error.at
        ) from error


def _remedy(data: bytes) -> str:
    """What to do with a file that breaks off after some whole pairs."""
    try:
        outline(data)
    except Malformed:
        try:
            count = len(outline(data, partial=True).starts)
        except Malformed:
            return ""
        return f" Its {count} whole pairs are used where you ask for it: --partial, or partial_demos: true."
    return ""


def _require_room(spec: BehaviorSpec, pairs: int, images: Images, at: int) -> None:
    """Refuse observations that do not fit into memory: compressed, a picture may take a thousandth of it.

    Raises:
        Malformed: at this byte, with both sizes.
    """
    shapes = [sensor.shape for sensor in spec.observation_specs]
    needed = pairs * sum(
        math.prod(shape) * (1 if len(shape) == 3 and images == "uint8" else 4) for shape in shapes
    )
    available = psutil.virtual_memory().available
    if needed > available:
        raise Malformed(
            at,
            f"the observations of its {pairs:,} pairs, of the shapes {shapes}, take "
            f"{needed / 2**30:,.1f} GiB, and {available / 2**30:,.1f} GiB of memory are free: record "
            "smaller or fewer pictures",
        )


def _read(path: Path, data: bytes, images: Images, partial: bool) -> Demonstration:
    found = outline(data, partial)
    start, length = int(found.starts[0]), int(found.lengths[0])
    first = parsed(AgentInfoActionPairProto, data, (start, start + length), "pair of a report and an action")
    try:
        known = describe_behavior(found.brain, first.agent_info, images)
    except WireError as error:
        raise Malformed(start, f"pair 0: {error}") from error
    _require_room(known.spec, len(found.starts), images, start)
    columns, actions = PairReader(known, "the file").read(data, found)
    _check_values(found, columns, actions)
    meta = found.meta
    return Demonstration(
        path,
        Metadata(meta.demonstration_name, meta.number_steps, meta.number_episodes, meta.mean_reward),
        found.brain.brain_name,
        known.spec,
        columns.obs,
        columns.reward,
        columns.done,
        columns.interrupted,
        columns.agent_id,
        columns.group_id,
        columns.group_reward,
        columns.mask,
        actions.continuous,
        actions.discrete,
        found.note,
    )


def _check_values(found: Outline, columns: AgentColumns, actions: PairActions) -> None:
    """Raise Malformed at the first pair with values that cannot be learned from."""
    numbers: dict[str, ObsArray] = {"a reward": columns.reward, "a group's reward": columns.group_reward}
    numbers |= {f"observation {k}": obs for k, obs in enumerate(columns.obs) if obs.dtype != BYTES}
    numbers["a continuous action"] = actions.continuous
    for what, values in numbers.items():
        _refuse(found, ~np.isfinite(values), f"{what} is not finite")
    if actions.spec.continuous_size or actions.spec.discrete_size:
        idle = ~actions.there & ~columns.done
        idle[-1] = False
        _refuse(found, idle, "there is no action, although the episode continues")
    for branch, size in enumerate(actions.spec.discrete_branches):
        chosen = actions.discrete[:, branch]
        what = f"an action of branch {branch} is not one of its {size}"
        _refuse(found, (chosen < 0) | (chosen >= size), what)


def _refuse(found: Outline, wrong: NDArray[np.bool_], what: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
        raise Malformed(int(found.starts[row]), f"pair {row}: {what}")
