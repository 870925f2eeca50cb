"""Users supply an encoder or a whole body; what cannot work is reported at the start."""

import sys
import textwrap

import numpy as np
import pytest
import sacbatches
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.custom import not_exportable
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.policies.onnx.export import build_brain, export_brain
from lanista.trainers.policies.onnx.graph import BrainVerificationError
from lanista.trainers.policies.onnx.verify import verify
from lanista.trainers.settings import RunOptions, TrainerConfigError
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.trainer.factory import make_algorithm
from lanista.trainers.utils.errors import TrainerError
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from reliability.resume import differences
from specs import spec_of_shapes

MODULE = '''
import torch
from torch import nn
from lanista.trainers.policies.onnx import graph as nodes


class Scale(nn.Module):
    """Trains, and cannot be exported."""

    def __init__(self, spec, settings):
        super().__init__()
        self.size = settings.hidden_units
        self.layer = nn.Linear(int(torch.tensor(spec.shape).prod()), self.size)

    def forward(self, observation):
        return torch.tanh(self.layer(observation.flatten(1)))


class Ray(Scale):
    def export(self, graph, inputs):
        flat = nodes.reshape(graph, inputs, [-1, self.layer.in_features])
        return graph.add("Tanh", nodes.dense(graph, "ray", self.layer.weight.T, self.layer.bias, flat))


class Frozen(Ray):
    """As a network that was trained elsewhere."""

    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.requires_grad_(False)


class Wrong(Ray):
    def export(self, graph, inputs):
        return graph.add("Mul", super().export(graph, inputs), graph.scalar(1.1))


class Clumsy(Ray):
    def export(self, graph, inputs):
        raise RuntimeError("no idea how")


class Everything(nn.Module):
    def __init__(self, specs, settings):
        super().__init__()
        self.size = 7
        self.layers = nn.ModuleList(Ray(spec, settings) for spec in specs)
        self.last = nn.Linear(sum(layer.size for layer in self.layers), self.size)

    def forward(self, observations):
        return self.last(torch.cat([layer(rows) for layer, rows in zip(self.layers, observations)], 1))

    def export(self, graph, inputs):
        values = [layer.export(graph, value) for layer, value in zip(self.layers, inputs)]
        return nodes.dense(graph, "last", self.last.weight.T, self.last.bias, nodes.concat(graph, values))


class Wavering(Ray):
    """Its last layers do one thing in training and another in acting."""

    def __init__(self, spec, settings):
        super().__init__(spec, settings)
        self.norm, self.drop = nn.BatchNorm1d(self.size, affine=False, eps=0.0), nn.Dropout(0.5)

    def forward(self, observation):
        return self.drop(self.norm(super().forward(observation)))


class Sizeless(nn.Module):
    def __init__(self, spec, settings):
        super().__init__()


class Wide(Scale):
    def forward(self, observation):
        return super().forward(observation).repeat(1, 2)


class Squeezing(Scale):
    """Works for several agents."""

    def forward(self, observation):
        return super().forward(observation).squeeze()


class Double(Scale):
    def forward(self, observation):
        return super().forward(observation).double()


class Blind(Scale):
    def forward(self, observation):
        raise ValueError("I see nothing")


class Late(nn.Module):
    """Its lazy layer infers the width of the observation."""

    class Inner(nn.Module):
        def __init__(self, spec, settings):
            super().__init__()
            self.size = 4
            self.layer = nn.LazyLinear(4)

        def forward(self, observation):
            return self.layer(observation.flatten(1))


class Angry:
    def __init__(self, spec, settings):
        raise KeyError("I wanted something else")
'''
SPEC = spec_of_shapes([(3,), (3, 20, 20), (2,)], continuous=2, branches=(3,))


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """`my_networks` in the folder in which a run begins."""
    (tmp_path / "my_networks.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("my_networks", None)


def settings(**keys):
    return NetworkSettings.model_validate({"hidden_units": 8, "normalize": True, **keys})


def build(spec=SPEC, **keys):
    return ActorCritic(spec, settings(**keys), ["a"], generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    "keys",
    [
        {"encoders": {"obs0": "my_networks:Ray"}},
        {"encoders": {"obs1": "my_networks:Ray", "obs2": "my_networks:Ray"}},
        {"body": "my_networks:Everything"},
        {"body": "my_networks:Everything", "memory": {"memory_size": 6}},
    ],
    ids=str,
)
def test_a_user_s_network_learns_and_is_exported(keys):
    network = build(**keys)
    verify(build_brain(network, behavior="B"), network)
    obs = [torch.rand(4, *one.shape) for one in SPEC.observation_specs]
    states = [torch.zeros(4, 6)] * 2
    inputs = network.prepare(obs)
    if network.memory_size:
        distribution, values = network.evaluate_with_memory(inputs, *states, 1)
    else:
        distribution, values = network.evaluate(inputs)
    (distribution.mu.sum() + values.sum()).backward()
    for name, parameter in network.named_parameters():
        if "encoder" in name:
            assert parameter.grad is not None, name
    assert any("whole" in name or "encoders" in name for name, _ in network.named_parameters())
    again = build(**keys)
    assert not differences(network.state_dict(), again.state_dict()), "one seed"


def test_a_nested_class_and_a_lazy_layer():
    network = build(encoders={"obs0": "my_networks:Late.Inner"})
    assert network.encoder.encoders["0"].layer.weight.shape == (4, 3)
    again = build(encoders={"obs0": "my_networks:Late.Inner"})
    assert not differences(network.state_dict(), again.state_dict()), "one seed"


def test_a_custom_body_is_everything_before_memory_and_heads():
    network = build(body="my_networks:Everything")
    assert network.actions.weight.shape[0] == 7 and not list(network.body.parameters())


def test_a_custom_encoder_reads_observations_that_no_built_in_one_does():
    grid = ObservationSpec((4, 5), (DimensionProperty.NONE,) * 2, ObservationType.DEFAULT, "Grid")
    spec = BehaviorSpec([grid], ActionSpec(1, ()))
    network = Actor(spec, settings(encoders={"Grid": "my_networks:Ray"}))
    verify(build_brain(network, behavior="B"), network)
    with pytest.raises(UnsupportedObservationError, match="'Grid'"):
        Actor(spec, settings())


def test_custom_encoders_get_normalized_vectors():
    network = Actor(SPEC, settings(encoders={"obs0": "my_networks:Ray"}))
    rows = [
        torch.full((10, *one.shape), 100.0) + torch.randn(10, *one.shape) for one in SPEC.observation_specs
    ]
    network.update_normalization(rows * 1)
    seen = network.prepare(rows)[0].detach().numpy()
    assert np.abs(seen).max() <= 5.0


def test_a_network_without_export_trains_and_no_brain_is_written(tmp_path):
    network = build(encoders={"obs0": "my_networks:Scale"})
    assert not_exportable(network) == ["my_networks:Scale"] and not not_exportable(build())
    assert network.act(network.prepare([torch.rand(1, *o.shape) for o in SPEC.observation_specs]))
    with pytest.raises(
        BrainVerificationError, match=r"my_networks:Scale has no method export\(graph, inputs\)"
    ):
        export_brain(network, tmp_path / "b.onnx", behavior="B")
    assert not (tmp_path / "b.onnx").exists()


def test_learning_and_acting_use_the_same_function():
    """Dropout and batch norms are frozen: updates, actions and exports all use the same function."""
    network = build(encoders={"obs0": "my_networks:Wavering"})
    obs = [torch.rand(6, *one.shape) for one in SPEC.observation_specs]
    inputs = network.prepare(obs)
    learned = network.evaluate(inputs)[0].mu
    acted = [network.act([rows[k : k + 1] for rows in inputs]).mu for k in range(6)]
    torch.testing.assert_close(torch.cat(acted), learned)
    assert not network.encoder.encoders["0"].norm.num_batches_tracked
    verify(build_brain(network, behavior="B"), network)


def test_a_wrong_export_is_refused(tmp_path):
    for name, message in (("Wrong", "differ"), ("Clumsy", "my_networks:Clumsy.*RuntimeError: no idea how")):
        with pytest.raises(BrainVerificationError, match=message):
            network = build(encoders={"obs0": f"my_networks:{name}"})
            with torch.no_grad():
                network.actions.weight.mul_(100)
            export_brain(network, tmp_path / "b.onnx", behavior="B")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"body": "their_networks:Body"}, r"their_networks:Body cannot be imported: .*No module named"),
        ({"body": "my_networks:Bdy"}, r"my_networks:Bdy cannot be imported: .*Bdy"),
        (
            {"body": "my_networks:Angry"},
            r"my_networks:Angry cannot be built: KeyError.*wanted something else",
        ),
        ({"body": "my_networks:Sizeless"}, r"an attribute `size`.* found Sizeless with size None"),
        ({"body": "my_networks:Bdy"}, r"my_networks\.py\. It is named as"),
        (
            {"encoders": {"obs0": "my_networks:Wide"}},
            r"Wide gives \(1, 16\) of torch\.float32.*shape \(1, 3\).*to give \(1, 8\)",
        ),
        ({"encoders": {"obs1": "my_networks:Squeezing"}}, r"Squeezing gives \(8,\).*shape \(1, 3, 20, 20\)"),
        ({"encoders": {"obs0": "my_networks:Double"}}, r"Double gives \(1, 8\) of torch\.float64"),
        (
            {"encoders": {"obs0": "my_networks:Blind"}},
            r"Blind cannot read .*shape \(1, 3\): ValueError.*I see nothing.*that of the agents",
        ),
        ({"encoders": {"Eye": "my_networks:Ray"}}, r"'Eye', and no sensor has that name.*'obs1'"),
        ({"body": "an-entry-point"}, r"No installed package offers a network named 'an-entry-point'"),
    ],
)
def test_networks_that_cannot_be_built_are_refused_with_the_reason(keys, message):
    with pytest.raises((TrainerError, UnsupportedObservationError), match=message):
        build(**keys)


