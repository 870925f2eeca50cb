"""COMA reads the global state of an environment that has one, and its agents act without."""

import json
import subprocess
import sys

import numpy as np
import pytest
from console_runs import learn
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.policies.onnx.runtime import Brain

pytestmark = pytest.mark.slow

pytest.importorskip("mpe2")

SPREAD = "pettingzoo:mpe2.simple_spread_v3"
STATE_SIZE = 3 * 18
YAML = """\
behaviors:
  agent:
    trainer_type: coma
    hyperparameters: {batch_size: 32, buffer_size: 128, max_num_agents: 3}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 400
    time_horizon: 25
"""


def test_a_run_with_a_pettingzoo_state_exports_a_brain_that_plays(tmp_path):
    ended = learn(tmp_path, "--env", SPREAD, yaml=YAML)
    assert ended.good, ended.err
    results = ended.folder / "results" / "r"
    weights = load_checkpoint(results / "agent" / "checkpoint.pt")["Policy"]
    first = next(value for key, value in weights.items() if key.endswith("layers.0.weight"))
    assert first.shape[-2] == 18 + STATE_SIZE
    assert not first[..., 18:, :].any(), "the actors see the state"
    assert first[..., :18, :].all()
    brain = results / "agent.onnx"
    assert Brain(brain).observations == {0: (18,), 1: (STATE_SIZE,)}
    play = "import sys; from lanista.trainers.cli.main import main; main()"
    command = [sys.executable, "-c", play, "play", brain, "--env", SPREAD, "--episodes", "3", "--json"]
    played = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    assert np.isfinite(json.loads(played.stdout)["behaviors"]["agent?team=0"]["mean_reward"])
