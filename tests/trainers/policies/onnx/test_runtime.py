"""Brain files are run alone: ours, and Unity's own."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.agent_states import AgentMemories
from lanista.trainers.policies.onnx.export import export_brain
from lanista.trainers.policies.onnx.graph import GraphBuilder
from lanista.trainers.policies.onnx.runtime import Brain, BrainError
from lanista.trainers.settings.models.networks import NetworkSettings
from policysteps import change, decisions, random_obs, rename
from specs import vector_spec

UNITYS = sorted((Path(__file__).parents[3] / "real" / "onnx").glob("*.onnx"))
SPEC = vector_spec([3, 2], continuous=2, branches=(3, 2))


@pytest.fixture
def exported(tmp_path):
    network = ActorCritic(
        SPEC, NetworkSettings(hidden_units=8), ["extrinsic"], generator=torch.Generator().manual_seed(1)
    )
    export_brain(network, tmp_path / "Brain.onnx", behavior="Brain")
    return network, tmp_path / "Brain.onnx"


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"obs_0", b"obs\xe30"), (b"version_number", b"version_\x1b[2Jer"), (b"Gemm", b"G\x1b[J")],
)
def test_a_name_that_is_no_text_is_an_error_of_the_brain(exported, tmp_path, capfd, old, new):
    _, path = exported
    damaged = tmp_path / "Damaged.onnx"
    assert old in path.read_bytes()
    damaged.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(BrainError, match=r"Damaged\.onnx"):
        Brain(damaged)
    assert capfd.readouterr() == ("", ""), "onnxruntime prints nothing of it by itself"


def test_a_brain_acts_as_its_network(exported):
    network, path = exported
    brain = Brain(path)
    brain.check(SPEC)
    obs = random_obs([(3,), (2,)], 6)
    forbidden = [np.eye(6, 3, dtype=bool), np.zeros((6, 2), bool)]
    action = brain.act(decisions(obs, mask=forbidden), deterministic=True)
    mask = torch.from_numpy(np.concatenate(forbidden, 1))
    with torch.no_grad():
        distribution = network.act(network.prepare([torch.from_numpy(o) for o in obs]), mask)
    expected = distribution.deterministic()
    np.testing.assert_allclose(action.continuous, distribution.to_engine(expected.continuous), atol=1e-5)
    np.testing.assert_array_equal(action.discrete, expected.discrete)
    assert action.continuous.dtype == np.float32
    assert action.discrete.dtype == np.int32


@pytest.mark.parametrize("path", UNITYS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rows", [1, 5])
def test_unitys_own_brains_run(path, rows):
    brain = Brain(path)
    shapes = [brain.observations[i] for i in sorted(brain.observations)]
    steps = decisions(random_obs(shapes, rows))
    action = brain.act(steps)
    assert action.continuous.shape == (rows, brain.continuous_size)
    assert action.discrete.shape == (rows, len(brain.branches))
    assert (action.discrete < np.array(brain.branches, int)).all()
    if brain.has_deterministic:
        first, again = brain.act(steps, deterministic=True), brain.act(steps, deterministic=True)
        np.testing.assert_array_equal(first.continuous, again.continuous)
        np.testing.assert_array_equal(first.discrete, again.discrete)


def test_there_are_brains_of_unity():
    assert UNITYS


def counting_brain(path, deterministic=True):
    """A recurrent brain whose action is its memory's first number, which grows by one with each decision."""
    graph = GraphBuilder("Counter")
    obs, memory = graph.input("obs_0", 1), graph.input("recurrent_in", 1, 2)
    graph.constant_output("version_number", np.array([3.0], np.float32))
    graph.constant_output("memory_size", np.array([2.0], np.float32))
    graph.add("Add", memory, graph.scalar(1.0), name="recurrent_out")
    flat = graph.add("Squeeze", "recurrent_out", axes=[1])
    column = graph.add("Slice", flat, axes=[1], starts=[0], ends=[1])
    names = ["continuous_actions", "deterministic_continuous_actions"][: 1 + deterministic]
    for name in names:
        graph.add("Add", column, graph.add("Mul", obs, graph.scalar(0.0)), name=name)
        graph.output(name, ["batch", 1])
    graph.constant_output("continuous_action_output_shape", np.array([1.0], np.float32))
    graph.output("recurrent_out", ["batch", 1, 2])
    onnx.save(graph.build("test", "1", {}), path)
    return Brain(path)


def test_each_agent_has_a_memory_of_its_own(tmp_path):
    brain = counting_brain(tmp_path / "c.onnx")
    assert brain.memory_size == 2

    def act(*ids):
        steps = decisions([np.zeros((len(ids), 1), np.float32)], ids)
        return brain.act(steps).continuous.ravel().tolist()

    assert act(7, 3) == [1, 1]
    assert act(3, 9) == [2, 1]
    assert act(9, 7, 3) == [2, 2, 3]
    brain.reset_agents(np.array([3, 100], np.int32))
    assert act(3, 7) == [1, 3]


