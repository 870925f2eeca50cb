"""What goes wrong at the start of a run is told in one line, before torch is loaded, and leaves nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lets root obey permissions as Linux can")


def test_every_fault_is_told_well():
    script = Path(__file__).parent / "start_up.py"
    result = subprocess.run(
        [sys.executable, str(script), "--fork"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
