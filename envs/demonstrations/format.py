"""The outline of a `.demo` file: what stands at which byte.

At byte 0 the metadata, behind its length. At byte 33, wherever the metadata end, the behaviour's parameters
behind their length; then pairs of an agent's report and its action, each behind its length. The recorder of
Unity leaves a few bytes behind the last pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from ..protocol.messages import BrainParametersProto, DemonstrationMetaProto
from ..protocol.wire_format import Malformed, Place, UnknownLayout, fields, varint

HEADER = 33
"""Bytes that are kept for the metadata: Unity writes them at last."""
VERSIONS = (0, 1)
"""Of the format; 0 are files from before it was counted, and those whose recorder was not closed."""

AnyMessage = TypeVar("AnyMessage", bound=Message)


@dataclass(frozen=True, slots=True)
class Outline:
    """Where the parts of a file are."""

    meta: DemonstrationMetaProto
    brain: BrainParametersProto
    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]
    """[n] of each pair."""


def outline(data: bytes) -> Outline:
    """Find the parts of a file.

    Raises:
        Malformed: the bytes are no demonstration, or the file ends within a part of it.
    """
    meta = _meta(data)
    if len(data) <= HEADER:
        raise Malformed(len(data), f"the file ends before byte {HEADER}, where its behavior is described")
    place = _delimited(data, HEADER, "description of the behavior")
    brain = parsed(BrainParametersProto, data, place, "description of a behavior")
    starts, lengths = _pairs(data, place[1], meta.number_steps)
    if not starts:
        raise Malformed(place[1], "the file ends without a single step")
    return Outline(meta, brain, np.array(starts, np.intp), np.array(lengths, np.intp))


def _meta(data: bytes) -> DemonstrationMetaProto:
    if not data:
        raise Malformed(0, "the file is empty")
    place = _delimited(data, 0, "metadata")
    if place[1] > HEADER:
        raise Malformed(
            0,
            f"the metadata would take {place[1]} bytes, and have room for {HEADER}: this is no demonstration",
        )
    meta = parsed(DemonstrationMetaProto, data, place, "metadata of a demonstration")
    if meta.api_version not in VERSIONS:
        raise Malformed(
            0,
            f"can't load demonstration data from an unsupported version ({meta.api_version}), only 0 or 1",
        )
    if meta.number_steps < 0 or meta.number_episodes < 0:
        raise Malformed(
            0,
            f"it tells of {meta.number_steps} steps in {meta.number_episodes} episodes: no file has so many",
        )
    return meta


def _pairs(data: bytes, at: int, announced: int) -> tuple[list[int], list[int]]:
    """Start and length of each pair; of `announced` ones what lies behind is not looked at, 0 means all."""
    starts: list[int] = []
    lengths: list[int] = []
    end = len(data)
    while at < end and (not announced or len(starts) < announced):
        # Most lengths are of one or two bytes; a function's call for each would take longer than all else.
        length = data[at]
        if length < 0x80:
            at += 1
        elif at + 1 < end and data[at + 1] < 0x80:
            length = length & 0x7F | data[at + 1] << 7
            at += 2
        else:
            length, at = _length(data, at, f"pair {len(starts)}")
        if at + length > end:
            raise _cut(at, length, end, f"pair {len(starts)}")
        starts.append(at)
        lengths.append(length)
        at += length
    return starts, lengths


def _delimited(data: bytes, at: int, what: str) -> Place:
    """Where a part is that stands behind its length."""
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
    """The message at a place. Raises Malformed with the byte where it breaks, as far as that can be told."""
    try:
        return kind.FromString(data[slice(*place)])
    except DecodeError as error:
        _walk(data, place)
        raise Malformed(place[0], f"this is no {what} ({error})") from error


def _walk(data: bytes, place: Place) -> None:
    """Raise Malformed at the field that does not fit into its message, if one does not."""
    try:
        for _ in fields(data, *place):
            pass
    except UnknownLayout:
        return


def check_announced(announced: int, found: Sequence[int] | NDArray[np.intp]) -> str | None:
    """What is to be said of a file that holds fewer pairs than its metadata tell; None of any other."""
    if len(found) >= announced:
        return None
    return (
        f"its metadata tell of {announced} steps and it holds {len(found)}: was its recorder stopped midway?"
    )
