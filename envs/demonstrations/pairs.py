"""The pairs of a demonstration as columns: agents' observations, and the actions that followed."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionSpec
from numpy.typing import NDArray

from ..errors import ObservationError
from ..protocol.agents import AgentColumns, AgentReader
from ..protocol.images import ImageCache, ImageDecodeJob
from ..protocol.layout import GroupedAgents, Layout, LayoutBuilder, Layouts, Rows, ints
from ..protocol.messages import AgentActionProto, AgentInfoActionPairProto
from ..protocol.specs import BehaviorFormat
from ..protocol.wire_format import BYTES, Malformed, UnknownLayout, fields, parts
from .format import Outline, parsed

_FLOAT = np.dtype("<f4")
_INFO, _ACTION = 1, 2
_OLD, _CONTINUOUS, _DISCRETE = 1, 6, 7
"""Field numbers of an action: before hybrid actions, and since."""


class PairActions:
    """[n, continuous] and [n, branches], one row per pair."""

    def __init__(self, count: int, spec: ActionSpec) -> None:
        self.spec = spec
        self.continuous = np.zeros((count, spec.continuous_size), np.float32)
        self.discrete = np.zeros((count, spec.discrete_size), np.int32)
        self.there = np.zeros(count, np.bool_)
        """[n] Whether the pair has an action; Unity's recorder omits it when the agent no longer acts."""

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
        """From the old field with both continuous and discrete actions, as floats."""
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
        found = parts(data, (start, stop), {_INFO: BYTES, _ACTION: BYTES})
        if found.keys() != {_INFO, _ACTION}:
            raise UnknownLayout
        self._agents.describe(builder, data, *found[_INFO])
        self._describe_action(builder, data, *found[_ACTION])
        return builder.build()

    def _describe_action(self, builder: LayoutBuilder, data: bytes, start: int, stop: int) -> None:
        wanted = {_OLD: BYTES, _CONTINUOUS: BYTES, _DISCRETE: BYTES}
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
