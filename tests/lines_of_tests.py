"""Notes which lines of the product each test runs, for `tests/mutations.py`; Python 3.12 or newer.

    .venv/bin/pytest -q -n 2 -m "not peer" -p lines_of_tests --junitxml=tests.xml

Each process writes `.cache/lines/NAME.json`: file -> line -> numbers of the tests, and their names; lines
that run at an import have no test. It watches with `sys.monitoring`, each line once per test, so that the
tests take hardly longer than without.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("envs", "agent_processor", "trainers", "config")
FOLDER = ROOT / ".cache" / "lines"

_tests: list[str] = []
_ran: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
_files: dict[str, str | None] = {}


def _product_file(name: str) -> str | None:
    """The path within the repository, or None for what is not the product's."""
    if name not in _files:
        path = Path(name).resolve()
        inside = path.relative_to(ROOT) if path.is_relative_to(ROOT) else None
        _files[name] = inside.as_posix() if inside and inside.parts[0] in FLOORS else None
    return _files[name]


def pytest_configure(config: pytest.Config) -> None:
    """Watch from here on."""
    if sys.version_info < (3, 12):
        raise pytest.UsageError("lines_of_tests needs Python 3.12 or newer (sys.monitoring)")
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool, events = monitoring.COVERAGE_ID, monitoring.events

    def start(code: CodeType, _offset: int) -> Any:
        if _product_file(code.co_filename):
            monitoring.set_local_events(tool, code, events.LINE)
        return monitoring.DISABLE

    def line(code: CodeType, number: int) -> Any:
        file = _product_file(code.co_filename)
        if file:
            tests = _ran[file][number]
            if _tests:
                tests.add(len(_tests) - 1)
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "lines of tests")
    monitoring.register_callback(tool, events.PY_START, start)
    monitoring.register_callback(tool, events.LINE, line)
    monitoring.set_events(tool, events.PY_START)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Every line counts again for the next test."""
    _tests.append(item.nodeid)
    sys.monitoring.restart_events()  # type: ignore[attr-defined,unused-ignore]
    yield


def pytest_unconfigure() -> None:
    """Watch no more, and write what was seen."""
    monitoring = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.NO_EVENTS)
    monitoring.free_tool_id(monitoring.COVERAGE_ID)
    FOLDER.mkdir(parents=True, exist_ok=True)
    ran = {file: {number: sorted(tests) for number, tests in lines.items()} for file, lines in _ran.items()}
    name = os.environ.get("PYTEST_XDIST_WORKER", "main")
    (FOLDER / f"{name}.json").write_text(json.dumps({"tests": _tests, "files": ran}))
