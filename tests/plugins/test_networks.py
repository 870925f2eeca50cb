"""Networks of users in runs: from a module in the folder, and by the name that a package gives them."""

import importlib
import re
import sys

import numpy as np
import pytest
import torch
from console_runs import learn, weights_are_finite
from installed_plugins import install
from lanista.trainers.cli.main import run
from lanista.trainers.networks.actor import Actor
from lanista.trainers.policies.onnx.load import load
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.utils.errors import TrainerError
from specs import spec_of_shapes

pytestmark = pytest.mark.slow

MODULE = """
import torch
from torch import nn
from lanista.trainers.policies.onnx import graph as nodes


class Place(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.size = 6
        self.layer = nn.Linear(int(spec.shape[0]), self.size)

    def forward(self, place):
        return torch.tanh(self.layer(place))


class Leaving(Place):
    def export(self, graph, inputs):
        return graph.add("Tanh", nodes.dense(graph, "place", self.layer.weight.T, self.layer.bias, inputs))


class Mistaken(Place):
    def export(self, graph, inputs):
        return graph.add("Tanh", self.weights)


class Different(Place):
    def export(self, graph, inputs):
        return nodes.dense(graph, "place", self.layer.weight.T, self.layer.bias, inputs)


class Exiting(Place):
    steps = 0

    def forward(self, place):
        Exiting.steps += 1
        if Exiting.steps > 150:
            raise SystemExit
        return super().forward(place)
"""
YAML = """\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64, num_epoch: 1}
    network_settings: {hidden_units: 8, num_layers: 1, encoders: {Basic: "my_places:%s"}}
    max_steps: %d
    time_horizon: 16
    checkpoint_interval: 100
"""
SCENE = ["--env", "scene:basic"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where `my_places.py` lies and runs begin; what a test has imported of it goes with the test."""
    (tmp_path / "my_places.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("my_places", None)


def test_a_class_in_the_working_folder_is_trained_resumed_and_played(folder, capsys):
    assert learn(folder, *SCENE, yaml=YAML % ("Leaving", 150)).good
    ended = learn(folder, *SCENE, "--resume", yaml=YAML % ("Leaving", 250))
    assert ended.good and weights_are_finite(ended.files("checkpoint.pt"))
    (brain,) = (path for path in ended.files("Basic.onnx") if path.parent.name == "r")
    assert run(["play", str(brain), *SCENE, "--episodes", "2", "--max-decisions", "60"]) == 0
    assert "Basic" in capsys.readouterr().out
    (checkpoint,) = ended.files("checkpoint.pt")
    places = np.eye(20, dtype=np.float32)
    chosen = [load(path).act(places).discrete for path in (brain, checkpoint)]
    np.testing.assert_array_equal(*chosen)


def test_a_network_that_cannot_be_exported_is_a_warning_at_the_start(folder):
    ended = learn(folder, *SCENE, yaml=YAML % ("Place", 150))
    assert ended.status == 0
    assert len(re.findall(r"Basic will have checkpoints, but no brains.*my_places:Place", ended.out)) == 1
    assert weights_are_finite(ended.files("checkpoint.pt")) and not ended.files("*.onnx")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (
            "Mistaken",
            r"AttributeError: 'Mistaken' object has no attribute 'weights' \(my_places.py, line 24\)",
        ),
        ("Different", "The brain of 'Basic' does not "),
    ],
)
def test_an_export_that_fails_ends_the_run_before_anything_is_learned(folder, name, why):
    ended = learn(folder, *SCENE, yaml=YAML % (name, 150))
    told = ended.error
    assert re.search(f"^The behavior Basic: its network cannot be exported as a brain: .*{why}", told), told
    assert f"See the method export of my_places:{name}" in ended.error and not ended.files("*.pt")


def test_sys_exit_in_a_network_ends_the_run_with_a_word_and_a_checkpoint(folder):
    ended = learn(folder, *SCENE, yaml=YAML % ("Exiting", 5000))
    assert ended.status == 1 and re.search(r"by sys.exit\(None\) \(.*my_places.py, line ", ended.error)
    assert weights_are_finite(ended.files("checkpoint.pt"))


def test_a_package_provides_a_network_by_name(tmp_path, monkeypatch):
    entries = {"places": "sample_places:Leaving", "lost": "sample_places:Lost"}
    modules = {"sample_places": MODULE}
    monkeypatch.syspath_prepend(install(tmp_path / "site", {"lanista.networks": entries}, modules))
    importlib.invalidate_caches()
    spec = spec_of_shapes([(4,)], continuous=1)

    def built(name):
        return Actor(spec, NetworkSettings(encoders={"obs0": name}))

    assert built("places").encoder([torch.zeros(2, 4)]).shape == (2, 6)
    with pytest.raises(TrainerError, match=r"'lost' \(sample_places:Lost, of sample 1\.2\) cannot be loaded"):
        built("lost")
    with pytest.raises(TrainerError, match=r"named 'place' .*lost, places"):
        built("place")
    sys.modules.pop("sample_places", None)
