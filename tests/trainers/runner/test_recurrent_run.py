"""A run with a memory, from the YAML to the brain that is played."""

import re

import numpy as np
import pytest
import torch
from console_runs import learn, weights_are_finite
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.metadata import build_network
from lanista.trainers.cli.main import run
from lanista.trainers.policies.onnx.runtime import Brain
from mlagents_envs.base_env import DecisionSteps

pytestmark = pytest.mark.slow

YAML = """\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64}
    network_settings:
      hidden_units: 16
      num_layers: 1
      memory: {memory_type: %s, memory_size: 8, sequence_length: 8}
    max_steps: 200
    time_horizon: 12
    summary_freq: 100
    threaded: %s
"""


@pytest.mark.parametrize("kind, threaded", [("lstm", "false"), ("gru", "true")])
def test_a_recurrent_policy_is_trained_resumed_and_played(tmp_path, capsys, kind, threaded):
    yaml = YAML % (kind, threaded)
    assert learn(tmp_path, "--env", "scene:basic", yaml=yaml).good
    ended = learn(tmp_path, "--env", "scene:basic", "--resume", yaml=yaml.replace("200", "2000"))
    assert re.search(r"resuming training from step [1-9]\d\d", ended.out)
    assert weights_are_finite(ended.files("checkpoint.pt"))
    (path,) = (p for p in ended.files("Basic.onnx") if p.parent.name == "r")
    _, network = build_network(load_checkpoint(*ended.files("checkpoint.pt")))
    plays_as(Brain(path), network)
    assert run(["play", str(path), "--env", "scene:basic", "--episodes", "2"]) == 0
    assert "Basic" in capsys.readouterr().out


def plays_as(brain, network):
    """The file keeps the recurrent state of each agent that joins, stays or leaves as the network does."""
    assert brain.memory_size == network.memory_size == 8
    states, random = {}, np.random.default_rng(0)
    size = network.spec.observation_specs[0].shape[0]
    for ids, ended in [([1, 2], []), ([2, 3], [1]), ([1, 2, 3], [2]), ([2, 1], [])]:
        zeros = np.zeros(len(ids), np.float32)
        obs = random.normal(size=(len(ids), size)).astype(np.float32)
        ids_ = np.array(ids, np.int32)
        steps = DecisionSteps([obs], zeros, ids_, None, ids_, zeros)
        found = brain.act(steps, deterministic=True)
        before = torch.stack([states.get(i, torch.zeros(8)) for i in ids])
        with torch.no_grad():
            distribution, after = network.act_with_memory(network.prepare([torch.from_numpy(obs)]), before)
        np.testing.assert_array_equal(found.discrete, distribution.deterministic().discrete)
        np.testing.assert_allclose(brain._memories.read([(0, "")], [steps]), after, rtol=1e-4, atol=1e-5)
        states.update(zip(ids, after))
        brain.reset_agents(np.array(ended, np.int32))
        for agent in ended:
            states.pop(agent, None)
