"""Recorded sessions of real engines: gzip'd JSON lines in the order of time (tests/real/README.md).

They lie in the folder that the environment variable LANISTA_TRANSCRIPTS names, else in
`tests/real/transcripts`. Tests take them as they come, whatever their number, file names and scenes.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("LANISTA_TRANSCRIPTS") or Path(__file__).parent / "real" / "transcripts")
FILES = sorted(FOLDER.glob("*.jsonl.gz"))


@cache
def lines(path: Path) -> list[dict[str, Any]]:
    """Everything that was recorded."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def messages_of(path: Path, direction: str = "engine->trainer") -> Iterator[tuple[int, bytes]]:
    """The number of each call and its message, as its bytes."""
    for line in lines(path):
        if line["kind"] == "rpc" and line["dir"] == direction:
            yield line["i"], base64.b64decode(line["b64"])


def specs_of(path: Path) -> dict[str, dict[str, Any]]:
    """The behaviors' specifications as they were recorded."""
    return {line["behavior"]: line["spec"] for line in lines(path) if line["kind"] == "behavior_spec"}


def decisions_of(path: Path, behavior: str) -> int:
    """How many decisions the agents of a behavior (without its team) asked for."""
    return sum(
        len(line["decision"]["agent_id"]["data"])
        for line in lines(path)
        if line["kind"] == "steps" and line["behavior"].partition("?")[0] == behavior
    )
