"""The faults of start_up_faults.yaml, which also says what its keys mean."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import start_up_places as places
import yaml

BASIC = ("--env", "scene:basic")
LAST_LINE = "    max_steps: 200\n"
"""Of the settings, before which lines are added."""


@dataclass(frozen=True)
class Fault:
    """One way to start a run wrongly."""

    name: str
    says: str
    arguments: tuple[str, ...]
    yaml: str | bytes | None
    place: places.Place | None = None
    status: int = 1
    needs: str = ""
    python: str = ""


def faults() -> list[Fault]:
    """Every fault."""
    rows = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))["faults"]
    return [_fault(**row) for row in rows]


def _fault(
    arguments: str | None = None, more: str = "", place: str | dict[str, Any] | None = None, **row: Any
) -> Fault:
    content = row.pop("yaml", places.GOOD)
    if "replace" in row:
        old, new = row.pop("replace")
        assert content.count(old) == 1, old
        content = content.replace(old, new)
    if added := row.pop("add", ""):
        content = content.replace(LAST_LINE, f"    {added}\n{LAST_LINE}")
    if content is not None and not isinstance(content, bytes):
        content += row.pop("append", "")
    words = (*BASIC, *shlex.split(more)) if arguments is None else tuple(shlex.split(arguments))
    return Fault(arguments=words, yaml=content, place=_place(place), **row)


def _place(description: str | dict[str, Any] | None) -> places.Place | None:
    if not isinstance(description, dict):
        return getattr(places, description) if description else None
    keys = dict(description)
    mode = {"mode": int(str(keys.pop("mode")), 8)} if "mode" in keys else {}
    more = keys.pop("arguments", "").split()
    ((kind, value),) = keys.items()
    given = map(places.cut, value) if kind == "trained" else (value, *mode.values(), *more)
    words = tuple(given)
    return lambda folder: getattr(places, kind)(folder, *words)
