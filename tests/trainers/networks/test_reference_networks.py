"""Networks have the reference's parameters, initial weights and outputs."""

import re
from functools import lru_cache

import numpy as np
import pytest
import torch
from goldendata import array, cases, kinds
from lanista.trainers.checkpoints.mlagents.names import (
    action_tensors,
    attention_tensors,
    body_tensors,
    dense_tensors,
    encoder_tensors,
    hyper_tensors,
    memory_tensors,
    twin_tensors,
    value_tensors,
    visual_tensors,
)
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.critics import TwinQ
from lanista.trainers.networks.modules.attention import EntityEmbedding, EntityEncoder, SelfAttention, absent
from lanista.trainers.networks.modules.body import Body, body_on
from lanista.trainers.networks.modules.heads import ActionHead, ValueHead
from lanista.trainers.networks.modules.hypernetwork import Goals, HyperLayer
from lanista.trainers.networks.modules.memory import Memory
from lanista.trainers.networks.modules.visual import (
    CHAINS,
    MIN_SIDE,
    POOL,
    POOL_STRIDE,
    RESNET_CHANNELS,
    VisualEncoder,
)
from lanista.trainers.networks.observation_kinds import (
    ObservationKind,
    UnsupportedObservationError,
    observation_kind,
)
from lanista.trainers.networks.observations import ObservationEncoder
from lanista.trainers.networks.team_critic import TeamCritic
from lanista.trainers.settings.models.networks import EncoderType, MemorySettings, NetworkSettings
from referencenets import (
    behavior_spec,
    load_normalizers,
    load_parameters,
    network_settings,
    observation_spec,
    team_critic_parameters,
)
from specs import image_spec, spec_of_shapes, vector_spec

FORWARDS = {f"forward_{part}" for part in ("body", "lstm", "attention", "hypernetwork")}
BUILT = FORWARDS | {"module", "init_stats", "observation_kind", "encoder", "encoder_min"}
ELSEWHERE = {"forward_poca_critic": "test_team_critic.py"}
BODY_INPUTS = {"input_size", "num_layers", "hidden_size"}


def modules(wanted):
    return cases("networks", "module", where=lambda case: wanted(case["inputs"]))


def test_every_kind_of_reference_data_has_a_test():
    assert kinds("networks") <= BUILT | ELSEWHERE.keys()


def shapes(named):
    return {name: list(view.shape) for name, view in named.items()}


def assert_parameters(case, named):
    """The named tensors are the trainable parameters of the reference."""
    expected = [p for p in case["expected"]["parameters"] if p["trainable"]]
    assert shapes(named) == {p["name"]: p["shape"] for p in expected}
    count = sum(view.numel() for view in named.values())
    assert count == case["expected"]["parameter_count_trainable"]


def of_networks(given):
    return given.get("what", "POCA critic") not in {"SAC Q1 and Q2", "POCA critic"}


@pytest.mark.parametrize("case", modules(of_networks))
def test_parameters_of_actors_and_critics(case):
    given, what = case["inputs"], case["inputs"]["what"]
    spec, settings = behavior_spec(given["spec"]), network_settings(given["network_settings"])
    signals = given.get("streams", ["extrinsic"])
    shared = what == "PPO actor with shared critic"
    if what == "SAC actor":
        network = Actor(spec, settings, squashed=True, sigma_of_state=True)
    else:
        network = ActorCritic(spec, settings, signals, shared)
    critic = what == "PPO critic"
    stream, encoder = (network.body.streams - 1, network.critic_encoder) if critic else (0, None)
    named = encoder_tensors(encoder or network.encoder, "network_body.")
    named |= body_tensors(network.body, stream, "network_body.")
    if settings.memory:
        named |= memory_tensors(network.memory(-stream), "network_body.lstm.")
    if what != "PPO critic":
        named |= action_tensors(network.actions)
    if what not in ("PPO/POCA actor", "SAC actor"):
        named |= value_tensors(network.values)
    assert_parameters(case, named)


@pytest.mark.parametrize("case", modules(lambda given: given.get("what") == "SAC Q1 and Q2"))
def test_parameters_of_the_twin_action_values(case):
    given = case["inputs"]
    spec, settings = behavior_spec(given["spec"]), network_settings(given["network_settings"])
    twins = TwinQ(spec, settings, given["streams"])
    assert_parameters(case, twin_tensors(twins))
    count = case["expected"]["parameter_count_trainable"]
    assert sum(p.numel() for p in twins.parameters()) == count


