"""Every trainer with vectors, a memory and pictures: small settings and the actions that it learns."""

import pytest
from lanista.trainers.settings.yaml_source import under
from specs import spec_of_shapes

NETWORKS = {
    "vectors": {},
    "memory": {"memory": {"memory_size": 4, "sequence_length": 4}},
    "pictures": {"vis_encode_type": "simple", "hidden_units": [8, 12]},
}
ON_POLICY = {"batch_size": 8, "buffer_size": 20, "num_epoch": 1}
OFF_POLICY = {"batch_size": 8, "buffer_size": 100, "steps_per_update": 6.0}
TRAINERS = {
    "ppo": (ON_POLICY, (1, (3, 2))),
    "poca": (ON_POLICY, (1, (3, 2))),
    "mappo": (ON_POLICY, (1, (3, 2))),
    "coma": (ON_POLICY, (0, (3, 2))),
    "sac": ({**OFF_POLICY, "save_replay_buffer": True}, (1, (3, 2))),
    "dqn": ({**OFF_POLICY, "save_replay_buffer": True}, (0, (3, 2))),
    "ddpg": ({**OFF_POLICY, "save_replay_buffer": True}, (2, ())),
    "td3": ({**OFF_POLICY, "save_replay_buffer": True}, (2, ())),
}
"""Hyper-parameters, and the continuous and discrete actions that each learns."""
SMALL = {"hidden_units": 8, "num_layers": 1}


def behavior_of(trainer, network):
    """The specification, and the behavior's YAML without signals."""
    hyper, (continuous, branches) = TRAINERS[trainer]
    shapes = [[3], [1, 20, 20]] if network == "pictures" else [[3]]
    spec = spec_of_shapes(shapes, continuous=continuous, branches=branches)
    kind = under({**SMALL, "normalize": True}, NETWORKS[network])
    yaml = {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": kind, "time_horizon": 5}
    return spec, yaml


CELLS = [
    pytest.param(trainer, network, id=f"{trainer}-{network}")
    for trainer in TRAINERS
    for network in NETWORKS
    if network != "memory" or trainer not in ("ddpg", "td3")
]
