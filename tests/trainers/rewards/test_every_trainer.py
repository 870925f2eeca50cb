"""Every trainer with every signal and teacher, with vectors, a memory and pictures: updates and a resume."""

from __future__ import annotations

import io
import math

import pytest
import torch
from crowd import Crowd, learn_from, make_learner, write_demonstration
from referencenets import spec_of_shapes
from reliability.resume import differences, numbers

NETWORKS = {
    "vectors": {},
    "memory": {"memory": {"memory_size": 4, "sequence_length": 4}},
    "pictures": {"vis_encode_type": "simple"},
}
ON_POLICY = {"batch_size": 8, "buffer_size": 20, "num_epoch": 1}
OFF_POLICY = {"batch_size": 8, "buffer_size": 100, "steps_per_update": 6.0}
TRAINERS = {
    "ppo": (ON_POLICY, (1, (3, 2))),
    "poca": (ON_POLICY, (1, (3, 2))),
    "coma": (ON_POLICY, (0, (3, 2))),
    "sac": ({**OFF_POLICY, "save_replay_buffer": True}, (1, (3, 2))),
    "dqn": ({**OFF_POLICY, "save_replay_buffer": True}, (0, (3, 2))),
    "ddpg": ({**OFF_POLICY, "save_replay_buffer": True}, (2, ())),
    "td3": ({**OFF_POLICY, "save_replay_buffer": True}, (2, ())),
}
"""Hyper-parameters, and the continuous and discrete actions that each learns."""
SIGNALS = {
    "rnd": ({}, {"Losses/RND Loss"}),
    "curiosity": ({}, {"Losses/Curiosity Forward Loss", "Losses/Curiosity Inverse Loss"}),
    "gail": (
        {"use_actions": True, "use_vail": True},
        {"Losses/GAIL Loss", "Losses/GAIL KL Loss", "Policy/GAIL Beta", "Policy/GAIL Expert Estimate"},
    ),
}
SMALL = {"hidden_units": 8, "num_layers": 1}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Networks of a few units: more threads would wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def behavior_of(trainer, network, folder):
    """The specification, and the behaviour's YAML without signals."""
    hyper, (continuous, branches) = TRAINERS[trainer]
    shapes = [[3], [1, 20, 20]] if network == "pictures" else [[3]]
    spec = spec_of_shapes(shapes, continuous=continuous, branches=branches)
    kind = {**SMALL, "normalize": True, **NETWORKS[network]}
    yaml = {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": kind, "time_horizon": 5}
    return spec, yaml


def told(learner):
    """Statistics since the last summary, each as a list."""
    chunks = learner.reporter._chunks
    return {key: [float(x) for x in values if not hasattr(x, "shape")] for key, values in chunks.items()}


def go_on_after_a_resume(tmp_path, spec, behavior):
    """Two updates, a resume, and another one: of both the run that stopped and the one that did not."""
    one = make_learner(tmp_path / "one", spec, behavior)
    crowd = Crowd(spec)
    for _ in range(2):
        learn_from(one, crowd.play(one, 7))
    file = io.BytesIO()
    torch.save(one.trainer.state_dict(), file)
    (tmp_path / "beside").mkdir()
    one.trainer.save_beside(tmp_path / "beside")
    before = told(one)
    other = make_learner(tmp_path / "other", spec, behavior)
    other.trainer.load_state_dict(torch.load(io.BytesIO(file.getvalue()), weights_only=True))
    other.trainer.load_beside(tmp_path / "beside")
    collected = crowd.play(one, 7)
    for learner in (one, other):
        learn_from(learner, collected)
    ends = [learner.trainer.state_dict() for learner in (one, other)]
    assert numbers(ends[0]) > 100
    assert not [text for text in differences(*ends) if not text.startswith(ROWS)]
    return one, before


ROWS = (".buffer.numbers", ".buffer.mates", ".buffer.other_numbers")
"""Numbers by which the rows of a process are told apart."""


CELLS = [
    pytest.param(trainer, network, id=f"{trainer}-{network}")
    for trainer in TRAINERS
    for network in NETWORKS
    if network != "memory" or trainer not in ("ddpg", "td3")
]


@pytest.mark.parametrize("trainer, network", CELLS)
@pytest.mark.parametrize("signal", SIGNALS)
def test_signals(tmp_path, trainer, network, signal):
    spec, behavior = behavior_of(trainer, network, tmp_path)
    own, figures = SIGNALS[signal]
    if signal == "gail":
        own = {**own, "demo_path": str(write_demonstration(tmp_path / "expert.demo", spec, [6, 5, 7]))}
    own = {**own, "strength": 0.1, "gamma": 0.9, "network_settings": {**SMALL, "normalize": True}}
    behavior["reward_signals"] = {"extrinsic": {}, signal: own}
    learner, before = go_on_after_a_resume(tmp_path, spec, behavior)
    for key in figures:
        assert before[key] and all(map(math.isfinite, before[key])), key
    assert f"Policy/{signal.capitalize()} Reward" in before
    values = "Value" if trainer in ("sac", "dqn", "ddpg", "td3") else "Value Estimate"
    assert f"Policy/{signal.capitalize()} {values}" in learner.reporter._chunks
    assert learner.trainer.learned[signal].optimizer.adam.steps > 2
