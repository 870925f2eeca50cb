"""Weights as safetensors: they act as the checkpoint did, a run begins with them, damage is told."""

import json

import numpy as np
import pytest
import torch
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint, save_checkpoint
from lanista.trainers.checkpoints.metadata import build_network, describe_network
from lanista.trainers.checkpoints.shared_weights import load_weights, save_shared
from lanista.trainers.cli.main import run
from lanista.trainers.learn import run as learn
from lanista.trainers.networks.actor import Actor
from lanista.trainers.policies.onnx.load import load
from lanista.trainers.settings.models.networks import NetworkSettings
from line_runs import Restored
from specs import vector_spec

safetensors = pytest.importorskip("safetensors", reason="the extra safetensors")
YAML = """\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64}
    network_settings: {hidden_units: 8, num_layers: 1, normalize: true}
    max_steps: 64
"""


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint of a policy with a normalizer."""
    settings = NetworkSettings(hidden_units=8, num_layers=1, normalize=True)
    network = Actor(vector_spec([3], continuous=2), settings)
    brain = describe_network("Ball", network.spec, settings, [], None)
    brain["trainer_type"] = "sac"
    state = {"Policy": network.state_dict(), "step": 12, "brain": brain, "Optimizer": {"lr": 0.1}}
    save_checkpoint(tmp_path / "Ball.pt", state)
    return tmp_path / "Ball.pt"


def test_what_is_exported_acts_as_the_checkpoint(checkpoint, tmp_path, capsys):
    assert run(["export", str(checkpoint), "--safetensors"]) == 0
    shared = tmp_path / "Ball.safetensors"
    assert f"Exported {shared} (Ball, step 12)." in capsys.readouterr().out
    observations = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    expected = load(checkpoint).act(observations, deterministic=True).continuous
    assert np.array_equal(load(shared).act(observations, deterministic=True).continuous, expected)
    assert run(["export", str(shared)]) == 0, "a model is made of it"
    assert np.allclose(load(tmp_path / "Ball.onnx").act(observations).continuous, expected, atol=1e-5)


def test_others_read_the_weights_and_what_they_are_of(checkpoint, tmp_path):
    save_shared(tmp_path / "b.safetensors", load_checkpoint(checkpoint))
    with safetensors.safe_open(tmp_path / "b.safetensors", framework="pt") as file:
        names = {
            name for name, value in load_checkpoint(checkpoint)["Policy"].items() if torch.is_tensor(value)
        }
        assert set(file.keys()) == names
        texts = file.metadata()
    assert (texts["format"], texts["behavior"], texts["trainer"], texts["step"]) == (
        "pt",
        "Ball",
        "sac",
        "12",
    )
    assert json.loads(texts["brain"])["observations"][0]["shape"] == [3]


@pytest.mark.slow
def test_a_run_begins_with_the_weights_of_another(tmp_path, capsys):
    (tmp_path / "c.yaml").write_text(YAML)
    words = [
        str(tmp_path / "c.yaml"),
        "--env",
        "scene:basic?areas=8",
        "--results-dir",
        str(tmp_path / "results"),
    ]
    with Restored():
        assert learn([*words, "--run-id", "first"]) == 0
        assert run(["export", "first", "--safetensors", "--results-dir", str(tmp_path / "results")]) == 0
        shared = tmp_path / "results" / "first" / "Basic.safetensors"
        capsys.readouterr()
        words += [
            "--initialize-from",
            str(shared),
            "--set",
            "behaviors.Basic.hyperparameters.learning_rate=1e-20",
        ]
        assert learn([*words, "--run-id", "second"]) == 0
    begun = load_checkpoint(tmp_path / "results" / "second" / "Basic" / "checkpoint.pt")["Policy"]
    given = load_weights(shared)["Policy"]
    weights = [name for name in given if name.endswith("weight")]
    assert weights
    assert all(torch.allclose(begun[name], given[name], atol=1e-6) for name in weights)


def test_what_cannot_be_read_is_told(checkpoint, tmp_path, capsys):
    shared = tmp_path / "b.safetensors"
    save_shared(shared, load_checkpoint(checkpoint))
    data = shared.read_bytes()
    for damaged in (b"", data[:100], data[:-1], b"\xff" * 64):
        shared.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
            load_weights(shared)
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        load_weights(tmp_path / "none.safetensors")
    from safetensors.torch import save_file

    save_file({"w": torch.ones(2)}, shared)
    assert run(["play", str(shared), "--env", "scene:basic"]) == 1
    assert "does not describe its network: found no metadata" in capsys.readouterr().err
    save_file({"w": torch.ones(2)}, shared, {"numbers": "[" * 200_000})
    with pytest.raises(CheckpointError, match="does not describe its network: found numbers"):
        load_weights(shared)
    with pytest.raises(CheckpointError, match="not one of Lanista's"):
        save_shared(shared, {"Policy": {}})


def test_the_network_has_every_weight(checkpoint, tmp_path):
    save_shared(tmp_path / "b.safetensors", load_checkpoint(checkpoint))
    behavior, network = build_network(load_weights(tmp_path / "b.safetensors"))
    saved = load_checkpoint(checkpoint)["Policy"]
    assert behavior == "Ball" and network.state_dict().keys() == saved.keys()
    assert all(
        torch.equal(torch.as_tensor(value), torch.as_tensor(saved[name]))
        for name, value in network.state_dict().items()
    )
