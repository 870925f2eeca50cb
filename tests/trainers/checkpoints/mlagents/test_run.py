"""A run begins with what a run of ML-Agents left."""

import logging
import shutil

import pytest
from lanista.trainers.checkpoints.status import TrainingStatus
from lanista.trainers.stats.display import make_display
from lanista.trainers.trainer.context import RunContext
from lanista.trainers.trainer.learner import Learner
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
    context = RunContext(
        folder=folder,
        seed=1,
        status=TrainingStatus(folder / "status.json"),
        writers=[],
        display=make_display("test", plain=True),
        initialize_from=initialize_from,
    )
    spec = vector_spec(case["observations"], case["continuous"], case["branches"])
    return Learner("3DBall", spec, settings_of(case, **changes), context)


@pytest.mark.parametrize("by_path", [False, True])
def test_it_judges_as_mlagents_did_and_begins_at_step_0(theirs, tmp_path, by_path, caplog):
    path = str(theirs / "3DBall" / "checkpoint.pt")
    with caplog.at_level(logging.INFO):
        one = learner(tmp_path, None if by_path else theirs, **({"init_path": path} if by_path else {}))
    assert one.trainer.step == 0
    assert_judges_alike(one.algorithm, case_of(NAME), FOLDER / NAME / "said.npz")
    assert "starting training from step 0 with the weights of" in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_what_begins_anew_is_warned_of(theirs, tmp_path, caplog):
    learner(tmp_path, theirs, trainer_type="poca")
    assert "critic (in the file it is that of trainer_type ppo, here of poca)" in caplog.text


def test_a_misfit_names_run_and_file(theirs, tmp_path):
    with pytest.raises(
        CheckpointError, match=r"3DBall: could not initialize from .*checkpoint\.pt: it is ML-Ag"
    ):
        learner(tmp_path, theirs, network_settings={"hidden_units": 16})