def test_agents_of_two_behaviors_may_have_the_same_ids(tmp_path):
    brain = counting_brain(tmp_path / "c.onnx")
    steps = decisions([np.zeros((1, 1), np.float32)], [0])

    def count(team):
        return float(brain.act(steps, behavior_id=f"Ball?team={team}").continuous[0, 0])

    assert [count(0), count(1), count(0), count(1)] == [1, 1, 2, 2]
    brain.reset_agents(np.array([0], np.int32), "Ball?team=1")
    assert [count(0), count(1)] == [3, 1]


def test_memories_of_many_agents():
    memories = AgentMemories(1)
    assert memories.read(np.array([4, 5], np.int32)).tolist() == [[0], [0]]
    memories.store(np.array([9, 2, 5], np.int32), np.array([[9], [2], [5]], np.float32))
    memories.store(np.array([5, 1], np.int32), np.array([[50], [1]], np.float32))
    assert memories.read(np.array([1, 2, 3, 5, 9, 10], np.int32)).ravel().tolist() == [1, 2, 0, 50, 9, 0]
    assert len(memories) == 4


def test_a_file_without_deterministic_outputs_says_so(tmp_path):
    brain = counting_brain(tmp_path / "c.onnx", deterministic=False)
    with pytest.raises(BrainError, match="no deterministic outputs"):
        brain.act(decisions([np.zeros((1, 1), np.float32)]), deterministic=True)


def test_a_brain_of_other_agents_is_refused(exported):
    brain = Brain(exported[1])
    with pytest.raises(
        BrainError, match=r"observation 0 with the shape \(3,\), the agents' is \(4,\)"
    ) as error:
        brain.check(vector_spec([4], continuous=1, branches=(3,)))
    for part in (
        "observation 1, and the agents have 1",
        "2 continuous actions",
        "sizes (3, 2)",
        "Brain.onnx",
    ):
        assert part in str(error.value)
    with pytest.raises(BrainError, match="observation 1"):
        brain.act(decisions(random_obs([(3,), (3,)], 2)))


def test_files_that_are_no_brains(exported, tmp_path):
    whole = exported[1].read_bytes()
    with pytest.raises(BrainError, match="no such file"):
        Brain(tmp_path / "absent.onnx")
    (tmp_path / "checkpoint.pt").write_bytes(whole)
    with pytest.raises(BrainError, match="it is a checkpoint; `lanista export` makes a brain of it"):
        Brain(tmp_path / "checkpoint.pt")
    for i, data in enumerate([b"", b"no onnx", whole[: len(whole) // 2], whole[:-1]]):
        path = tmp_path / f"{i}.onnx"
        path.write_bytes(data)
        with pytest.raises(BrainError, match=f"{i}.onnx"):
            Brain(path)


def test_a_model_of_more_bytes_than_one_can_have_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "sparse.onnx"
    with path.open("wb") as file:
        file.truncate(1 << 31)
    monkeypatch.setattr(onnx, "load_model_from_string", None)
    with pytest.raises(BrainError, match=r"sparse.onnx': it cannot be read: it holds more than 2,047 MiB"):
        Brain(path)


def with_change(source, path, function):
    model = onnx.load(source)
    function(model)
    onnx.save(model, path)
    return path


def rename_everywhere(model, old, new):
    rename(model, old, new)
    for value in [*model.graph.input, *model.graph.output]:
        value.name = new if value.name == old else value.name


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("obs_0", "vector_observation", "before version 3"),
        ("obs_0", "camera", "unknown inputs"),
        ("version_number", "version", "lacks the outputs"),
        ("discrete_action_output_shape", "shape", "how many actions"),
    ],
)
def test_other_interfaces_are_refused(exported, tmp_path, old, new, message):
    path = with_change(exported[1], tmp_path / "x.onnx", lambda model: rename_everywhere(model, old, new))
    with pytest.raises(BrainError, match=message):
        Brain(path)


def test_other_versions_are_refused(exported, tmp_path):
    def to_two(model):
        change(model, "version_number.value", lambda version: version - 1.0)

    with pytest.raises(BrainError, match="version 2"):
        Brain(with_change(exported[1], tmp_path / "x.onnx", to_two))


@pytest.mark.parametrize("value", [np.zeros(0, np.float32), np.full(1, np.nan, np.float32)])
@pytest.mark.parametrize("name", ["version_number", "continuous_action_output_shape"])
def test_constants_that_are_no_sizes_are_refused(exported, tmp_path, name, value):
    def damage(model):
        change(model, f"{name}.value", lambda _: value)

    with pytest.raises(BrainError, match=r"x\.onnx.*(no sizes|version nan)"):
        Brain(with_change(exported[1], tmp_path / "x.onnx", damage))


@pytest.mark.parametrize("size", [1 << 62, 1 << 40])
def test_an_input_of_impossible_size_is_refused_before_it_is_made(exported, tmp_path, size):
    def enlarge(model):
        unread = onnx.helper.make_tensor_value_info("obs_9", onnx.TensorProto.FLOAT, [1, size])
        model.graph.input.append(unread)

    with pytest.raises(BrainError, match=rf"x\.onnx.*'obs_9'.*{size}.*numbers that an observation may have"):
        Brain(with_change(exported[1], tmp_path / "x.onnx", enlarge))


def loop_for_ever(output, given):
    """A Loop of 2^62 rounds that hands on `given`."""
    value = onnx.helper.make_tensor_value_info
    kinds = (onnx.TensorProto.INT64, onnx.TensorProto.BOOL, onnx.TensorProto.FLOAT)
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", [a], [b]) for a, b in (("go", "on"), ("x", "y"))],
        "body",
        [value(name, kind, shape) for name, kind, shape in zip(("i", "go", "x"), kinds, ([], [], None))],
        [value("on", kinds[1], []), value("y", kinds[2], None)],
    )
    rounds = onnx.numpy_helper.from_array(np.array(1 << 62, np.int64), "rounds")
    return rounds, onnx.helper.make_node("Loop", ["rounds", "", given], [output], body=body)


