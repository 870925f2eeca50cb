"""Runs of ML-Agents are recognized before torch is loaded."""

import shutil
import subprocess
import sys

import pytest
import torch
from lanista.trainers.checkpoints.transfer import check_initial_weights, is_mlagents_file
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.utils.errors import TrainerError
from mlagentscheckpoints import FOLDER, NAMES


@pytest.mark.parametrize("name", NAMES)
def test_files_of_mlagents(name):
    assert is_mlagents_file(FOLDER / name / "checkpoint.pt")


def test_other_files(tmp_path):
    for path, data in (("cut.pt", b"PK\3\4 and no more"), ("text.pt", b"_GlobalSteps__global_step")):
        (tmp_path / path).write_bytes(data)
        assert not is_mlagents_file(tmp_path / path)
    torch.save({"Policy": {}, "step": 3}, tmp_path / "ours.pt")
    assert not is_mlagents_file(tmp_path / "ours.pt")
    assert not is_mlagents_file(tmp_path / "absent.pt")


def test_resuming_an_ml_agents_run_is_refused_with_advice(tmp_path):
    behavior = tmp_path / "old" / "3DBall"
    behavior.mkdir(parents=True)
    settings = {"run_id": "old", "resume": True, "results_dir": str(tmp_path)}
    options = RunOptions.from_dict({"checkpoint_settings": settings})
    check_initial_weights(options)
    shutil.copy(FOLDER / "ball3d" / "checkpoint.pt", behavior)
    with pytest.raises(TrainerError, match="--run-id NEW --initialize-from old"):
        check_initial_weights(options)


def test_no_torch_is_needed():
    code = "import sys, lanista.trainers.checkpoints.transfer; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
