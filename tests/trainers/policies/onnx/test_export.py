"""A brain file has the reference's interface, acts as the network does, and appears whole or not at all."""

import numpy as np
import onnx
import pytest
import torch
from goldendata import array, cases
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.onnx.export import build_brain, export_brain
from lanista.trainers.policies.onnx.graph import BrainVerificationError, not_importable
from lanista.trainers.policies.onnx.verify import verify
from lanista.trainers.settings.models.networks import NetworkSettings
from onnx import numpy_helper
from policysteps import change, node, rename, session_of
from referencenets import behavior_spec, load_actor, network_settings
from specs import vector_spec

# The one case without a network shows how the reference's exporter fails with today's torch.
EXPORTED = cases("onnx", where=lambda case: "spec" in case["inputs"])


def network(sizes=(3, 2), continuous=2, branches=(3, 2), seed=0, **options):
    chosen = NetworkSettings(normalize=True, hidden_units=12, **options)
    built = ActorCritic(
        vector_spec(sizes, continuous, branches),
        chosen,
        ["extrinsic"],
        generator=torch.Generator().manual_seed(seed),
    )
    generator = torch.Generator().manual_seed(seed)
    built.update_normalization([torch.randn(50, size, generator=generator) * 3 - 2 for size in sizes])
    with torch.no_grad():
        built.actions.weight.mul_(100.0)
        built.actions.log_sigma.uniform_(-2, 0.5, generator=generator)
    return built


def interface(values):
    """Names, types and shapes; symbolic sizes, whose names differ between exporters, as None."""
    return [
        {
            "name": value.name,
            "elem_type": onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type),
            "dims": [
                d.dim_value if d.HasField("dim_value") else None for d in value.type.tensor_type.shape.dim
            ],
        }
        for value in values
    ]


def without_symbols(values):
    return [{**value, "dims": [None if isinstance(d, str) else d for d in value["dims"]]} for value in values]


def constant_outputs(model):
    stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    return {
        node.output[0]: stored[node.input[0]].tolist()
        for node in model.graph.node
        if node.op_type == "Identity" and node.input[0] in stored
    }


@pytest.mark.parametrize("case", EXPORTED)
def test_a_brain_equals_the_references(case):
    given_, expected = case["inputs"], case["expected"]
    spec, chosen = behavior_spec(given_["spec"]), network_settings(given_["network_settings"])
    squashed = given_["trainer"] == "sac"
    built = Actor(spec, chosen, squashed=squashed, sigma_of_state=squashed)
    if given_["weights"] is not None:
        load_actor(built, given_)
    model = build_brain(built, behavior="Case")
    verify(model, built)
    assert model.ir_version == expected["ir_version"]
    assert [[o.domain, o.version] for o in model.opset_import] == expected["opset"]
    assert interface(model.graph.input) == without_symbols(expected["graph_inputs"])
    assert interface(model.graph.output) == without_symbols(expected["graph_outputs"])
    constants = constant_outputs(model)
    for name in constants.keys() - expected["constant_outputs"].keys():
        # The reference's exporter stores equal constants once, of which the other outputs are copies.
        assert constants.pop(name) in expected["constant_outputs"].values()
    assert constants == expected["constant_outputs"]
    session = session_of(model)
    if "outputs" not in expected:
        return
    feeds = {f"obs_{i}": array(rows) for i, rows in enumerate(given_["observations"])}
    if spec.action_spec.discrete_branches:
        feeds["action_masks"] = array(given_["action_masks"])
    if "recurrent_in" in given_ and chosen.memory:
        feeds["recurrent_in"] = array(given_["recurrent_in"])
    for name, values in expected["outputs"].items():
        got = session.run([name], feeds)[0]
        if squashed and name == "deterministic_continuous_actions":
            values = np.tanh(array(values))  # pitfall C4: the reference's are not squashed
        np.testing.assert_allclose(got, array(values), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=3),
    st.integers(0, 3),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(1, 3),
)
def test_every_kind_of_network_exports_and_verifies(sizes, continuous, branches, layers):
    built = network(sizes, continuous, branches, num_layers=layers)
    verify(build_brain(built, behavior="Any"), built)


def steep_network(seed):
    """Two hidden units are alike, and their large weights in the action cancel: what is left is rounding."""
    steep = network([8], 1, (), seed=seed)
    with torch.no_grad():
        last = steep.body.layers[-1]
        for parameter in (last.weight, last.bias):
            parameter[..., 1] = parameter[..., 0] * 1.0001
        steep.actions.weight.mul_(0.01)
        steep.actions.weight[0] += 3e4
        steep.actions.weight[1] -= 3e4 / 1.0001
    return steep


@pytest.mark.parametrize("seed", range(4))
def test_the_brain_of_a_steep_policy_is_not_refused_for_rounding(seed, monkeypatch):
    """As one that balances something. Another brain than its own is refused all the same."""
    steep = steep_network(seed)
    model = build_brain(steep, behavior="Ball", step=1, reward=None)
    verify(model, steep)
    with monkeypatch.context() as patched, pytest.raises(BrainVerificationError, match="differ by"):
        patched.setattr("lanista.trainers.policies.onnx.verify.ROUNDING", 0.0)
        verify(model, steep)
    with torch.no_grad():
        steep.actions.bias += 0.3
    with pytest.raises(BrainVerificationError, match="differ by"):
        verify(model, steep)


def test_the_batch_axis_is_named_and_the_metadata_are_kept(tmp_path):
    export_brain(network(), tmp_path / "b.onnx", behavior="Ball", step=500, reward=1.5)
    model = onnx.load(tmp_path / "b.onnx")
    assert all(v.type.tensor_type.shape.dim[0].dim_param == "batch" for v in model.graph.input)
    noted = {p.key: p.value for p in model.metadata_props}
    assert noted == {"behavior": "Ball", "step": "500", "reward": "1.5"}


