"""Demonstrations that we record are what ML-Agents loads."""

import json
from pathlib import Path

import numpy as np
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.trainers.cli.main import run

BRAIN = Path(__file__).parents[1] / "real" / "onnx" / "3DBall.onnx"
LOAD = """
import json, sys
import numpy as np
from mlagents.trainers.buffer import BufferKey, ObservationKeyPrefix
from mlagents.trainers.demo_loader import demo_to_buffer
spec, buffer = demo_to_buffer(sys.argv[1], 1)
print(json.dumps({
    "names": [each.name for each in spec.observation_specs],
    "obs": np.array(buffer[(ObservationKeyPrefix.OBSERVATION, 0)].get_batch()).tolist(),
    "actions": np.array(buffer[BufferKey.CONTINUOUS_ACTION].get_batch()).tolist(),
    "rewards": np.array(buffer[BufferKey.ENVIRONMENT_REWARDS].get_batch()).tolist(),
    "done": np.array(buffer[BufferKey.DONE].get_batch()).tolist(),
}))
"""


def test_a_recorded_file_is_loaded_number_by_number(peer, tmp_path):
    arguments = ["--env", "scene:ball3d", "--episodes", "4", "--max-decisions", "30"]
    assert run(["play", str(BRAIN), *arguments, "--record-demos", str(tmp_path)]) == 0
    demo = read_demonstration(tmp_path / "3DBall.demo")
    theirs = json.loads(peer.run("-c", LOAD, tmp_path / "3DBall.demo").splitlines()[-1])
    assert theirs["names"] == [each.name for each in demo.spec.observation_specs]
    np.testing.assert_allclose(theirs["obs"], demo.obs[0][:-1], rtol=1e-6)
    np.testing.assert_allclose(theirs["actions"], demo.continuous[:-1], rtol=1e-6)
    np.testing.assert_allclose(theirs["rewards"], demo.reward[1:], rtol=1e-6)
    np.testing.assert_array_equal(np.array(theirs["done"], bool), demo.done[1:])
