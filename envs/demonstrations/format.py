"""The outline of a `.demo` file: what is at which byte.

Each part is preceded by its length. At byte 0 are the metadata; at byte 33, wherever the metadata end, the
behavior's parameters; then pairs of an agent's report and its action. Unity's recorder leaves a few bytes
after the last pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from google.protobuf.message import Message
from numpy.typing import NDArray

from ..protocol.dialect import UNREADABLE
from ..protocol.messages import BrainParametersProto, DemonstrationMetaProto
from ..protocol.wire_format import Malformed, Place, UnknownLayout, fields, varint

HEADER = 33
"""The number of bytes reserved for the metadata, which are written last."""
VERSIONS = (0, 1)
"""The versions of the format; 0: files from before versions, and those whose recorder was not closed."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a file."""

    meta: DemonstrationMetaProto
    brain: BrainParametersProto
    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]
    """The number of bytes of each pair [n]; `starts` has the index of its first."""
    note: str | None = None
    """A warning about a file that ends early."""


def outline(data: bytes, partial: bool = False) -> Outline:
    """Find the parts of a file.

    Args:
        data: The whole file.
        partial: Take the whole pairs of a truncated file.

    Raises:
        Malformed: The bytes are not a demonstration, or the file is truncated.
    """
    meta = _meta(data)
    if len(data) <= HEADER:
        raise Malformed(len(data), f"the file ends before byte {HEADER}, where its behavior is described")
    place = _delimited(data, HEADER, "description of the behavior")
    brain = parsed(BrainParametersProto, data, place, "description of a behavior")
    starts, lengths, cut = _pairs(data, place[1], meta.number_steps)
    if cut is not None and not partial:
        raise cut
    if not starts:
        raise Malformed(place[1], "the file ends without a single step")
    note = _note(meta.number_steps, len(starts), cut)
    return Outline(meta, brain, np.array(starts, np.intp), np.array(lengths, np.intp), note)


def _meta(data: bytes) -> DemonstrationMetaProto:
    if not data:
        raise Malformed(0, "the file is empty")
    place = _delimited(data, 0, "metadata")
    if place[1] > HEADER:
        raise Malformed(
            0,
            f"the metadata would take {place[1]} bytes, but at most {HEADER} fit: it is not a demonstration",
        )
    meta = parsed(DemonstrationMetaProto, data, place, "metadata of a demonstration")
    if meta.api_version not in VERSIONS:
        raise Malformed(
            0, f"can't load demonstration data from an unsupported version ({meta.api_version}), only 0 or 1"
        )
    if meta.number_steps < 0 or meta.number_episodes < 0:
        raise Malformed(
            0,
            f"it announces {meta.number_steps} steps in {meta.number_episodes} episodes, which is impossible",
        )
    return meta


def _pairs(data: bytes, at: int, count: int) -> tuple[list[int], list[int], Malformed | None]:
    """The start and length of the first `count` pairs (0: of all), and why there are no more if it is cut."""
    starts: list[int] = []
    lengths: list[int] = []
    end = len(data)
    while at < end and (not count or len(starts) < count):
        # Most lengths take one or two bytes; a function call for each would take longer than everything else.
        length = data[at]
        if length < 0x80:
            at += 1
        elif at + 1 < end and data[at + 1] < 0x80:
            length = length & 0x7F | data[at + 1] << 7
            at += 2
        else:
            try:
                length, at = _length(data, at, f"pair {len(starts)}")
            except Malformed as error:
                return starts, lengths, error
        if at + length > end:
            return starts, lengths, _cut(at, length, end, f"pair {len(starts)}")
        starts.append(at)
        lengths.append(length)
        at += length
    if len(starts) < count:
        found = f"its metadata announce {count} steps, and the file ends after {len(starts)}"
        return starts, lengths, Malformed(end, found)
    return starts, lengths, None


def _note(announced: int, found: int, cut: Malformed | None) -> str | None:
    if cut is not None:
        return f"it is cut off: {cut.found}; the {found} whole pairs before are used"
    if not announced:
        return f"its recorder was not closed: its metadata announce no number of steps, and it has {found}"
    return None


def _delimited(data: bytes, at: int, what: str) -> Place:
    """Find a part that is preceded by its length."""
    length, start = _length(data, at, what)
    if start + length > len(data):
        raise _cut(start, length, len(data), what)
    return start, start + length


def _length(data: bytes, at: int, what: str) -> tuple[int, int]:
    try:
        return varint(data, at, len(data))
    except Malformed as error:
        raise Malformed(at, f"the length of the {what}: {error.found}") from error


def _cut(start: int, length: int, end: int, what: str) -> Malformed:
    return Malformed(start, f"the {what} takes {length} bytes, and the file ends after {end - start} of them")


def parsed(kind: type[AnyMessage], data: bytes, place: Place, what: str) -> AnyMessage:
    """Parse the message at a place. Raises Malformed, with the byte of the error if that can be found."""
    try:
        return kind.FromString(data[slice(*place)])
    except UNREADABLE as error:
        _walk(data, place)
        raise Malformed(place[0], f"this is not a {what} ({error})") from error


def _walk(data: bytes, place: Place) -> None:
    """Raise Malformed at the field that does not fit into its message, if there is one."""
    try:
        for _ in fields(data, *place):
            pass
    except UnknownLayout:
        return