@pytest.mark.parametrize("case", modules(lambda given: given.get("what") == "POCA critic"))
def test_parameters_of_a_team_critic(case):
    given = case["inputs"]
    spec, settings = behavior_spec(given["spec"]), network_settings(given["network_settings"])
    assert_parameters(case, team_critic_parameters(TeamCritic(spec, settings, given["streams"])))


@pytest.mark.parametrize("case", cases("networks", "forward_attention"))
def test_attention_over_entities_of_which_some_are_absent(case):
    given, expected = case["inputs"], case["expected"]
    entities = torch.from_numpy(array(given["entities"]).astype(np.float32))
    mask = absent(entities)
    rows = entities.flatten(0, 1)
    if given.get("self") is not None:
        own = torch.from_numpy(array(given["self"]).astype(np.float32))
        rows = torch.cat((own.repeat_interleave(entities.shape[1], 0), rows), 1)
    size = given["embedding_size"]
    embedding, attention = EntityEmbedding(rows.shape[1], size), SelfAttention(size)
    weights = given["embedding_weights"] | given["attention_weights"]
    load_parameters(
        dense_tensors(embedding, "self_ent_encoder.seq_layers.0")
        | {k: v for name in ("q", "k", "v", "out") for k, v in attention_tensors(attention, name).items()},
        weights,
    )
    close = {"rtol": 1e-4, "atol": 1e-5}
    with torch.no_grad():
        embedded = embedding(rows).view(*entities.shape[:2], size)
        np.testing.assert_allclose(embedded, array(expected["embedded"]), **close)
        np.testing.assert_array_equal(mask, array(expected["mask_1_is_ignored"]) == 1)
        np.testing.assert_allclose(attention(embedded, mask), array(expected["output"]), **close)


@pytest.mark.parametrize("case", cases("networks", "encoder"))
def test_parameters_of_an_encoder_of_images(case):
    given, expected = case["inputs"], case["expected"]
    spec = image_spec(given["channels"], given["height"], given["width"])
    encoder = VisualEncoder(spec, EncoderType(given["type"]), given["output_size"])
    assert shapes(visual_tensors(encoder)) == {p["name"]: p["shape"] for p in expected["parameters"]}
    assert sum(p.numel() for p in encoder.parameters()) == expected["parameter_count"]
    assert np.prod(encoder.flat_shape) == expected["flattened_size"]
    assert list(encoder(torch.rand(2, *spec.shape)).shape) == expected["output_shape_for_batch_2"]


@pytest.mark.parametrize("case", cases("networks", "encoder_min"))
def test_the_smallest_image_that_an_encoder_reads(case):
    given = case["inputs"]
    spec, kind = image_spec(given["channels"], given["height"], given["width"]), EncoderType(given["type"])
    assert MIN_SIDE[kind] == given["minimum"]
    if "error_class" in case["expected"]:
        sizes = f"{given['width']}x{given['height']}.* {kind.value} .*at least {given['minimum']}x"
        with pytest.raises(UnsupportedObservationError, match=f"'eye'.*{sizes}"):
            VisualEncoder(spec, kind, 16)
        return
    assert VisualEncoder(spec, kind, 16)(torch.rand(1, *spec.shape)).shape == (1, 16)


