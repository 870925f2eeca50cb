"""`mlagents-learn` trains our scene through the wire, and reads what our runs write."""

import json
import re

import pytest
import yaml
from lanista.envs.scenes.registry import export

STEPS = 4000


@pytest.fixture
def config(tmp_path):
    """A few updates' worth of 3DBall."""
    path = tmp_path / "ball.yaml"
    settings = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 64, "buffer_size": 1000, "num_epoch": 3},
        "network_settings": {"normalize": True, "hidden_units": 32, "num_layers": 2},
        "max_steps": STEPS,
        "time_horizon": 100,
        "summary_freq": 1000,
    }
    path.write_text(yaml.safe_dump({"behaviors": {"3DBall": settings}}))
    return path


def test_mlagents_learn_trains_the_exported_scene(peer, config, port, tmp_path):
    executable = export("ball3d", tmp_path / "ball3d")
    results = tmp_path / "results"
    output = peer.run(
        "run_peer.py",
        config,
        f"--env={executable}",
        f"--base-port={port}",
        "--run-id=peer",
        f"--results-dir={results}",
    )
    summaries = [int(step) for step in re.findall(r"Step: (\d+)\. Time Elapsed", output)]
    assert summaries == [1000, 2000, 3000, 4000], output
    assert "Mean Reward" in output, "no episode reached the trainer"
    assert (results / "peer" / "3DBall.onnx").stat().st_size > 0
    status = json.loads((results / "peer" / "run_logs" / "training_status.json").read_text())
    assert status["3DBall"]["final_checkpoint"]["steps"] >= STEPS


def test_our_configuration_file_starts_an_mlagents_run(peer, config, lanista_learn):
    ours = lanista_learn(config, "--env", "scene:ball3d")
    read = """
import json, sys, yaml
from mlagents.plugins.trainer_type import register_trainer_plugins
from mlagents.trainers.settings import RunOptions
register_trainer_plugins()
options = RunOptions.from_dict(yaml.safe_load(open(sys.argv[1])))
ball = options.behaviors["3DBall"]
found = [ball.max_steps, ball.hyperparameters.buffer_size, ball.network_settings.hidden_units]
print("READ", json.dumps(found))
"""
    output = peer.run("-c", read, ours / "configuration.yaml")
    assert f"READ {json.dumps([STEPS, 1000, 32])}" in output
