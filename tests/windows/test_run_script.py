"""`run.py` fails for failed tests alone: not for a machine without a network, nor for a slow one."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PRINTED = """\
created: 2/2 workers\r
2 workers [5 items]\r
\r
tests/a.py::test_one[a b] \r
[gw0] [ 20%] PASSED tests/a.py::test_one[a b] \r
[gw1] [ 40%] SKIPPED tests/a.py::test_two \r
[gw1] [ 60%] FAILED tests/a.py::test_three[x] \r
tests/a.py::test_four \r
"""


@pytest.fixture(scope="module")
def run():
    spec = importlib.util.spec_from_file_location("windows_run", Path(__file__).with_name("run.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


def test_tests_that_there_was_no_time_for_are_not_run(run):
    results = run.read(PRINTED, False)
    assert results.by_outcome["PASSED"] == ["tests/a.py::test_one[a b]"]
    assert results.failed == ["tests/a.py::test_three[x]"]
    assert results.not_run == 2


def test_a_file_that_cannot_be_imported_has_failed(run):
    assert run.read(PRINTED + "ERROR tests/b.py - ImportError: no c\r\n", True).failed[1:] == ["tests/b.py"]


@pytest.mark.parametrize(
    ("statuses", "told"),
    [
        ([3], "see above"),
        ([1], "install.sh ended with 1"),
        ([0, 1], "no wheel could be made: ERROR: no network"),
    ],
)
def test_what_cannot_be_had_is_a_reason_to_run_nothing(run, tmp_path, monkeypatch, statuses, told):
    left = iter(statuses)

    def refuse(command, **options):
        return subprocess.CompletedProcess(command, next(left), "", "WARNING: retrying\nERROR: no network\n")

    monkeypatch.setattr(run.subprocess, "run", refuse)
    monkeypatch.setattr(run.sys, "argv", ["run.py", "--into", str(tmp_path)])
    assert run.install(tmp_path) == told
    assert not list(left)


def test_what_a_failed_test_is_for_decides(run, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(run, "install", lambda folder: "")
    monkeypatch.setattr(run, "run_tests", lambda *given: run.read(PRINTED, True))
    monkeypatch.setattr(run.sys, "argv", ["run.py", "--into", str(tmp_path)])
    assert run.main() == 1
    assert "FAILED tests/a.py::test_three[x]\n1 passed, " in capsys.readouterr().out
    monkeypatch.setattr(run, "known", lambda: {"tests/a.py::test_three": "Wine"})
    assert run.main() == 0
