"""Models of others that would take any memory and time are refused before they are loaded; others are run."""

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.onnx import cost
from lanista.trainers.policies.onnx.cost import CostError, ModelCost
from lanista.trainers.policies.onnx.export import build_brain
from lanista.trainers.policies.onnx.runtime import Brain, BrainError
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from onnx import TensorProto, helper, numpy_helper
from policysteps import decisions, session_of

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
OUTPUTS = ("version_number", "memory_size", "continuous_action_output_shape", "continuous_actions")


def node(operator, inputs, output, **attributes):
    """A node; two blanks stand around an input that is left out."""
    return helper.make_node(operator, inputs.split(" ") if inputs else [], [output], **attributes)


def stored(name, values, dtype=np.int64):
    return numpy_helper.from_array(np.array(values, dtype), name)


def value(name, shape=None, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def policy(nodes=(), *, constants=(), opset=15, **more):
    """A model whose two actions are its first two observations, and the value `extra` is added to them."""
    known = [("version_number", 3), ("memory_size", 0), ("continuous_action_output_shape", 2)]
    plain = [node("Constant", "", name, value=stored("", [number], np.float32)) for name, number in known]
    acting = [
        node("Slice", "obs_0 from to axis", "first"),
        node("ReduceMax", "extra", "most", keepdims=0)
        if nodes
        else node("Constant", "", "most", value_float=0.0),
        node("Add", "first most", "continuous_actions"),
    ]
    sizes = [stored("from", [0]), stored("to", [2]), stored("axis", [1])]
    graph = helper.make_graph(
        [*plain, *nodes, *acting],
        "policy",
        [value("obs_0", ["batch", 8])],
        [value(name) for name in OUTPUTS],
        [*sizes, *constants],
        **{"value_info": more.pop("value_info", []), "sparse_initializer": more.pop("sparse", [])},
    )
    imported = [helper.make_opsetid("", opset), *more.pop("domains", [])]
    return helper.make_model(graph, opset_imports=imported, **{"ir_version": 8, **more})


def inner(nodes, *outputs, inputs=()):
    return helper.make_graph(nodes, "inner", list(inputs), [value(name) for name in outputs])


def doubled(times):
    names = ["obs_0", *(f"d{k}" for k in range(times - 1)), "extra"]
    return [node("Concat", f"{a} {a}", b, axis=1) for a, b in pairwise(names)]


def functions(depth):
    """Functions of which each calls the one before it twice."""
    own = helper.make_opsetid("own", 1)
    found = [
        helper.make_function(
            "own", "f0", ["x"], ["y"], [node("Relu", "x", "y")], [helper.make_opsetid("", 15)]
        )
    ]
    for k in range(1, depth):
        calls = [node(f"f{k - 1}", "x", "m", domain="own"), node(f"f{k - 1}", "m", "y", domain="own")]
        found.append(
            helper.make_function("own", f"f{k}", ["x"], ["y"], calls, [own, helper.make_opsetid("", 15)])
        )
    return {
        "nodes": [node(f"f{depth - 1}", "obs_0", "extra", domain="own")],
        "functions": found,
        "domains": [own],
    }


SPARSE = helper.make_sparse_tensor(
    numpy_helper.from_array(np.ones(1, np.float32), "extra"), stored("", [7]), [1 << 40]
)
LOOP = inner(
    [node("Identity", "go", "on"), node("Identity", "x", "y")],
    "on",
    "y",
    inputs=[value("i", [], INT64), value("go", [], TensorProto.BOOL), value("x")],
)
LARGE = inner(
    [node("Constant", "", "s", value=stored("", [30_000, 30_000])), node("ConstantOfShape", "s", "big")],
    "big",
)
SMALL = inner([node("Identity", "obs_0", "small")], "small")
CHEAP_FOR_ONE = [
    node("Shape", "obs_0", "sizes"),
    node("Gather", "sizes zero", "agents"),
    node("Sub", "agents one", "more"),
    node("Mul", "more huge", "count"),
]
"""Sizes that are 0 for the one agent with which a model is loaded."""
ZERO_TO_HUGE = [stored("zero", [0]), stored("one", [1]), stored("huge", [1 << 33])]
ATTACKS = {
    "a large constant": (
        [node("ConstantOfShape", "size", "extra")],
        [stored("size", [30_000, 30_000])],
        r"9\.0e\+08 numbers in memory .*ConstantOfShape",
    ),
    "a large product": (
        [
            node("Tile", "obs_0 times", "high"),
            node("Transpose", "high", "wide"),
            node("MatMul", "high wide", "extra"),
        ],
        [stored("times", [20_000, 1])],
        "MatMul",
    ),
    "many multiplications": (
        [
            node("ConstantOfShape", "size", "a"),
            *(node("MatMul", f"{one} {one}", next_one) for one, next_one in pairwise([*"abcd", "extra"])),
        ],
        [stored("size", [2000, 2000])],
        r"2\.4e\+10 multiplications .*MatMul",
    ),
    "tiles": ([node("Tile", "obs_0 times", "extra")], [stored("times", [100_000, 10_000])], "Tile"),
    "a range": (
        [node("Range", "a b c", "extra")],
        [stored("a", 0), stored("b", 10**9), stored("c", 1)],
        "Range",
    ),
    "a sum of a row and a column": (
        [node("Add", "row column", "extra")],
        [
            stored("row", np.zeros((1, 20_000)), np.float32),
            stored("column", np.zeros((20_000, 1)), np.float32),
        ],
        "Add",
    ),
    "scaling": (
        [node("Reshape", "obs_0 image", "x"), node("Resize", "x  scales", "extra")],
        [stored("image", [1, 1, 2, 4]), stored("scales", [1, 1, 1e5, 1e4], np.float32)],
        "Resize",
    ),
    "depths": (
        [node("Cast", "obs_0", "kind", to=INT64), node("OneHot", "kind depth pair", "extra")],
        [stored("depth", [1 << 30]), stored("pair", [0, 1])],
        "OneHot",
    ),
    "padding": ([node("Pad", "obs_0 pads", "extra")], [stored("pads", [0, 0, 1 << 30, 0])], "Pad"),
    "padding of a convolution": (
        [node("Reshape", "obs_0 image", "x"), node("Conv", "x kernel", "extra", pads=[1 << 15] * 4)],
        [stored("image", [1, 1, 2, 4]), stored("kernel", np.zeros((1, 1, 2, 2)), np.float32)],
        "Conv",
    ),
    "a large window": (
        [
            node("Reshape", "obs_0 image", "x"),
            node("AveragePool", "x", "extra", kernel_shape=[1_000_001] * 2, pads=[500_000] * 4),
        ],
        [stored("image", [1, 1, 2, 4])],
        "multiplications .*AveragePool",
    ),
    "random numbers": ([node("RandomNormal", "", "extra", shape=[1 << 16, 1 << 16])], [], "RandomNormal"),
    "draws": ([node("Multinomial", "obs_0", "extra", sample_size=1 << 30)], [], "Multinomial"),
    "doubling": (doubled(40), [], "Concat"),
    "sizes that depend on numbers": (
        [
            node("Cast", "obs_0", "n", to=INT64),
            node("Reshape", "n flat", "s"),
            node("ConstantOfShape", "s", "extra"),
        ],
        [stored("flat", [8])],
        "computes a size",
    ),
    "counts that depend on numbers": ([node("NonZero", "obs_0", "extra")], [], "operator NonZero"),
    "narrow sizes": (
        [
            node("Mul", "two two", "none"),
            node("Cast", "none", "s", to=INT64),
            node("ConstantOfShape", "s", "extra"),
        ],
        [stored("two", [65536], np.int32)],
        "not of 64 bits",
    ),
    "sizes that are cut": (
        [
            node("Cast", "large", "small", to=INT32),
            node("Cast", "small", "s", to=INT64),
            node("ConstantOfShape", "s", "extra"),
        ],
        [stored("large", [1 << 32])],
        "computes a size",
    ),
    "a loop": (
        [node("Loop", "rounds  obs_0", "extra", body=LOOP)],
        [stored("rounds", 1 << 62)],
        "operator Loop",
    ),
    "a branch": (
        [node("If", "yes", "extra", then_branch=LARGE, else_branch=SMALL)],
        [stored("yes", True, bool)],
        "ConstantOfShape|If",
    ),
    "a product by indices": (
        [node("Tile", "obs_0 times", "x"), node("Einsum", "x x", "extra", equation="ab, cd -> abcd")],
        [stored("times", [1, 10_000])],
        "numbers in memory .*Einsum",
    ),
    "sums over all indices": (
        [node("Tile", "obs_0 times", "x"), node("Einsum", "x x", "extra", equation="ab,cd->")],
        [stored("times", [1, 30_000])],
        "multiplications .*Einsum",
    ),
    "products of products": (
        [node("Einsum", "obs_0 obs_0 obs_0", "extra", equation="ab,cd,ef->ace")],
        [],
        "multiplies more than two values",
    ),
    "indices without names": (
        [node("Einsum", "obs_0 obs_0", "extra", equation="...a,...a->...")],
        [],
        "Einsum. lacks what its operator needs",
    ),
    "text": ([node("Cast", "obs_0", "extra", to=TensorProto.STRING)], [], "Cast to text"),
    "sequences": ([node("SequenceConstruct", "obs_0", "extra")], [], "operator SequenceConstruct"),
    "two of a name": (
        [node("ConstantOfShape", "s", "extra")],
        [stored("s", [1]), stored("s", [1 << 40])],
        "the same name",
    ),
    "many nodes": ([node("Relu", "obs_0", "extra")] * 10_001, [], "20,0.. values"),
    "many inputs": ([node("Concat", " ".join(["obs_0"] * 20_000), "extra", axis=1)], [], "20,0.. values"),
}


def refused(tmp_path, model, message):
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BrainError, match=f"(?s)model.onnx': .*{message}") as error:
        Brain(path)
    assert len(str(error.value)) < 1500 and "\n" not in str(error.value)