def test_policy_and_critic_must_have_the_same_inputs():
    with pytest.raises(UnsupportedObservationError, match="both read the same prepared"):
        build(spec_of_shapes([(3,), (2,)], continuous=1), critic={"body": "my_networks:Everything"})


def test_an_invalid_class_reference_is_refused_with_the_settings():
    text = "behaviors: {B: {network_settings: {body: 'my networks'}}}"
    with pytest.raises(TrainerConfigError, match=r"body: found 'my networks', expected a class"):
        RunOptions.from_text(text)


def test_sac_learns_beside_weights_that_are_frozen():
    network = {"normalize": True, "encoders": {"obs0": "my_networks:Frozen"}}
    spec = sacbatches.spec_of(ActionSpec(2, (3,)))
    sac = sacbatches.algorithm(spec, network=network)
    encoders = [m for m in sac.network.modules() if type(m).__name__ == "Frozen"]
    before = [encoder.layer.weight.clone() for encoder in encoders]
    head = sac.network.actions.weight.detach().clone()
    sac.on_transfer({}, [])
    sac.update(sacbatches.some_batch(spec, 8), 0)
    assert encoders and not torch.equal(sac.network.actions.weight, head)
    assert all(torch.equal(one, encoder.layer.weight) for one, encoder in zip(before, encoders, strict=True))


