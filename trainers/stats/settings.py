"""Which stats writers a run has: the setting `stats_writers`."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from ..plugins.entry_points import MLAGENTS_STATS_WRITERS, STATS_WRITERS, plugins
from ..settings.nearest import nearest
from ..settings.values import Text, found, wrong

TENSORBOARD = "tensorboard"
CONSOLE = "console"
CSV = "csv"
NONE = "none"
BUILT_IN = (TENSORBOARD, CONSOLE, CSV, NONE)


def _as_list(value: Any) -> Any:
    """A single name as a list of one; a list as it is."""
    if isinstance(value, str):
        return [value]
    if value is None or isinstance(value, list):
        return value
    raise wrong(f"found {found(value)}, expected a list such as [tensorboard, csv]")


def _known(names: list[str]) -> list[str]:
    """Refuse names that nobody has, and `none` beside others."""
    others: list[str] = []
    if not set(names) <= set(BUILT_IN):
        others = [*plugins(STATS_WRITERS), *plugins(MLAGENTS_STATS_WRITERS)]
    known = [*BUILT_IN, *(name for name in others if name not in BUILT_IN)]
    for name in names:
        if name not in known:
            close = nearest(name, known)
            hint = f" Did you mean {close}?" if close else ""
            raise wrong(f"there is no stats writer {name!r} here.{hint} Known: {', '.join(known)}")
    if NONE in names and len(names) > 1:
        raise wrong(f"found {', '.join(names)}; none stands alone: remove it or the others")
    return list(dict.fromkeys(names))


WriterNames = Annotated[list[Text], BeforeValidator(_as_list), AfterValidator(_known)]
"""Names of stats writers, each known here."""


def writes_to(writers: list[str] | None, name: str) -> bool:
    """Whether `name` is among the writers of a run; None stands for ML-Agents' choice."""
    return name in (TENSORBOARD, CONSOLE) if writers is None else name in writers
