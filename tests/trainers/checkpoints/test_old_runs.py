"""Each run that an earlier release left is resumed: no key of its files is lost."""

import json
import shutil
from pathlib import Path

import lanista
import pytest
import torch

pytestmark = pytest.mark.slow

RUNS = Path(__file__).parents[2] / "old_runs"
NAMES = sorted(path.name for path in RUNS.iterdir() if path.is_dir())


def tensors(value, place=""):
    """Every tensor of a checkpoint, by its path in the tree."""
    if isinstance(value, torch.Tensor):
        return {place: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {key: tensor for name, item in items for key, tensor in tensors(item, f"{place}.{name}").items()}


def load(run):
    (path,) = run.glob("*/checkpoint.pt")
    return tensors(torch.load(path, weights_only=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_an_earlier_release_is_resumed(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "results" / name
    shutil.copytree(RUNS / name, run)
    status = json.loads((run / "run_logs" / "training_status.json").read_text())
    (behavior,) = (key for key, entry in status.items() if "final_checkpoint" in entry)
    steps = status[behavior]["final_checkpoint"]["steps"]
    before = load(run)

    # All its steps are done: it is loaded, and saved as it is.
    lanista.train(run / "configuration.yaml", run_id=name, resume=True)
    after = load(run)
    assert before.keys() <= after.keys()
    changed = [key for key, tensor in before.items() if not torch.equal(tensor, after[key])]
    assert [key for key in changed if before[key].dtype != torch.uint8] == []  # those are random states

    more = {f"behaviors.{behavior}.max_steps": steps + 200}
    result = lanista.train(run / "configuration.yaml", run_id=name, resume=True, overrides=more)
    assert result.steps[behavior] > steps + 200
    assert set(result.brains) == {behavior}
    moved = load(run)
    assert any(not torch.equal(tensor, moved[key]) for key, tensor in before.items() if "weight" in key)
