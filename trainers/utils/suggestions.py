"""The nearest known word, for messages about unknown ones."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely was meant to be, or None."""
    by_plain = {name.lower().replace("-", "_"): name for name in known}
    matches = difflib.get_close_matches(word.lower().replace("-", "_"), by_plain, n=1, cutoff=0.6)
    return by_plain[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """` Did you mean ...?` with the nearest known word, to follow a sentence; empty if none is near."""
    close = nearest(word, known)
    return f" Did you mean {close}?" if close else ""
