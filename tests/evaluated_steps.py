"""On-policy algorithms of small networks, and steps that they have evaluated."""

from dataclasses import replace

import numpy as np
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.settings.models.behavior import TrainerSettings
from rollouts import random_rollout
from specs import spec_of_shapes

MIXED = spec_of_shapes([[3]], continuous=2, branches=[3])
LSTM = {"memory_size": 8, "sequence_length": 8}
LENGTHS = [7, 24, 1, 40]


def made(kind, memory=None, **hyper):
    """An algorithm of this class, for continuous actions beside a branch; `hyper` are its hyperparameters."""
    network = {"hidden_units": 8, "num_layers": 1} | ({} if memory is None else {"memory": memory})
    keys = {"trainer_type": kind.name.lower(), "network_settings": network, "hyperparameters": hyper}
    settings = TrainerSettings.model_validate(keys)
    return kind(MIXED, settings, torch.device("cpu"), 0, NonFinitePolicy.STOP)


def steps_of(algorithm):
    """Evaluated steps, with the log-probabilities that the policy now has."""
    rollout = random_rollout(LENGTHS, 1, MIXED, memory_size=8 if algorithm.is_recurrent else 0)
    rewards = {"extrinsic": np.sin(np.arange(72)).astype(np.float32)}
    steps = algorithm.evaluate(rollout, rewards, {"extrinsic": False}).steps
    return replace(steps, log_probs=algorithm.as_of_newest_policy(steps).log_probs)
