"""Behaviors at the edge of what engines send: without actions, and with sensors of nothing."""

import pytest
import torch
from crowd import Crowd, learn_from, make_learner
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.actions import UnsupportedActionError
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.factory import make_algorithm
from specs import spec_of_shapes

SMALL = {"hidden_units": 8, "num_layers": 1}


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo", "coma", "sac", "simba", "dqn", "ddpg", "td3"])
def test_agents_without_actions_are_refused(trainer):
    kind, hyper = ("sac", {"recipe": "simba"}) if trainer == "simba" else (trainer, {})
    behavior = {"trainer_type": kind, "hyperparameters": hyper, "network_settings": SMALL}
    settings = TrainerSettings.model_validate(behavior)
    with pytest.raises(UnsupportedActionError, match="no actions"):
        make_algorithm(spec_of_shapes([[3]]), settings, torch.device("cpu"), 0, NonFinitePolicy.STOP)


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo"])
@pytest.mark.parametrize(("shapes", "kinds"), [([[0], [3]], [0, 0]), ([[3], [0]], [0, 1])])
def test_a_sensor_of_nothing_does_no_harm(tmp_path, trainer, shapes, kinds):
    """The second is a goal, of which no weights can be made."""
    spec = spec_of_shapes(shapes, kinds, continuous=2)
    hyper = {"batch_size": 16, "buffer_size": 64}
    behavior = {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": SMALL}
    learner = make_learner(tmp_path, spec, behavior | {"time_horizon": 6})
    updates, crowd = [], Crowd(spec)
    learner.on_update = updates.append
    learn_from(learner, crowd.play(learner, 30))
    assert updates and all(number == number for number in updates[0].values())