@pytest.mark.parametrize("case", ATTACKS)
def test_what_would_take_too_much_is_refused_by_its_node(tmp_path, case):
    nodes, constants, message = ATTACKS[case]
    refused(tmp_path, policy(nodes, constants=constants), message)


def test_other_parts_that_may_hide_a_cost_are_refused(tmp_path):
    nested = functions(40)
    refused(tmp_path, policy(nested.pop("nodes"), **nested), "functions")
    refused(tmp_path, policy([node("Identity", "obs_0", "x")], sparse=[SPARSE]), "sparse")
    unread = value("big", [1])
    lies = policy(
        [node("ConstantOfShape", "s", "big"), node("Identity", "big", "extra")],
        constants=[stored("s", [1 << 20, 1 << 20])],
        value_info=[unread],
    )
    refused(tmp_path, lies, "numbers in memory|do not fit")


@pytest.mark.parametrize("place", ["weights", "constant", "branch"])
def test_weights_in_another_file_are_refused_and_the_file_is_not_read(tmp_path, place):
    """Of whichever file onnxruntime can open, beside the model or, by older versions, anywhere."""
    elsewhere = TensorProto(name="far", data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    elsewhere.external_data.add(key="location", value="notes.txt")
    (tmp_path / "notes.txt").write_bytes(bytes(8))
    if place == "weights":
        model = policy([node("Identity", "far", "extra")], constants=[elsewhere])
    elif place == "constant":
        model = policy([node("Constant", "", "extra", value=elsewhere)])
    else:
        bodies = [inner([node("Constant", "", name, value=elsewhere)], name) for name in ("a", "b")]
        cond = stored("", [True], np.bool_)
        model = policy(
            [
                node("Constant", "", "cond", value=cond),
                node("If", "cond", "extra", then_branch=bodies[0], else_branch=bodies[1]),
            ]
        )
    refused(tmp_path, model, r"its weights far lie in another file \(notes.txt\), which is not read")


def test_what_is_measured_is_what_is_run(tmp_path, monkeypatch):
    """A file that takes the model's place in between, as a run's next save does, is neither."""
    path = tmp_path / "policy.onnx"
    path.write_bytes(policy().SerializeToString())
    measure = Brain._measure

    def measured(self, *arguments):
        found = measure(self, *arguments)
        path.write_bytes(b"another file")
        return found

    monkeypatch.setattr(Brain, "_measure", measured)
    assert Brain(path).continuous_size == 2


def test_a_cost_that_comes_with_more_agents_is_refused_then(tmp_path):
    model = policy([*CHEAP_FOR_ONE, node("ConstantOfShape", "count", "extra")], constants=ZERO_TO_HUGE)
    model.graph.node.remove(next(one for one in model.graph.node if one.op_type == "ReduceMax"))
    sums = node("ReduceSum", "extra", "most", keepdims=0)
    model.graph.node.insert(len(model.graph.node) - 1, sums)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    brain = Brain(path)
    obs = np.arange(8, dtype=np.float32)
    assert brain.act(decisions([obs[None]])).continuous.tolist() == [[0, 1]]
    with pytest.raises(BrainError, match=r"8\.6e\+09 numbers"):
        brain.act(decisions([np.stack([obs, obs])]))
    assert brain.act(decisions([obs[None]])).continuous.tolist() == [[0, 1]]


def test_a_plain_policy_with_sizes_from_shapes_is_run(tmp_path):
    """As torch exports `view(batch, -1)`, and a branch that squeezes."""
    flat = [
        node("Shape", "obs_0", "sizes"),
        node("Gather", "sizes zero", "agents"),
        node("Concat", "agents rest", "size", axis=0),
        node("Reshape", "obs_0 size", "rows"),
        node("If", "yes", "extra", then_branch=SMALL, else_branch=inner([node("Relu", "rows", "r")], "r")),
    ]
    constants = [stored("zero", [0]), stored("rest", [-1]), stored("yes", True, bool)]
    path = tmp_path / "model.onnx"
    path.write_bytes(policy(flat, constants=constants).SerializeToString())
    assert Brain(path).act(decisions([np.zeros((5, 8), np.float32)])).continuous.shape == (5, 2)


def test_a_policy_with_a_product_by_indices_is_run(tmp_path):
    weights = stored("weights", np.eye(8), np.float32)
    path = tmp_path / "model.onnx"
    product = node("Einsum", "obs_0 weights", "extra", equation="bi,ij->bj")
    path.write_bytes(policy([product], constants=[weights]).SerializeToString())
    obs = np.arange(40, dtype=np.float32).reshape(5, 8)
    assert (Brain(path).act(decisions([obs])).continuous == obs[:, :2] + 39).all()


@pytest.mark.parametrize("encoder", ["simple", "nature_cnn", "resnet"])
@pytest.mark.parametrize("memory", [False, True])
def test_a_thousand_agents_with_images_are_not_refused(encoder, memory):
    image = (DimensionProperty.NONE, *[DimensionProperty.TRANSLATIONAL_EQUIVARIANCE] * 2)
    camera = ObservationSpec((3, 84, 84), image, ObservationType.DEFAULT, "camera")
    spec = BehaviorSpec([camera], ActionSpec.create_discrete((3, 2)))
    more = {"memory": {"memory_size": 32, "sequence_length": 8}} if memory else {}
    network = ActorCritic(
        spec, NetworkSettings(vis_encode_type=encoder, hidden_units=256, **more), ["extrinsic"]
    )
    known = ModelCost(build_brain(network, behavior="Brain"))
    for agents in (1, 1000):
        known.require({name: (agents, *shape[1:]) for name, shape in known.inputs.items()})


STEPS = {
    "tile": lambda k, a, b: ([node("Tile", f"{a} n{k}", b)], [stored(f"n{k}", [1, 3])]),
    "concat": lambda k, a, b: ([node("Concat", f"{a} {a}", b, axis=-1)], []),
    "square": lambda k, a, b: ([node("Mul", f"{a} {a}", b)], []),
    "pad": lambda k, a, b: ([node("Pad", f"{a} n{k}", b)], [stored(f"n{k}", [0, 2, 0, -1])]),
    "sum": lambda k, a, b: ([node("ReduceSum", f"{a} n{k}", b)], [stored(f"n{k}", [1])]),
    "slice": lambda k, a, b: ([node("Slice", f"{a} axis to axis", b)], []),
    "product": lambda k, a, b: (
        [node("Transpose", a, f"t{k}"), node("MatMul", f"{a} t{k}", b)],
        [],
    ),
    "flat": lambda k, a, b: (
        [node("Reshape", f"{a} n{k}", f"f{k}"), node("Unsqueeze", f"f{k} from", b)],
        [stored(f"n{k}", [-1])],
    ),
}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5), st.integers(1, 4))
def test_what_is_counted_is_what_onnxruntime_makes(kinds, agents):
    """The limit is kept if it is as high as the count of all values, and not if it is one lower."""
    nodes, constants = [], []
    for k, kind in enumerate(kinds):
        names = "obs_0" if k == 0 else f"v{k - 1}", "extra" if k == len(kinds) - 1 else f"v{k}"
        added, sizes = STEPS[kind](k, *names)
        nodes, constants = [*nodes, *added], [*constants, *sizes]
    model = policy(nodes, constants=constants)
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    made = list(dict.fromkeys(name for one in model.graph.node for name in one.output))
    del shown.graph.output[:]
    shown.graph.output.extend(map(value, made))
    arrays = session_of(shown).run(made, {"obs_0": np.zeros((agents, 8), np.float32)})
    total = sum(array.size for array in arrays)
    for most, fits in ((total, True), (total - 1, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cost, "most_numbers", lambda agents, most=most: most)
            known = ModelCost(onnx.ModelProto.FromString(model.SerializeToString()))
            with nullcontext() if fits else pytest.raises(CostError, match="numbers in memory"):
                known.require({"obs_0": (agents, 8)})