@pytest.mark.parametrize("hidden", [False, True])
def test_a_brain_with_a_loop_is_refused_before_it_runs(exported, tmp_path, hidden):
    def add_loop(model):
        rename(model, "version_number", "before")
        rounds, node = loop_for_ever("version_number", "before")
        model.graph.initializer.append(rounds)
        if hidden:
            inner = onnx.helper.make_graph(
                [node], "inner", [], [onnx.helper.make_tensor_value_info("version_number", 1, None)]
            )
            true = onnx.numpy_helper.from_array(np.array(True), "true")
            model.graph.initializer.append(true)
            branches = {"then_branch": inner, "else_branch": inner}
            node = onnx.helper.make_node("If", ["true"], ["version_number"], **branches)
        model.graph.node.append(node)

    path = with_change(exported[1], tmp_path / "loops.onnx", add_loop)
    with pytest.raises(BrainError, match=r"loops\.onnx': it has the operator Loop, .*without an end"):
        Brain(path)


def test_a_name_like_that_of_a_loop_is_no_loop(exported, tmp_path):
    path = with_change(exported[1], tmp_path / "x.onnx", lambda model: setattr(model.graph, "name", "Loop"))
    assert b"Loop" in path.read_bytes()
    assert Brain(path).continuous_size == 2


def newer(model, opset=9, ir_version=4, operator="Relu", domain=""):
    model.ir_version, model.opset_import[0].version = ir_version, opset
    model.graph.node.append(onnx.helper.make_node(operator, ["obs_0"], ["more"], domain=domain))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"opset": 99}, r"its opset is 99, and the newest that onnxruntime [\d.]+ reads is \d+\. Install"),
        ({"ir_version": 99}, r"its IR version is 99, and the newest that onnxruntime [\d.]+ reads is \d+\."),
        ({"opset": 99, "ir_version": 99}, r"IR version is 99"),
        ({"operator": "Relu99"}, "it has the operator Relu99, whose cost is not known"),
        ({"domain": "com.evil"}, r"it has the operator com\.evil\.Relu, whose cost"),
        ({"operator": "R\x1b[2J" * 100_000}, r"it has the operator R\\x1b\[2J"),
        ({"opset": 24, "operator": "Swish"}, ""),
    ],
    ids=str,
)
def test_a_model_that_is_too_new_is_refused_in_a_sentence(exported, tmp_path, change, message):
    path = with_change(exported[1], tmp_path / "new.onnx", lambda model: newer(model, **change))
    with pytest.raises(BrainError, match=rf"new\.onnx': .*{message}") as error:
        Brain(path)
    for code in ("onnxruntime_src", "std::", "ONNXRuntimeError", "const ", "\x1b", "\n"):
        assert code not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_brain_that_fails_when_it_is_run_is_a_brain_error(exported, tmp_path):
    def of_one_agent_alone(model):
        rename(model, "continuous_actions", "before")
        shape = onnx.numpy_helper.from_array(np.array([1, 3], np.int64), "one")
        model.graph.initializer.append(shape)
        for kind, inputs, output, more in (
            ("Reshape", ["obs_0", "one"], "row", {}),
            ("ReduceSum", ["row"], "sum", {"keepdims": 0}),
            ("Add", ["before", "sum"], "continuous_actions", {}),
        ):
            model.graph.node.append(onnx.helper.make_node(kind, inputs, [output], **more))

    brain = Brain(with_change(exported[1], tmp_path / "fails.onnx", of_one_agent_alone))
    with pytest.raises(BrainError, match=r"fails\.onnx': it fails when it is run: .*Reshape") as error:
        brain.act(decisions(random_obs([(3,), (2,)], 2)))
    assert "onnxruntime_src" not in str(error.value)


def test_onnxruntime_reports_nothing_to_its_maker(tmp_path):
    """With its reports on, it leaves files at its import: a session's, and in the cache a device's number."""
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    folders = dict.fromkeys(("TMPDIR", "HOME", "XDG_CACHE_HOME"), str(tmp_path))
    program = (
        "import lanista.trainers.policies.onnx.runtime as ours; ours.onnxruntime.get_available_providers()"
    )
    subprocess.run([sys.executable, "-c", program], env={**environment, **folders}, check=True)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
