"""Checkpoints of ML-Agents runs are recognized, and runs start from them."""

import logging
import os
import shutil
import subprocess
import sys

import pytest
import torch
from crowd import make_learner
from lanista.trainers.checkpoints.transfer import check_initial_weights, is_mlagents_file
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.utils.errors import CheckpointError, TrainerError
from mlagentscheckpoints import FOLDER, NAMES, case_of
from mlagentsjudgements import assert_judges_alike, settings_of
from specs import vector_spec

NAME = "ball3d"


@pytest.fixture
def theirs(tmp_path):
    """The folder of a run of ML-Agents."""
    folder = tmp_path / "results" / "old"
    (folder / "3DBall").mkdir(parents=True)
    shutil.copy(FOLDER / NAME / "checkpoint.pt", folder / "3DBall")
    return folder


def learner(folder, initialize_from, **changes):
    case = case_of(NAME)
    spec = vector_spec(case["observations"], case["continuous"], case["branches"])
    return make_learner(folder, spec, settings_of(case, **changes), "3DBall", initialize_from=initialize_from)


@pytest.mark.parametrize("by_path", [False, True])
def test_it_acts_and_values_as_ml_agents_did_and_starts_at_step_0(theirs, tmp_path, by_path, caplog):
    path = str(theirs / "3DBall" / "checkpoint.pt")
    with caplog.at_level(logging.INFO):
        one = learner(tmp_path, None if by_path else theirs, **({"init_path": path} if by_path else {}))
    assert one.trainer.step == 0
    assert_judges_alike(one.algorithm, case_of(NAME), FOLDER / NAME / "said.npz")
    assert "starting training from step 0 with the weights of" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_parts_that_start_from_scratch_are_warned_of(theirs, tmp_path, caplog):
    learner(tmp_path, theirs, trainer_type="poca")
    assert "critic (in the file it is that of trainer_type ppo, here of poca)" in caplog.text


def test_other_functions_than_ml_agents_has_are_warned_of(theirs, tmp_path, caplog):
    learner(tmp_path, theirs, network_settings={**case_of(NAME)["network_settings"], "activation": "relu"})
    (told,) = (one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING)
    assert "mean something else with these: network_settings.activation was 'swish', is 'relu'." in told


def test_a_mismatch_names_behavior_and_file(theirs, tmp_path):
    with pytest.raises(
        CheckpointError, match=r"3DBall: could not initialize from .*checkpoint\.pt: it is ML-Ag"
    ):
        learner(tmp_path, theirs, network_settings={"hidden_units": 16})


# Recognition, before torch is loaded ------------------------------------------------------------------


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


@pytest.mark.posix("named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.pt")
    assert not is_mlagents_file(tmp_path / "pipe.pt")


def test_resuming_an_ml_agents_run_is_refused_with_advice(tmp_path):
    behavior = tmp_path / "old" / "3DBall"
    behavior.mkdir(parents=True)
    settings = {"run_id": "old", "resume": True, "results_dir": str(tmp_path)}
    options = RunOptions.from_dict({"checkpoint_settings": settings})
    check_initial_weights(options)
    shutil.copy(FOLDER / "ball3d" / "checkpoint.pt", behavior)
    with pytest.raises(TrainerError, match="--run-id NEW --initialize-from old"):
        check_initial_weights(options)


@pytest.mark.slow
def test_no_torch_is_needed():
    code = "import sys, lanista.trainers.checkpoints.transfer; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
