"""The script of this folder that is about engines that come and go, with small numbers."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("through", [[], ["--relay"]])
def test_nothing_stays_of_engines_that_come_and_go(through):
    if through:
        pytest.importorskip("cryptography")
    script = Path(__file__).parent / "attach.py"
    small = ["--times", "4", *through]
    result = subprocess.run(
        [sys.executable, str(script), *small], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
