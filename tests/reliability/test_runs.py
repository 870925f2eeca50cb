"""The scripts of this folder that are about whole runs and about bytes, with small numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills and freezes processes by signals")

HERE = Path(__file__).parent

COMMANDS = [
    ["resume.py", "--runs", "1", "--trainers", "ppo"],
    ["resume.py", "--runs", "1", "--trainers", "sac-saved", "--scenes", "ball3d"],
    ["kills.py", "--kills", "4"],
    ["training.py", "--envs", "3", "--steps", "20000"],
    ["bytes.py", "--messages", "10000"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_the_promise_holds(command):
    result = subprocess.run(
        [sys.executable, str(HERE / command[0]), *command[1:]], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
