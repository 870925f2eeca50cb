"""What is said of a learner that has crashed."""

from types import SimpleNamespace

import pytest
from lanista.trainers.runner.ranks import RankProcess

STACKS = "Fatal Python error: Aborted\n\nThread 0x01:\n  File a.py, line 1 in b\n\nExtension modules: c\n"


@pytest.mark.parametrize(
    "printed, shown",
    [
        ("one\ntwo\n", "two"),
        (f"one\nwhat():  no such device\n{STACKS}", "what():  no such device"),
        (STACKS, "Fatal Python error: Aborted"),
    ],
    ids=["no crash", "a reason", "no reason"],
)
def test_a_learner_that_crashed_is_described_by_the_reason(tmp_path, printed, shown):
    log = tmp_path / "learner-1.log"
    log.write_text(printed)
    crashed = RankProcess(1, SimpleNamespace(returncode=-6), log, watch=None)
    expected = f"it was ended by signal 6 (SIGABRT); the last line of {log}: {shown}"
    assert crashed.exit_description() == expected