@pytest.mark.parametrize("trainer", ["dqn", "ddpg", "td3", "sac", "simba"])
def test_targets_take_over_frozen_weights_too(trainer):
    """Else values would be bootstrapped by another encoder for the whole of a run with another's weights."""
    kind, hyper = ("sac", {"recipe": "simba"}) if trainer == "simba" else (trainer, {})
    spec = spec_of_shapes(
        [(3,)], continuous=0 if kind == "dqn" else 1, branches=(3,) if kind == "dqn" else ()
    )
    network = {"hidden_units": 8, "encoders": {"obs0": "my_networks:Frozen"}}
    behavior = {"trainer_type": kind, "hyperparameters": hyper, "network_settings": network}
    settings = TrainerSettings.model_validate(behavior)
    first, second = (
        make_algorithm(spec, settings, torch.device("cpu"), seed, NonFinitePolicy.STOP) for seed in (1, 2)
    )
    state = first.state_dict()
    state.pop("Target", None)
    assert second.initialize_from(state) == []
    networks = {
        "dqn": lambda: [(second.network, second.target.network)],
        "simba": lambda: [(second.q, second.target.network)],
        "sac": lambda: [(second.networks.value, second.networks.target)],
    }
    both = lambda: [(second.network, second.target.network), (second.critics, second.target_critics.network)]  # noqa: E731
    for trained, target in networks.get(trainer, both)():
        assert not differences(trained.state_dict(), target.state_dict())
