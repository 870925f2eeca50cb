"""Several configurations as one: each lies over those before it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from .source import Source


def under(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`own` laid over `defaults`: mappings are merged, everything else is replaced. Neither is changed."""
    merged = copy.deepcopy(defaults)
    for key, value in own.items():
        below = merged.get(key)
        merged[key] = under(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def compose(sources: Iterable[Source]) -> Source:
    """One source of all, the later over the earlier, in which every value has its place."""
    composed = Source()
    for source in sources:
        composed = _over(composed, source)
    return composed


def _over(base: Source, over: Source) -> Source:
    # A place below something that `over` replaces is not in the result any more, so nobody asks for it;
    # only what `over` repeats has to be its own.
    return Source(
        under(base.data, over.data),
        ", ".join(name for name in (base.name, over.name) if name),
        {**base.places, **over.places},
    )
