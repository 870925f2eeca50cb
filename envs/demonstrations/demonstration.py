"""A demonstration: an expert's observations, rewards and actions, read from a `.demo` file.

A file holds pairs: what an agent observed, and the action that followed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray

from ..base import ObsArray
from ..errors import DemonstrationError, ObservationError, WireError
from ..images import BYTES, Images
from ..protocol.agents import AgentColumns, AgentReader
from ..protocol.images import ImageCache, ImageDecodeJob
from ..protocol.layout import GroupedAgents, Layout, LayoutBuilder, Layouts, Rows, ints
from ..protocol.messages import AgentActionProto, AgentInfoActionPairProto
from ..protocol.specs import BehaviorFormat, describe_behavior
from ..protocol.wire_format import BYTES as WIRE_BYTES
from ..protocol.wire_format import Malformed, UnknownLayout, fields, parts
from ..utils.regular_files import read_bytes
from .format import Outline, outline, parsed

_FLOAT = np.dtype("<f4")
_INFO, _ACTION = 1, 2
_OLD, _CONTINUOUS, _DISCRETE = 1, 6, 7
"""The field numbers of an action's values: before hybrid actions, and since."""


class PairActions:
    """The actions of pairs, [n, continuous] and [n, branches], one row per pair."""

    def __init__(self, count: int, spec: ActionSpec) -> None:
        self.spec = spec
        self.continuous = np.zeros((count, spec.continuous_size), np.float32)
        self.discrete = np.zeros((count, spec.discrete_size), np.int32)
        self.there = np.zeros(count, np.bool_)
        """Whether each pair [n] has an action; Unity's recorder omits it when the agent no longer acts."""

    def fill(self, layout: Layout, rows: Rows, pairs: Any) -> None:
        """Fill rows from pairs of one layout, a structured array of the same length."""
        self.there[rows] = bool(layout.names & {"old", "continuous", "discrete0"})
        if "old" in layout.names:
            self._fill_old(rows, pairs["old"])
        if "continuous" in layout.names:
            self.continuous[rows] = pairs["continuous"]
        for branch in range(self.spec.discrete_size):
            if f"discrete{branch}" in layout.names:
                self.discrete[rows, branch] = ints(pairs[f"discrete{branch}"])

    def fill_one(self, row: int, action: AgentActionProto, at: int) -> None:
        """Fill one row. Raises Malformed at byte `at` if these are not actions of the behavior."""
        sizes = (self.spec.continuous_size, self.spec.discrete_size)
        found = (len(action.continuous_actions), len(action.discrete_actions))
        old = action.vector_actions_deprecated
        self.there[row] = bool(any(found) or len(old))
        if not self.there[row]:
            return
        if found == (0, 0) and len(old) == sum(sizes):
            self._fill_old(slice(row, row + 1), np.array(old, np.float32)[None])
        elif found == sizes:
            self.continuous[row], self.discrete[row] = action.continuous_actions, action.discrete_actions
        else:
            count = f"{found[0]} continuous and {found[1]} discrete" if any(found) else f"{len(old)}"
            raise Malformed(
                at, f"pair {row} has {count} actions, expected {sizes[0]} continuous and {sizes[1]} discrete"
            )

    def _fill_old(self, rows: Rows, values: NDArray[np.float32]) -> None:
        """Fill rows from the old field, which holds both continuous and discrete actions, as floats."""
        size = self.spec.continuous_size
        self.continuous[rows] = values[:, :size]
        with np.errstate(invalid="ignore"):  # NaN is found by the range check
            self.discrete[rows] = values[:, size:].astype(np.int32)


