"""COMA where agents see a grid that comes as PNG: from the wire to the brain."""

import numpy as np
import pytest
import torch
from console_runs import learn, weights_are_finite
from lanista.envs.unity import UnityEnvironment
from lanista.trainers.cli.main import run

pytestmark = pytest.mark.slow

SCENE = "scene:coop-push?areas=2"
YAML = """\
behaviors:
  PushBlockCollab:
    trainer_type: coma
    hyperparameters: {batch_size: 48, buffer_size: 96, num_epoch: 1, max_num_agents: 3}
    network_settings: {hidden_units: 16, num_layers: 1, vis_encode_type: simple}
    checkpoint_interval: 150
    max_steps: 290
    time_horizon: 16
    summary_freq: 100
"""


def test_coop_push_at_full_size_is_trained_and_played(tmp_path, capsys):
    ended = learn(tmp_path, "--env", SCENE, yaml=YAML)
    assert ended.good
    files = ended.files("checkpoint.pt")
    assert weights_are_finite(files)
    waiting = torch.load(files[0], weights_only=True)["buffer"]["obs"]
    assert [column.dtype for column in waiting] == [torch.uint8, torch.float32]
    (brain,) = (path for path in ended.files("PushBlockCollab.onnx") if path.parent.name == "r")
    assert run(["play", str(brain), "--env", f"{SCENE}&max-steps=100", "--episodes", "2"]) == 0
    assert "PushBlockCollab" in capsys.readouterr().out


def test_its_grid_has_ones_and_zeros_if_floats_are_requested():
    env = UnityEnvironment(SCENE)
    try:
        env.reset()
        grid = env.get_steps("PushBlockCollab?team=0")[0].obs[0]
    finally:
        env.close()
    assert grid.shape == (6, 6, 20, 20) and grid.dtype == np.float32
    assert set(np.unique(grid)) == {0.0, 1.0}
