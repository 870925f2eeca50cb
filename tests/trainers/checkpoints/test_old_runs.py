"""Each run that an earlier release left is resumed: no key of its files is lost."""

import json
import re
import shutil
from pathlib import Path

import lanista
import pytest
import torch
from lanista.trainers.utils.errors import CheckpointError

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


REFUSED = r"cannot be resumed: {} was "
CHANGED = [
    ("sac", "hyperparameters.init_entcoef", 0.1, r"{} was .*: it has no effect, since"),
    ("sac", "network_settings.hidden_units", 9, REFUSED),
    ("dqn", "hyperparameters.dueling", True, REFUSED),
    ("coma", "hyperparameters.max_num_agents", 9, REFUSED),
    ("ppo", "hyperparameters.shared_critic", True, REFUSED),
]


@pytest.mark.parametrize("name, key, value, says", CHANGED)
def test_changed_settings_are_found_by_configuration_yaml(
    monkeypatch, tmp_path, capsys, name, key, value, says
):
    """Its checkpoints record the network alone."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "results" / name
    shutil.copytree(RUNS / name, run)
    (behavior,) = (path.parent.name for path in run.glob("*/checkpoint.pt"))
    changed = {f"behaviors.{behavior}.{key}": value}
    try:
        lanista.train(run / "configuration.yaml", run_id=name, resume=True, overrides=changed)
        said = "".join(capsys.readouterr())
    except CheckpointError as error:
        said = str(error)
    assert re.search(says.format(re.escape(key)), said)
