"""A pipe or a device where a command expects a file is refused: it would be waited for, or read for ever."""

import os
import subprocess
import sys

import pytest

PATIENCE = 120
"""Seconds; what hangs would do so for ever."""


@pytest.mark.slow
@pytest.mark.posix("named pipes")
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "words",
    [
        ["check", "x.yaml"],
        ["upgrade", "x.yaml", "new.yaml"],
        ["learn", "x.yaml"],
        ["clone", "x.demo"],
        ["demo", "show", "x.demo"],
        ["demo", "convert", "x.jsonl", "-o", "new"],
        ["export", "x.pt"],
        ["envs", "list", "--manifest", "x.yaml"],
    ],
    ids=" ".join,
)
def test_it_is_refused(tmp_path, words, kind):
    file = next(word for word in words if word.startswith("x."))
    if kind == "pipe":
        os.mkfifo(tmp_path / file)
    else:
        (tmp_path / file).symlink_to("/dev/zero")
    command = [sys.executable, "-m", "lanista.trainers.cli.main", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert "a pipe or a device, not a file" in done.stdout + done.stderr