class PairReader:
    """Reads the pairs of one behavior: those of equal layout together, like agents in the protocol."""

    def __init__(self, behavior: BehaviorFormat, where: str) -> None:
        """`where`: the file in messages."""
        self._agents = AgentReader(behavior, where)
        self._compressed = behavior.compressed
        self._actions = behavior.spec.action_spec

    def read(self, data: bytes, found: Outline) -> tuple[AgentColumns, PairActions]:
        """Read the agents' reports and actions.

        Raises:
            Malformed: A pair is not valid, or its observations or actions are not the behavior's.
        """
        columns = self._agents.columns(len(found.starts))
        actions = PairActions(len(found.starts), self._actions)
        if self._compressed:
            pairs = GroupedAgents([], list(range(len(found.starts))))
        else:
            pairs = Layouts(self._layout).group(data, found.starts, found.lengths)
        for layout, rows, alike in pairs.groups:
            columns.fill(layout, rows, alike)
            actions.fill(layout, rows, alike)
        places: list[int] = []
        for row in pairs.unknown:
            start, length = int(found.starts[row]), int(found.lengths[row])
            self._fill_one(columns, actions, row, data, start, length)
            places += [start] * (len(columns.images) - len(places))
        _decode(columns, places)
        return columns, actions

    def _fill_one(
        self, columns: AgentColumns, actions: PairActions, row: int, data: bytes, start: int, length: int
    ) -> None:
        place = (start, start + length)
        pair = parsed(AgentInfoActionPairProto, data, place, "pair of an agent's report and its action")
        if not (pair.HasField("agent_info") and pair.HasField("action_info")):
            raise Malformed(start, f"pair {row} lacks the agent's report or its action")
        try:
            columns.fill_one(row, pair.agent_info)
        except ObservationError as error:
            raise Malformed(start, f"pair {row}: {error}") from error
        actions.fill_one(row, pair.action_info, start)

    def _layout(self, data: bytes, start: int, stop: int) -> Layout:
        """The layout of the pair in data[start:stop]. Raises an error if it is irregular."""
        builder = LayoutBuilder(data, start, stop)
        found = parts(data, (start, stop), {_INFO: WIRE_BYTES, _ACTION: WIRE_BYTES})
        if found.keys() != {_INFO, _ACTION}:
            raise UnknownLayout
        self._agents.describe(builder, data, *found[_INFO])
        self._describe_action(builder, data, *found[_ACTION])
        return builder.build()

    def _describe_action(self, builder: LayoutBuilder, data: bytes, start: int, stop: int) -> None:
        wanted = {_OLD: WIRE_BYTES, _CONTINUOUS: WIRE_BYTES, _DISCRETE: WIRE_BYTES}
        found = {
            number: place for number, place in parts(data, (start, stop), wanted).items() if _full(place)
        }
        others = sum(number not in wanted for number, *_ in fields(data, start, stop))
        continuous, discrete = self._actions.continuous_size, self._actions.discrete_size
        has_new = _CONTINUOUS in found or _DISCRETE in found
        new = {key for key, size in ((_CONTINUOUS, continuous), (_DISCRETE, discrete)) if size}
        if others or (has_new and found.keys() - {_OLD} != new):
            raise UnknownLayout
        if _OLD in found:
            self._describe_floats(
                builder, None if has_new else "old", found[_OLD], None if has_new else continuous + discrete
            )
        if _CONTINUOUS in found:
            self._describe_floats(builder, "continuous", found[_CONTINUOUS], continuous)
        if _DISCRETE in found:
            at, end = found[_DISCRETE]
            if end - at != discrete:
                raise UnknownLayout
            for branch in range(discrete):
                builder.varint(f"discrete{branch}", at + branch, at + branch + 1, 1)

    def _describe_floats(
        self, builder: LayoutBuilder, name: str | None, place: tuple[int, int], count: int | None
    ) -> None:
        if count is not None and place[1] - place[0] != 4 * count:
            raise UnknownLayout
        builder.number(name, *place, (_FLOAT, (count,)))


def _full(place: tuple[int, int]) -> bool:
    return place[1] > place[0]


def _decode(columns: AgentColumns, places: list[int]) -> None:
    """Decode the images; `places`: the byte offset of each one's pair."""
    if not columns.images:
        return
    try:
        ImageDecodeJob(columns.images, ImageCache(), None).result()
    except ObservationError as error:
        for image, place in zip(columns.images, places, strict=True):
            try:
                image.decode(ImageCache())
            except ObservationError as its:
                raise Malformed(place, str(its)) from its
        raise Malformed(places[0], str(error)) from error


SUFFIX = ".demo"


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a file."""

    name: str
    steps: int
    """The number of pairs."""
    episodes: int
    """The number of episodes; Unity's recorder counts one more if it is closed during or after an episode."""
    mean_reward: float
    """The mean reward per episode, over these episodes."""


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
    """The behavior's specification; images are channels first, also in old files."""
    obs: list[ObsArray]
    """The observations, per sensor [n, *shape]: float32, or uint8 for images if requested."""
    reward: NDArray[np.float32]
    """The reward [n] since the previous pair, which came with this observation."""
    done: NDArray[np.bool_]
    interrupted: NDArray[np.bool_]
    """Whether the episode was interrupted [n], by a step limit for example."""
    agent_id: NDArray[np.int32]
    group_id: NDArray[np.int32]
    group_reward: NDArray[np.float32]
    action_mask: NDArray[np.bool_]
    """A mask [n, sum of branch sizes], True for actions that were not allowed."""
    continuous: NDArray[np.float32]
    """The continuous actions [n, continuous_size] as sent to the engine: mostly within -1 and 1."""
    discrete: NDArray[np.int32]
    """The discrete actions [n, branches]."""
    note: str | None = None
    """A warning about a file that is usable."""

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def episode_starts(self) -> NDArray[np.int64]:
        """The first pair of each episode [J], finished or not."""
        first = np.ones(len(self), np.bool_)
        # An agent keeps its id for an episode; in a file of several agents the id changes without `done`.
        first[1:] = self.done[:-1] | (self.agent_id[1:] != self.agent_id[:-1])
        return np.flatnonzero(first)

    @property
    def returns(self) -> NDArray[np.float64]:
        """Each episode's return [J], without the first pair's reward, which no action has earned."""
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
