"""The trainers that a further learner makes, by what the first one says of its own."""

from types import SimpleNamespace

import pytest
import torch
from lanista.envs.validation import NonFinite
from lanista.trainers.algorithms.common.threads import UpdateThreads
from lanista.trainers.buffers.replay import memory_limit as memory
from lanista.trainers.buffers.replay.sampler import ReplayBatch
from lanista.trainers.networks.modules.precision import Precision
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer.distributed.leader import described
from lanista.trainers.trainer.distributed.worker import NoFiles, Unheard, made_trainer
from lanista.trainers.trainer.factory import make_algorithm, make_trainer
from lanista.trainers.utils.errors import TrainerError
from referencenets import spec_of_shapes

SPEC = spec_of_shapes([[2]], continuous=1)
CPU = torch.device("cpu")


def repeated(**settings):
    options = RunOptions.from_dict({"behaviors": {"B": {"trainer_type": "sac", **settings}}})
    told = described(options.behaviors["B"], "B", SPEC, 0, NonFinite.STOP, Precision.FLOAT32)
    return options.behaviors["B"], made_trainer(told, CPU, UpdateThreads(3, fixed=True))


def test_room_for_a_replay_is_asked_of_the_learner_alone_that_keeps_one(monkeypatch):
    monkeypatch.setattr(memory, "_limits", lambda: iter([(1000, "the machine")]))
    settings, follower = repeated()
    assert follower.replay is None
    algorithm = make_algorithm(SPEC, settings, CPU, 0, NonFinite.STOP, Precision.FLOAT32)
    with pytest.raises(TrainerError, match="the machine leaves 1 kB"):
        make_trainer("B", SPEC, settings, algorithm, Unheard(), NoFiles(), device=CPU)


@pytest.mark.parametrize(("threaded", "most"), [(True, 1), (False, 3)])
def test_a_thread_that_computes_beside_acting_has_one_processor_in_every_learner(threaded, most):
    network = {"hidden_units": 1024, "num_layers": 3}  # else one thread is best by itself
    _, follower = repeated(threaded=threaded, network_settings=network, hyperparameters={"batch_size": 1024})
    assert follower.update_threads.most == most


def test_a_repeated_gradient_step_has_the_threads_of_the_first_learners(monkeypatch):
    """Else the others would wait for it, and sums would be rounded otherwise."""
    _, follower = repeated()
    threads = []
    monkeypatch.setattr(follower, "_learn_from", lambda batch: threads.append(torch.get_num_threads()))
    follower.shared = SimpleNamespace(heard=lambda told: object.__new__(ReplayBatch))
    follower.repeat({"step": 1})
    assert threads == [3]