def test_the_same_network_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        export_brain(network(), tmp_path / name, behavior="Ball")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_only_the_actor_is_in_the_file(tmp_path):
    built = network(branches=())
    export_brain(built, tmp_path / "b.onnx", behavior="Ball")
    weights = [numpy_helper.to_array(t) for t in onnx.load(tmp_path / "b.onnx").graph.initializer]
    stored = sum(w.size for w in weights if w.ndim == 2 and len(w) > 1)
    assert stored == sum(layer.weight[0].numel() for layer in built.body.layers) + 12 * 2


def test_exporting_a_diverged_network_keeps_the_old_file(tmp_path):
    path = tmp_path / "b.onnx"
    export_brain(network(), path, behavior="Ball")
    before, built = path.read_bytes(), network()
    with torch.no_grad():
        built.body.layers[1].weight[0, 2, 3] = float("nan")
    with pytest.raises(BrainVerificationError, match=r"'body\.1\.weight'"):
        export_brain(built, path, behavior="Ball")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
@settings(deadline=None, max_examples=10)
@given(st.sampled_from(["lstm", "gru"]), st.integers(0, 2), st.lists(st.integers(1, 4), max_size=2))
def test_every_memory_exports_and_verifies(kind, continuous, branches):
    built = network((3,), continuous, branches, memory={"memory_type": kind, "memory_size": 6})
    model = build_brain(built, behavior="Any")
    verify(model, built)
    assert not not_importable(model)
    assert model.graph.input[-1].name == "recurrent_in" and model.graph.output[-1].name == "recurrent_out"
    assert constant_outputs(model)["memory_size"] == [6.0]


MEMORY_DAMAGES = {
    "lstm": {
        "its gates' order": lambda m: change(
            m, "memory.weight_ih", lambda w: np.roll(w.reshape(4, -1), 1, 0).reshape(w.shape)
        ),
        "its recurrence": lambda m: change(m, "memory.weight_hh", lambda w: w * 0),
        "its two halves": lambda m: node(m, "LSTM").input.__setitem__(5, node(m, "LSTM").input[6]),
        "what leaves": lambda m: node(m, "Concat", -1).input.__setitem__(0, "memory.cell"),
    },
    "gru": {
        "its gates": lambda m: node(m, "Slice", 0).attribute.__getitem__(1).ints.__setitem__(0, 1),
        "its recurrence": lambda m: change(m, "memory.state.weight", lambda w: w * 0),
        "its new part": lambda m: setattr(node(m, "Tanh"), "op_type", "Sigmoid"),
        "what leaves": lambda m: node(m, "Reshape", -1).input.__setitem__(0, node(m, "Tanh").output[0]),
    },
}


@pytest.mark.parametrize("kind, damage", [(k, d) for k, damages in MEMORY_DAMAGES.items() for d in damages])
def test_a_wrong_memory_is_refused(kind, damage):
    built = network((3,), 2, (), memory={"memory_type": kind, "memory_size": 6})
    model = build_brain(built, behavior="Ball")
    MEMORY_DAMAGES[kind][damage](model)
    with pytest.raises(BrainVerificationError, match="'Ball'"):
        verify(model, built)


DAMAGES = {
    "a weight": lambda m: change(m, "body.0.weight", lambda w: w + (np.arange(w.size) == 4).reshape(w.shape)),
    "the normalizer": lambda m: change(m, "normalizer.0.deviation", lambda d: d * 1.1),
    "sigma": lambda m: change(m, "actions.sigma", lambda s: s * 2),
    "noise": lambda m: change(m, "actions.sigma", lambda s: s * 0),
    "the clipping": lambda m: node(m, "Div", 1).input.__setitem__(0, node(m, "Add").output[0]),
    "the mask": lambda m: node(m, "Sub", 1).input.__setitem__(0, node(m, "Sub", 1).input[1]),
    "the branches": lambda m: node(m, "Slice", 1).attribute.__getitem__(1).ints.__setitem__(0, 4),
    "an output": lambda m: rename(m, "deterministic_discrete_actions", "other"),
    "an operator": lambda m: setattr(node(m, "Sigmoid"), "op_type", "Erf"),
    "the likeliest": lambda m: setattr(node(m, "ArgMax"), "op_type", "ArgMin"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_wrong_graph_is_refused(damage):
    built = network()
    model = build_brain(built, behavior="Ball")
    verify(model, built)
    DAMAGES[damage](model)
    with pytest.raises(BrainVerificationError, match="'Ball'"):
        verify(model, built)


def test_swapped_sampled_branches_are_refused():
    """Both outputs have the same shape; only the distribution of the draws tells them apart."""
    built = network(continuous=0, branches=(3, 3))
    model = build_brain(built, behavior="Ball")
    node(model, "Concat", 1).input[:] = list(reversed(node(model, "Concat", 1).input))
    with pytest.raises(BrainVerificationError, match="sample"):
        verify(model, built)


def test_operators_that_unity_does_not_import_are_named():
    model = build_brain(network(), behavior="Ball")
    assert not not_importable(model)
    node(model, "Sigmoid").op_type = "Mish"
    node(model, "Clip").domain = "com.example"
    assert not_importable(model) == {"Mish": 1, "com.example.Clip": 1}


def test_a_network_may_train_while_it_is_exported(tmp_path):
    """The file holds the weights of one moment: changing the network afterwards changes nothing in it."""
    built = network()
    export_brain(built, tmp_path / "a", behavior="Ball")
    flags = [p.requires_grad for p in built.parameters()]
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(1.0)
    export_brain(network(), tmp_path / "b", behavior="Ball")
    assert all(flags)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
