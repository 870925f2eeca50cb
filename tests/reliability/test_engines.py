"""The script of this folder that is about engines, with small numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="kills and freezes processes by signals")


def test_others_lose_nothing_when_an_engine_dies_or_freezes():
    script = Path(__file__).parent / "engines.py"
    small = ["--envs", "2", "--kills", "2", "--freezes", "1", "--timeout", "3"]
    result = subprocess.run(
        [sys.executable, str(script), *small], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
