"""docs/sweeps.md: its example is a valid sweep, and its table has every key."""

import re
from pathlib import Path

import pytest
from lanista.trainers.tools.sweep.command import Sweep
from lanista.trainers.tools.sweep.settings import PrunerSettings, SweepSettings, read_sweep

PAGE = (Path(__file__).parents[4] / "docs" / "sweeps.md").read_text(encoding="utf-8")


def test_the_example_can_be_run(tmp_path):
    pytest.importorskip("optuna")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "basic.yaml").write_text(example)
    sweep = Sweep.checked(read_sweep(str(tmp_path / "basic.yaml")), tmp_path / "nowhere")
    assert [one.whole for one in sweep.space] == [False, True, True]


def test_every_key_is_in_the_table():
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(SweepSettings.model_fields)
    assert all(f"`{key}`" in PAGE for key in PrunerSettings.model_fields)
