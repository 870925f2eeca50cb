"""The scripts of this folder that are about files, with small numbers."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="needs a POSIX system")

HERE = Path(__file__).parent


COMMANDS = [["saves.py", "--kills", "8"], ["disk_full.py", "--rounds", "10"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_the_promise_holds(command):
    result = subprocess.run(
        [sys.executable, str(HERE / command[0]), *command[1:]], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
