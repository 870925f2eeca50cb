"""A run starts from the checkpoint of an ML-Agents run."""

import logging
import shutil

import pytest
from crowd import make_learner
from lanista.trainers.utils.errors import CheckpointError
from mlagentscheckpoints import FOLDER, case_of
from mlagentsjudgements import assert_judges_alike, settings_of
from referencenets import vector_spec

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


def test_a_mismatch_names_behavior_and_file(theirs, tmp_path):
    with pytest.raises(
        CheckpointError, match=r"3DBall: could not initialize from .*checkpoint\.pt: it is ML-Ag"
    ):
        learner(tmp_path, theirs, network_settings={"hidden_units": 16})
