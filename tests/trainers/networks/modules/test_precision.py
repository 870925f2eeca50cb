"""`torch_settings.precision: bf16`: an update's products in bfloat16, everything else in float32."""

import numpy as np
import pytest
import torch
from console_runs import learn
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.networks.modules.passes import widened
from lanista.trainers.policies.onnx.runtime import Brain

pytestmark = pytest.mark.slow

YAML = """\
behaviors:
  Basic:
    trainer_type: {trainer}
    hyperparameters: {{batch_size: 64, buffer_size: 256, learning_rate: 1.0e-3}}
    network_settings: {{hidden_units: 32, num_layers: 1}}
    max_steps: 600
    time_horizon: 16
"""
UPDATES_SIZE = 1e-3 * 3 * 4 * 3
"""How far Adam moves a weight at most: its rate times the steps of up to three updates."""


def weights(folder, trainer, *arguments):
    folder.mkdir()
    yaml = YAML.format(trainer=trainer)
    ended = learn(folder, "--env", "scene:basic", "--deterministic", *arguments, yaml=yaml)
    assert ended.good
    (checkpoint,) = ended.files("checkpoint.pt")
    (brain,) = ended.files("Basic.onnx")
    Brain(brain)
    policy = load_checkpoint(checkpoint)["Policy"]
    return {key: value for key, value in policy.items() if value.is_floating_point() and value.numel()}


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo", "coma"])
def test_a_run_in_bf16_learns_nearly_the_same_as_in_float32(tmp_path, trainer):
    exact = weights(tmp_path / "float32", trainer)
    short = weights(tmp_path / "bf16", trainer, "--precision", "bf16")
    assert {value.dtype for value in short.values()} == {torch.float32}
    differences = [(short[key] - exact[key]).abs().max().item() for key in exact]
    assert 0.0 < max(differences) <= 2 * UPDATES_SIZE
    assert np.isfinite(differences).all()


def test_sums_are_taken_in_float32():
    """bfloat16 has no 257."""
    ones = torch.ones(257, dtype=torch.bfloat16)
    assert widened(ones).sum().item() == 257.0
    counts = torch.arange(3)
    assert widened(counts) is counts
