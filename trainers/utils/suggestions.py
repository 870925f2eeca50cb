"""The nearest known word, for messages about unknown ones."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` most likely was meant to be, or None."""
    by_plain = {name.lower().replace("-", "_"): name for name in known}
    matches = difflib.get_close_matches(word.lower().replace("-", "_"), by_plain, n=1, cutoff=0.6)
    return by_plain[matches[0]] if matches else None
