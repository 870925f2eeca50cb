"""What a target of `fuzz.py` is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from damaged_bytes import mutated

MOST_LETTERS = 6000
"""Of an error's sentence: what a hostile file says is not repeated at length."""


@dataclass(frozen=True)
class Target:
    """Something that reads bytes of others."""

    seeds: Callable[[], list[bytes]]
    read: Callable[[bytes], object]
    """Reads an input; raises what is a finding, and nothing for an input that is refused by a sentence."""
    mutate: Callable[[bytes, Random], bytes] = mutated


@contextmanager
def refusal(*errors: type[Exception], names: str) -> Iterator[None]:
    """Inside, these errors are expected, with a sentence that names `names`; a warning is not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            yield
        except errors as error:
            text = str(error)
            assert names in text, f"does not name {names}: {error!r}"
            assert len(text) < MOST_LETTERS, f"repeats {len(text)} letters: {text[:300]}"
            assert "Traceback" not in text and " object at 0x" not in text, text
