"""The settings of one of several ranks, and the state that each has for itself."""

import pytest
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.distributed import rank_seed, rank_settings, rank_state, with_rank_state
from lanista.trainers.utils import distributed

SETTINGS = {
    "trainer_type": "sac",
    "hyperparameters": {"batch_size": 31, "buffer_size": 1000, "buffer_init_steps": 100},
    "behavioral_cloning": {"demo_path": "expert.demo"},
    "max_steps": 500,
    "threaded": True,
}


@pytest.mark.parametrize("ranks", [1, 3])
def test_buffers_and_minibatches_are_divided_and_steps_are_not(monkeypatch, ranks):
    monkeypatch.setattr(distributed._world, "size", ranks)
    own = rank_settings(TrainerSettings.model_validate(SETTINGS))
    hyper = own.hyperparameters
    assert (hyper.batch_size, hyper.buffer_size) == (31 // ranks, 1000 // ranks)
    assert (own.max_steps, own.threaded, hyper.buffer_init_steps) == (500, ranks == 1, 100)
    assert own.behavioral_cloning.batch_size == (None if ranks == 1 else 31), "it divides by itself"


def test_every_rank_samples_for_itself(monkeypatch):
    assert rank_seed(7) == 7
    monkeypatch.setattr(distributed._world, "rank", 1)
    assert rank_seed(7) != 7 and 0 <= rank_seed(2**31 - 1) < 2**31


def test_a_rank_takes_over_all_but_its_own_state():
    def state(value):
        signal = {"random": value, "beta": value}
        return {"Policy": {"weight": value}, "noise": value, "buffer": {"obs": value}, "signal:gail": signal}

    own = rank_state(state("own"), {"noise"})
    assert own == {"noise": "own", "buffer": {"obs": "own"}, "signal:gail": {"random": "own"}}
    assert with_rank_state(state("rank 0's"), own) == {
        "Policy": {"weight": "rank 0's"},
        "noise": "own",
        "buffer": {"obs": "own"},
        "signal:gail": {"random": "own", "beta": "rank 0's"},
    }
