"""Damaged copies of a file, and what a program's reader makes of each; Python's own library is enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

CUT, FLIPPED = "cut", "flipped"


@dataclass
class Tally:
    """What a reader made of the damaged copies of one file, by kind of damage."""

    tried: int = 0
    refused: int = 0
    """By an error that a run explains."""
    unnamed: int = 0
    """Of these, without the file's name."""
    same: int = 0
    """Read, as the undamaged file is."""
    other: int = 0
    """Read, as something else."""
    uncaught: dict[str, int] = field(default_factory=dict)
    """Other errors, by name."""


def damaged(data: bytes, every: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """The data cut at every byte, or every so many, and with a random bit of those bytes flipped."""
    random = Random(seed)
    for at in range(0, len(data), every):
        yield CUT, data[:at]
    for at in range(0, len(data), every):
        copy = bytearray(data)
        copy[min(at + random.randrange(every), len(data) - 1)] ^= 1 << random.randrange(8)
        yield FLIPPED, bytes(copy)


def judge(
    path: Path, read: Callable[[Path], Any], refusals: tuple[type[BaseException], ...], every: int
) -> dict[str, Tally]:
    """Read damaged copies of a file at the same path. `read` gives what can be compared."""
    data = path.read_bytes()
    whole = read(path)
    tallies = {CUT: Tally(), FLIPPED: Tally()}
    for kind, content in damaged(data, every):
        path.write_bytes(content)
        tally = tallies[kind]
        tally.tried += 1
        try:
            found = read(path)
        except refusals as error:
            tally.refused += 1
            tally.unnamed += str(path) not in str(error)
        except Exception as error:
            name = type(error).__name__
            tally.uncaught[name] = tally.uncaught.get(name, 0) + 1
        else:
            tally.same += found == whole
            tally.other += found != whole
    path.write_bytes(data)
    return tallies
