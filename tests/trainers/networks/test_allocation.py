"""Networks that do not fit into memory are refused with the keys of their settings."""

import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.rewards.factory import make_learned_rewards
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.rewards import RNDSettings
from lanista.trainers.trainer.factory import untrainable
from lanista.trainers.utils.errors import TrainerError
from specs import vector_spec

HUGE = vector_spec([2**40], continuous=1)


def test_a_policy_that_does_not_fit_names_its_keys():
    why = untrainable(HUGE, TrainerSettings())
    assert why is not None and why.startswith("network_settings: its networks do not fit into memory (")
    assert "hidden_units is 128 and num_layers 2" in why


def test_a_signal_that_does_not_fit_names_its_keys():
    cpu = torch.device("cpu")
    with pytest.raises(TrainerError, match=r"^reward_signals\.rnd\.network_settings: .* hidden_units is 128"):
        make_learned_rewards(HUGE, {"rnd": RNDSettings()}, cpu, 0, NonFinitePolicy.STOP, action_range=None)
