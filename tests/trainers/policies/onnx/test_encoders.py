"""Brains of networks that see images, entities and goals act as these do, and keep to what engines import."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from lanista.trainers.checkpoints.mlagents.names import policy_tensors
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.onnx.export import build_brain, export_brain
from lanista.trainers.policies.onnx.graph import BrainVerificationError, not_importable
from lanista.trainers.policies.onnx.runtime import Brain
from lanista.trainers.policies.onnx.verify import verify
from lanista.trainers.settings.models.networks import NetworkSettings
from onnx import numpy_helper
from policysteps import change, decisions, node
from specs import spec_of_shapes

UNITYS = Path(__file__).parents[3] / "real" / "onnx"

COMBINATIONS = {
    "two cameras and a vector": ([(3, 20, 24), (2,), (1, 22, 20)], (), {}),
    "nature_cnn": ([(3, 36, 40)], (), {"vis_encode_type": "nature_cnn"}),
    "resnet": ([(2, 15, 17), (3,)], (), {"vis_encode_type": "resnet"}),
    "match3": ([(6, 6, 5)], (), {"vis_encode_type": "match3"}),
    "fully_connected": ([(3, 4, 5), (2,)], (), {"vis_encode_type": "fully_connected"}),
    "entities": ([(5, 3)], (), {}),
    "entities among others": ([(2,), (5, 3), (3,), (4, 2), (3, 20, 20)], (), {}),
    "a goal": ([(3,), (2,)], (0, 1), {}),
    "a goal alone": ([(3,)], (1,), {"num_layers": 1}),
    "a goal that is a picture, and one that is not": ([(3, 20, 20), (2,), (4,)], (1, 0, 1), {}),
    "a goal like any other": ([(3,), (4, 2)], (0, 1), {"goal_conditioning_type": "none"}),
    "an lstm behind entities": ([(5, 3), (2,)], (), {"memory": {"memory_size": 6}}),
    "a gru behind a camera and a goal": (
        [(3, 20, 20), (2,)],
        (0, 1),
        {"memory": {"memory_size": 6, "memory_type": "gru"}},
    ),
    "layers": ([(3,)], (), {"activation": "gelu", "layer_norm": True}),
    "layers of different widths": ([(3,), (3, 20, 20)], (), {"hidden_units": [12, 8], "layer_norm": True}),
    "residual blocks": ([(3,), (3, 20, 20)], (), {"residual": True, "num_layers": 2}),
    "an lstm behind residual blocks": ([(3,)], (), {"residual": True, "memory": {"memory_size": 6}}),
    "relu": ([(3,)], (), {"activation": "relu"}),
    "leaky_relu": ([(3,)], (), {"activation": "leaky_relu"}),
    "elu": ([(3,)], (), {"activation": "elu"}),
    "tanh": ([(3,)], (0,), {"activation": "tanh", "layer_norm": True}),
}


def built(name, continuous=2, branches=(3, 2), **made):
    shapes, goals, settings = COMBINATIONS[name]
    spec = spec_of_shapes(shapes, goals, continuous, branches)
    chosen = NetworkSettings.model_validate({"hidden_units": 8, "normalize": True} | settings)
    network = Actor(spec, chosen, torch.Generator().manual_seed(0), **made)
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randn(50, *one.shape, generator=generator) * 2 + 1 for one in spec.observation_specs]
    network.update_normalization(rows)
    with torch.no_grad():  # so that every part shows in the actions
        network.actions.weight.mul_(30.0)
    return network


@pytest.mark.parametrize("name", COMBINATIONS)
def test_every_combination_exports_verifies_and_is_importable(name):
    network = built(name)
    model = build_brain(network, behavior="Any")
    verify(model, network)
    assert not not_importable(model)
    assert not {"Expand", "Split"} & {node.op_type for node in model.graph.node}
    inputs = [f"obs_{i}" for i in range(len(network.spec.observation_specs))] + ["action_masks"]
    assert [value.name for value in model.graph.input] == inputs + ["recurrent_in"] * bool(
        network.memory_size
    )
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.parametrize("made", [{"squashed": True}, {"sigma_of_state": True, "squashed": True}])
def test_squashed_actions_and_deviations_of_the_state(made):
    network = built("a goal", **made)
    model = build_brain(network, behavior="Any")
    verify(model, network)
    names = [tensor.name for tensor in model.graph.initializer]
    assert ("actions.log_sigma.weight" in names) is made.get("sigma_of_state", False)


@pytest.mark.slow
def test_a_head_acts_learns_and_is_exported_consistently():
    """Hybrid, masked, squashed, with a deviation of each state."""
    network = built("entities", squashed=True, sigma_of_state=True)
    obs = [torch.randn(64, 5, 3, generator=torch.Generator().manual_seed(2))]
    mask = torch.zeros(64, 5, dtype=torch.bool)
    mask[:, 1] = True
    distribution = network.act(network.prepare(obs), mask)
    actions = distribution.sample(torch.Generator().manual_seed(3))
    assert actions.continuous.abs().max() <= 1.0 and not (actions.discrete[:, 0] == 1).any()
    u = actions.continuous.double().clamp(-1 + 1e-7, 1 - 1e-7).atanh()
    normal = torch.distributions.Normal(distribution.mu.double(), distribution.log_sigma.double().exp())
    expected = normal.log_prob(u) - torch.log1p(-(u.tanh() ** 2))
    inside = actions.continuous.abs() < 0.999
    found = distribution.log_probs(actions)[:, :2]
    torch.testing.assert_close(found[inside], expected.float()[inside], rtol=1e-2, atol=1e-2)
    assert found.isfinite().all()


DAMAGES = {
    "a convolution": (
        "two cameras and a vector",
        lambda m: change(m, "visual.2.0.weight", lambda w: w * 1.5),
    ),
    "a stride": ("resnet", lambda m: change(m, "visual.0.1.3.weight", lambda w: w[:, ::-1].copy())),
    "the mask of entities": ("entities", lambda m: setattr(node(m, "Less"), "op_type", "Greater")),
    "attention's scale": ("entities", lambda m: change(m, "attention.key.weight", lambda w: w * 9)),
    "the own vector": ("entities among others", lambda m: change(m, "entities.1.of_own", lambda w: w * 0)),
    "the goal": ("a goal", lambda m: node(m, "Slice").attribute[1].ints.__setitem__(0, 2)),
    "the goal's weights": ("a goal", lambda m: change(m, "goal.weights.weight", lambda w: w * 1.2)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_wrong_graph_is_refused(damage):
    name, spoil = DAMAGES[damage]
    network = built(name)
    with torch.no_grad():  # fresh attention is next to even: let it look
        if network.encoder.entities is not None:
            for dense in (network.encoder.entities.attention.query, network.encoder.entities.attention.key):
                dense.weight.mul_(15.0)
    model = build_brain(network, behavior="Ball")
    verify(model, network)
    spoil(model)
    with pytest.raises(BrainVerificationError, match="'Ball'"):
        verify(model, network)


def test_a_brain_of_everything_plays(tmp_path):
    spec = spec_of_shapes([(2,), (5, 3), (3, 20, 20)], continuous=2, branches=(3,))
    network = ActorCritic(spec, NetworkSettings(hidden_units=8), ["extrinsic"])
    export_brain(network, tmp_path / "b.onnx", behavior="B")
    brain = Brain(tmp_path / "b.onnx")
    brain.check(spec)
    assert brain.observations == {0: (2,), 1: (5, 3), 2: (3, 20, 20)}
    obs = [np.random.default_rng(0).random((4, *one.shape), np.float32) for one in spec.observation_specs]
    actions = brain.act(decisions(obs), deterministic=True)
    with torch.no_grad():
        expected = network.act(network.prepare([torch.from_numpy(o) for o in obs])).deterministic()
    np.testing.assert_array_equal(actions.discrete, expected.discrete)


# Unity's own ------------------------------------------------------------------------------------------

FACES = {
    "3DBall": ({0: (8,)}, 2, (), 0),
    "Basic": ({0: (20,)}, 0, (3,), 0),
    "Hallway": ({0: (105,), 1: (3,)}, 0, (5,), 128),
    "Sorter": ({0: (20, 23), 1: (10,), 2: (8,)}, 0, (3, 3, 3), 0),
    "Walker": ({0: (243,)}, 39, (), 0),
    "hybrid0vis8vec_2c_2_3d_v2_0": ({0: (8,)}, 2, (2, 3), 128),
}


@pytest.mark.parametrize("path", sorted(UNITYS.glob("*.onnx")), ids=lambda path: path.stem)
def test_the_faces_of_unity_s_brains_are_ours(path):
    """A network of ours for the same agents has the same inputs and outputs, deterministic ones added."""
    brain = Brain(path)
    observations, continuous, branches, memory_size = FACES[path.stem]
    found = (brain.observations, brain.continuous_size, brain.branches, brain.memory_size)
    assert found == (observations, continuous, branches, memory_size)
    spec = spec_of_shapes(observations.values(), (), continuous, branches)
    brain.check(spec)
    memory = {"memory": {"memory_size": memory_size}} if memory_size else {}
    ours = build_brain(Actor(spec, NetworkSettings.model_validate(memory)), behavior="Ours")
    theirs = onnx.load(path)
    for mine, unitys in ((ours.graph.input, theirs.graph.input), (ours.graph.output, theirs.graph.output)):
        names = [value.name for value in mine]
        kept = [name for name in names if name in {value.name for value in unitys}]
        assert kept == [value.name for value in unitys if value.name in names]
        assert {value.name for value in unitys} - set(names) <= {t.name for t in theirs.graph.initializer}
        shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim][1:] for v in mine}
        for value in unitys:
            if value.name in shapes and "discrete_actions" not in value.name:
                dims = [d.dim_value for d in value.type.tensor_type.shape.dim][1:]
                assert dims == shapes[value.name], value.name


def test_unity_s_sorter_in_our_network_acts_as_unity_s_file():
    """Entities, the own vector before them, attention and its mask, as Unity's own weights mean them."""
    path = UNITYS / "Sorter.onnx"
    spec = spec_of_shapes([(20, 23), (10,), (8,)], (), 0, (3, 3, 3))
    network = Actor(spec, NetworkSettings(hidden_units=128))
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    # The matrices of products with sets lie under made-up names, in the order of their use.
    prefix = "network_body.observation_encoder"
    places = [
        "processors.0.self_ent_encoder.seq_layers.0",
        *(f"rsa.fc_{name}" for name in "qkv"),
        "rsa.fc_out",
    ]
    products = [name for name in stored if "MatMul" in name]
    stored |= {
        f"{prefix}.{place}.weight": stored[name].T for place, name in zip(places, products, strict=True)
    }
    with torch.no_grad():
        for name, tensor in policy_tensors(network).items():
            tensor.copy_(torch.from_numpy(stored[name].copy()))
    random = np.random.default_rng(0)
    tiles = np.zeros((50, 20, 23), np.float32)
    for row, count in enumerate(random.integers(2, 21, 50)):
        tiles[row, np.arange(count), random.permutation(20)[:count]] = 1.0
        tiles[row, :count, 20:] = random.uniform(-1, 1, (count, 3))
    obs = [tiles, *(random.uniform(-1, 1, (50, n)).astype(np.float32) for n in (10, 8))]
    theirs = Brain(path).act(decisions(obs), deterministic=True)
    with torch.no_grad():
        ours = network.act(network.prepare([torch.from_numpy(o) for o in obs])).deterministic()
    np.testing.assert_array_equal(theirs.discrete, ours.discrete)
    assert len(np.unique(theirs.discrete, axis=0)) > 3
