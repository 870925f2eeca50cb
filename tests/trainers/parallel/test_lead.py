"""How many learners a run gets, and with how many threads."""

import pytest
import torch
from lanista.envs.base import processors
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer.distributed.leader import learner_team, shared_threads
from lanista.trainers.utils.errors import TrainerError


def options(learners, **sections):
    return RunOptions.from_dict(
        {"torch_settings": {"learners": learners}, "behaviors": {"B": {}}, **sections}
    )


@pytest.mark.parametrize("there", [0, 1, 3])
def test_more_learners_than_gpus_are_refused(monkeypatch, tmp_path, there):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: there)
    message = rf"torch_settings\.learners \(--learners\): found 4, and this machine has {there} GPUs"
    with pytest.raises(TrainerError, match=message):
        learner_team(options(4), torch.device("cuda"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_run_that_learns_alone_or_not_at_all_starts_none(tmp_path):
    inference = {"checkpoint_settings": {"inference": True}}
    assert learner_team(options(1), torch.device("cpu"), tmp_path) is None
    assert learner_team(options(4, **inference), torch.device("cpu"), tmp_path) is None


def test_processors_are_divided_and_sums_always_rounded_alike():
    for learners in (2, 3, 64):
        threads = shared_threads(options(learners))
        assert threads.fixed and 1 <= threads.most <= max(1, processors() // learners)
    assert shared_threads(options(2, torch_settings={"learners": 2, "num_threads": 3})).most == 3