@pytest.mark.parametrize("case", cases("networks", "forward_hypernetwork"))
def test_outputs_of_a_layer_conditioned_on_goals(case):
    given = case["inputs"]
    layer = HyperLayer(
        3, given["input_size"], given["output_size"], [slice(0, given["goal_size"])], given["layer_size"]
    )
    load_parameters(hyper_tensors(layer, 1, ""), given["weights"])
    inputs, goals = (torch.from_numpy(array(given[key])).float() for key in ("input", "goal"))
    for found in (Goals(goals, None), Goals(goals, torch.arange(len(goals))), layer.goals(goals)):
        got = layer.stream(1, inputs, found).detach().numpy()
        np.testing.assert_allclose(got, array(case["expected"]["output"]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", modules(lambda given: given.keys() == BODY_INPUTS))
def test_parameters_of_a_body(case):
    given = case["inputs"]
    settings = NetworkSettings(hidden_units=given["hidden_size"], num_layers=given["num_layers"])
    named = body_tensors(Body(3, given["input_size"], settings), 1, "")
    expected = {p["name"]: p["shape"] for p in case["expected"]["parameters"]}
    assert {name.removeprefix("_body_endoder."): shape for name, shape in shapes(named).items()} == expected


@pytest.mark.parametrize("case", cases("networks", "forward_body"))
def test_outputs_of_a_body(case):
    given = case["inputs"]
    settings = network_settings(given["network_settings"])
    spec = spec_of_shapes(given["spec"], given["goal_flags"])
    encoder = ObservationEncoder(spec.observation_specs, settings)
    body = body_on(encoder, 2, settings)
    named = encoder_tensors(encoder, "") | body_tensors(body, 1, "")
    memory = Memory(settings.hidden_units, settings.memory) if settings.memory else None
    if memory:
        named |= memory_tensors(memory, "lstm.")
    load_parameters(named, given["weights"])
    if settings.normalize:
        states = given["normalizer_state"]
        load_normalizers(encoder, [states] if isinstance(states, dict) else states)
    obs = [torch.from_numpy(array(o)).float() for o in given["observations"]]
    inputs = encoder(encoder.prepare(obs))
    expected = array(case["expected"]["encoding"])
    for got in (body.stream(1, inputs), body(inputs)[1]):
        if memory:
            got, states = memory(
                got, torch.from_numpy(array(given["memory_in"]))[0], given["sequence_length"]
            )
            wanted = array(case["expected"]["memory_out"])[0]
            np.testing.assert_allclose(states.detach().numpy(), wanted, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", modules(lambda given: given.keys() == {"input_size", "memory_size"}))
def test_parameters_of_a_memory(case):
    given, expected = case["inputs"], case["expected"]
    memory = Memory(given["input_size"], MemorySettings(memory_size=given["memory_size"]))
    named = memory_tensors(memory, "")
    assert shapes(named) == {p["name"]: p["shape"] for p in expected["parameters"]}
    assert memory.bias_ih.tolist() == expected["bias_ih"]
    assert memory.bias_hh.tolist() == expected["bias_hh"]


@pytest.mark.parametrize("case", cases("networks", "forward_lstm"))
def test_outputs_of_a_memory(case):
    given, expected = case["inputs"], case["expected"]
    memory = Memory(given["input_size"], MemorySettings(memory_size=given["memory_size"]))
    load_parameters(memory_tensors(memory, ""), given["weights"])
    rows = torch.from_numpy(array(given["sequence_batch_time_feature"]))
    states = torch.from_numpy(array(given["memory_in"]))[0]
    close = {"rtol": 1e-4, "atol": 1e-5}
    outputs, after = memory(rows.flatten(0, 1), states, rows.shape[1])
    np.testing.assert_allclose(outputs.detach().view(*rows.shape[:2], -1), array(expected["output"]), **close)
    np.testing.assert_allclose(after.detach(), array(expected["memory_out"])[0], **close)


@pytest.mark.parametrize("case", cases("networks", "observation_kind"))
def test_observation_kinds(case):
    spec = observation_spec(case["inputs"])
    if "error_class" in case["expected"]:
        with pytest.raises(UnsupportedObservationError, match=re.escape(repr(spec.name))):
            observation_kind(spec)
        return
    kinds = {"VectorInput": ObservationKind.VECTOR, "EntityEmbedding": ObservationKind.VARIABLE_LENGTH}
    expected = kinds.get(case["expected"]["module"], ObservationKind.VISUAL)
    assert observation_kind(spec) == expected
    if expected is ObservationKind.VECTOR:
        assert ObservationEncoder([spec], NetworkSettings()).size == case["expected"]["embedding_size"]


def visual(name, shapes_of):
    """An encoder of images with tensors of the shapes of the reference's that has the tensor `name`."""
    prefix = re.sub(r"(conv_layers|sequential|dense)\..*", "", name)
    own = {key: shape for key, shape in shapes_of.items() if key.startswith(prefix)}
    kernels = [tuple(shape) for shape in own.values() if len(shape) == 4]
    (dense,) = (shape for key, shape in own.items() if ".dense." in key and key.endswith("weight"))
    return _visual(tuple(kernels), *dense)


@lru_cache(maxsize=1)
def _visual(kernels, size, flat):
    """An image of the least height, of which one row remains, is as wide as it takes."""
    kind, layers = EncoderType.RESNET, 3 * ((RESNET_CHANNELS[-1], POOL, POOL_STRIDE),)
    for chain, convolutions in CHAINS.items():
        if [each[:2] for each in convolutions] == [(out, side) for out, _, side, _ in kernels]:
            kind, layers = chain, convolutions
    channels, width = (kernels[0][1], flat // layers[-1][0]) if kernels else (1, flat)
    for _, kernel, stride in reversed(layers):
        width = (width - 1) * stride + kernel
    return VisualEncoder(image_spec(channels, MIN_SIDE[kind], width), kind, size)


def fresh(name, shapes_of):
    """Weights drawn as ours are for a layer of the reference's name and shape; None for other layers."""
    shape = shapes_of[name]
    spec = vector_spec([1], continuous=shape[0]).action_spec
    if re.search(r"\.(conv_layers|sequential|dense)\.", name):
        found = visual_tensors(visual(name, shapes_of))
        return next(tensor for key, tensor in found.items() if name.endswith(f".{key}"))
    if not name.endswith("weight") and ".weight_" not in name:
        return None
    fan_out, fan_in = shape
    if "linear_encoder" in name or "obs_encoder" in name or "obs_action_encoder" in name:
        return None  # test_team_critic.py
    if "self_ent_encoder" in name or ".rsa." in name or "x_self_encoder" in name:
        if "self_ent" in name:
            return EntityEncoder([fan_in - 128], 16).embedding(0).weight
        own = 16 if "x_self" in name else fan_in - 128
        layers = EntityEncoder([max(fan_in - 128, 1)], own)
        return layers.own.weight if "x_self" in name else layers.attention.query.weight
    if "hypernet" in name:
        prefix = name[: name.index("hypernet.")]
        size, goal = shapes_of[f"{prefix}hypernet.0.weight"]
        (columns,) = shapes_of[f"{prefix}bias"]
        inputs = shapes_of[f"{prefix}hypernet.5.weight"][0] // columns
        layer = HyperLayer(1, inputs, columns, [slice(0, goal)], size)
        return {"0": layer.first, "2": layer.second, "5": layer.weights}[name.split(".")[-2]].weight
    if ".lstm.weight_" in name:
        memory = Memory(fan_in, MemorySettings(memory_size=fan_out // 2))
        return memory.weight_hh if name.endswith("weight_hh_l0") else memory.weight_ih
    if "_body_endoder." in name:
        return Body(8, fan_in, NetworkSettings(hidden_units=fan_out, num_layers=1)).layers[0].weight
    if name.endswith("_continuous_distribution.mu.weight"):
        return torch.stack([ActionHead(fan_in, spec).weight for _ in range(8)])
    if "_discrete_distribution.branches" in name:
        spec = vector_spec([1], branches=[fan_out]).action_spec
        return torch.stack([ActionHead(fan_in, spec).weight for _ in range(8)])
    if ".value_heads." in name:
        # Only heads straight on a body of a critic; POCA's is one input wider, but initialized alike.
        return torch.stack([ValueHead(fan_in, ["a"]).weight for _ in range(200)])
    return None


@pytest.mark.parametrize("case", cases("networks", "init_stats"))
def test_initial_weights(case):
    compared = 0
    for network in case["expected"].values():
        shapes_of = {name: expected["shape"] for name, expected in network.items()}
        for name, expected in network.items():
            ours = fresh(name, shapes_of)
            if ours is None:
                continue
            compared += 1
            noise = 4.0 / np.sqrt(2 * np.prod(expected["shape"]))
            assert ours.std().item() == pytest.approx(
                expected["std"], rel=max(0.05, noise, 4.0 / np.sqrt(ours.numel()))
            ), name
            assert abs(ours.mean().item()) <= max(0.05, 4.0 / np.sqrt(ours.numel())) * expected["std"], name
            if ".value_heads." in name:
                assert ours.abs().max().item() == pytest.approx(expected["max"], rel=0.05), name
    assert compared


def test_biases_and_log_sigma_start_at_zero():
    network = ActorCritic(vector_spec([3], 2, (3, 2)), network_settings({}), ["extrinsic"])
    zeros = [p for name, p in network.named_parameters() if name.endswith(("bias", "log_sigma"))]
    assert len(zeros) == 5
    assert not any(p.any() for p in zeros)
