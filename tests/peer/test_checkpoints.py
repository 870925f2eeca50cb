"""Checkpoints that ML-Agents writes here and now become ours, and judge as its own networks do."""

import numpy as np
import pytest
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.policies.onnx.export import export_brain
from lanista.trainers.policies.onnx.runtime import Brain
from mlagents_envs.base_env import DecisionSteps
from mlagentscheckpoints import case_of, make
from mlagentsjudgements import algorithm_of, assert_judges_alike

ANEW = ["ball3d", "ball3d-memory", "basic-shared", "coop-push", "hybrid-team-memory"]


@pytest.mark.parametrize("name", ANEW)
def test_new_checkpoints_of_ml_agents_act_and_value_alike(peer, name, tmp_path):
    make(peer.python, name, tmp_path)
    case = case_of(name)
    algorithm = algorithm_of(case)
    assert algorithm.initialize_from(load_checkpoint(tmp_path / "checkpoint.pt")) == []
    assert_judges_alike(algorithm, case, tmp_path / "said.npz")
    if name == "ball3d":
        assert_brains_act_alike(algorithm.network, tmp_path / "run" / "real" / "3DBall.onnx", tmp_path)


def assert_brains_act_alike(network, theirs, folder):
    """The ONNX file that ML-Agents exported with the checkpoint, and the one that we make of its weights."""
    export_brain(network, folder / "ours.onnx", behavior="3DBall", step=0)
    obs = np.random.default_rng(0).normal(0, 2, (50, 8)).astype(np.float32)
    none = np.zeros(50, np.float32)
    ids = np.arange(50, dtype=np.int32)
    steps = DecisionSteps([obs], none, ids, None, ids, none)
    expected, found = (Brain(path).act(steps, True).continuous for path in (theirs, folder / "ours.onnx"))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(expected).max() > 0
