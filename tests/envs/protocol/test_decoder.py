"""Messages of engines in unusual forms: descriptions, oddities, contradictions."""

import io

import numpy as np
import pytest
from lanista.envs.errors import ObservationError, WireError
from lanista.envs.protocol import messages
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.encoder import Encoder, encode_quit
from lanista.envs.protocol.engine import encode_hello, encode_ready
from lanista.envs.protocol.engine_decoder import ReplyDecoder
from lanista.envs.protocol.handshake import Capabilities
from mlagents_envs.base_env import DimensionProperty
from mlagents_envs.exception import UnityCommunicationException, UnityObservationException
from PIL import Image
from translated import spoken
from wiremessages import (
    DIALECTS,
    IMAGE,
    NAME,
    agent,
    brain,
    decisions,
    message,
    picture,
    png,
    vector,
)


def test_hello_and_ready() -> None:
    announced = encode_hello("Arena", "4.0.0", capabilities=Capabilities(hybrid_actions=False))
    hello = Decoder().decode(announced).hello
    assert hello is not None
    assert (hello.name, hello.communication_version, hello.package_version) == ("Arena", "1.5.0", "4.0.0")
    assert not hello.capabilities.hybrid_actions
    assert hello.capabilities.base_rl
    ready = Decoder().decode(encode_ready())
    assert (ready.status, ready.hello, ready.steps, ready.specs) == (200, None, None, {})


def test_an_engine_announces_its_end_by_its_status() -> None:
    assert Decoder().decode(encode_quit()).status == 400
    assert ReplyDecoder().decode(encode_quit()).kind == "quit"
    assert ReplyDecoder().decode(Encoder().reset(b"x")).kind == "reset"


def test_a_known_behavior_that_a_message_omits_has_no_agents() -> None:
    decoder = Decoder()
    decoder.decode(message(agent(vector(1, 2)), brains=(brain(branches=(2,)),)))
    steps = decoder.decode(message(name="unused")).steps
    assert steps is not None
    assert list(steps) == [NAME]
    nobody, none_done = steps[NAME]
    assert len(nobody) == len(none_done) == 0
    assert nobody.obs[0].shape == none_done.obs[0].shape == (0, 2)
    assert nobody.action_mask is None


def test_a_description_waits_for_the_first_agent() -> None:
    decoder = Decoder()
    assert decoder.decode(message(brains=(brain(),))).specs == {}
    assert list(decoder.decode(message(agent(vector(1, 2)))).specs) == [NAME]


def test_a_behavior_can_be_described_again() -> None:
    decoder = Decoder()
    decoder.decode(message(agent(vector(1, 2)), brains=(brain(),)))
    new = decoder.decode(message(agent(vector(1, 2, 3)), brains=(brain(continuous=4),)))
    assert new.specs == decoder.specs
    assert decoder.specs[NAME].action_spec.continuous_size == 4
    assert decisions(decoder, message(agent(vector(1, 2, 3)))).obs[0].shape == (1, 3)


@DIALECTS
def test_agents_of_a_behavior_that_was_never_described_are_an_error(dialect) -> None:
    data = spoken(message(agent(vector(1))), dialect)
    with pytest.raises(WireError, match=r"environment 3.*'B\?team=0'.*not described"):
        Decoder("environment 3", dialect=dialect).decode(data)


def test_actions_of_engines_before_hybrid_actions() -> None:
    for kind, sizes, expected in ((1, [3], (3, ())), (0, [3, 2], (0, (3, 2))), (1, [], (0, ()))):
        old = messages.BrainParametersProto(
            brain_name=NAME, vector_action_size_deprecated=sizes, vector_action_space_type_deprecated=kind
        )
        decoder = Decoder()
        decoder.decode(message(agent(vector(1)), brains=(old,)))
        action = decoder.specs[NAME].action_spec
        assert (action.continuous_size, action.discrete_branches) == expected


@DIALECTS
@pytest.mark.parametrize(
    ("continuous", "branches"),
    [(-1, ()), (2**31 - 1, ()), (0, (0,)), (1, (2, 0)), (0, (3, -1)), (65_537, ()), (0, (1,) * 65_537)],
)
def test_impossible_action_sizes_are_an_error(continuous: int, branches: tuple[int, ...], dialect) -> None:
    data = spoken(
        message(agent(vector(1)), brains=(brain(continuous=continuous, branches=branches),)), dialect
    )
    with pytest.raises(WireError, match="impossible action sizes"):
        Decoder(dialect=dialect).decode(data)


def test_more_observations_than_an_agent_can_have_are_an_error() -> None:
    """Each would be an input of the model, whose making takes long after the engine has been answered."""
    data = message(agent(*[vector(1)] * 4097), brains=(brain(),))
    with pytest.raises(WireError, match="an agent has 4,097 observations; expected at most 4,096"):
        Decoder().decode(data)


@pytest.mark.parametrize("shape", [[2**30, 2**30], [0, 2**31 - 1, 2**31 - 1, 9], [1] * 81, [-1], [3]])
@pytest.mark.parametrize("compressed", [False, True])
@DIALECTS
def test_impossible_shapes_are_an_error_that_names_the_observation(shape, compressed, dialect) -> None:
    """Before memory is set aside for them."""
    huge = messages.ObservationProto(shape=shape, name="camera", compression_type=int(compressed))
    data = spoken(message(agent(huge), brains=(brain(),)), dialect)
    with pytest.raises(WireError, match=r"observation 0.*camera.*impossible"):
        Decoder(dialect=dialect).decode(data)


@DIALECTS
def test_masks_of_another_length_forbid_no_action(dialect) -> None:
    decoder = Decoder(dialect=dialect)
    masked = agent(vector(1), action_mask=[True, False, True, False, False])
    short = agent(vector(1), action_mask=[True, True])
    data = message(masked, short, agent(vector(1)), brains=(brain(branches=(2, 3)),))
    first, second = decisions(decoder, spoken(data, dialect)).action_mask
    np.testing.assert_array_equal(first, [[True, False], [False, False], [False, False]])
    np.testing.assert_array_equal(second, [[True, False, False], [False] * 3, [False] * 3])


@DIALECTS
def test_an_agent_that_ends_and_begins_again_has_both_rows(dialect) -> None:
    decoder = Decoder(dialect=dialect)
    data = message(
        agent(vector(1), id=4, done=True, reward=2, max_step_reached=True),
        agent(vector(2), id=4),
        agent(vector(3), id=9),
        brains=(brain(),),
    )
    steps = decoder.decode(spoken(data, dialect)).steps
    assert steps is not None
    asking, done = steps[NAME]
    assert asking.agent_id.tolist() == [4, 9]
    assert done.agent_id.tolist() == [4]
    assert (done.interrupted.tolist(), done.reward.tolist()) == ([True], [2])
    assert asking.obs[0].tolist() == [[2], [3]]


@DIALECTS
def test_an_observation_that_does_not_fit_the_specification_is_an_error_that_names_it(dialect) -> None:
    decoder = Decoder("environment 1", dialect=dialect)

    def decode(*agents, **others):
        decoder.decode(spoken(message(*agents, **others), dialect))

    decode(agent(vector(1, 2)), brains=(brain(),))
    with pytest.raises(UnityObservationException, match=r"environment 1.*B\?team=0.*observation 0.*agent 7"):
        decode(agent(vector(1, 2), id=1), agent(vector(1, 2, 3, name="eyes"), id=7))
    with pytest.raises(UnityCommunicationException, match="agent 5 sent 2 observations"):
        decode(agent(vector(1, 2), vector(1), id=5))
    with pytest.raises(ObservationError, match="agent 6 sent 0 observations"):
        decode(agent(id=6))


def test_large_and_infinite_numbers_pass_unchanged() -> None:
    values = [3.4e38, float("inf"), -1e-45]
    decoder = Decoder()
    data = message(agent(vector(*values), reward=float("nan")), brains=(brain(),))
    found = decisions(decoder, data)
    np.testing.assert_array_equal(found.obs[0][0], np.array(values, np.float32))
    assert np.isnan(found.reward[0])


def test_forms_that_protobuf_allows_but_engines_do_not_write_are_read_too() -> None:
    """A list that is not packed, a field given twice (the last one counts), unknown fields."""
    decoder = Decoder()
    decoder.decode(message(agent(vector(1, 2)), brains=(brain(branches=(2,)),)))
    observation = vector(5, 6).SerializeToString()
    unpacked = b"\x58\x01\x58\x00"  # action_mask, element by element
    twice = b"\x3d\x00\x00\x80\x3f\x3d\x00\x00\x00\x40"  # reward 1, then 2
    unknown = b"\xa2\x06\x03abc"
    odd = twice + unpacked + unknown + bytes([0x6A, len(observation)]) + observation
    entry = bytes([0x0A, len(odd)]) + odd
    value = b"\x0a" + bytes([len(NAME)]) + NAME.encode() + b"\x12" + bytes([len(entry)]) + entry
    rl_output = b"\x12" + bytes([len(value)]) + value
    output = b"\x0a" + bytes([len(rl_output)]) + rl_output
    found = decisions(decoder, b"\x0a\x03\x08\xc8\x01\x12" + bytes([len(output)]) + output)
    assert found.reward.tolist() == [2]
    assert found.obs[0].tolist() == [[5, 6]]
    assert found.action_mask[0].tolist() == [[True, False]]


CHANNELS_LAST = (2, 2, 1)
CHANNELS_FIRST = (1, 2, 2)


@pytest.mark.parametrize(
    ("shape", "properties", "last"),
    [
        ((4, 6, 3), CHANNELS_LAST, True),
        ((3, 4, 6), CHANNELS_FIRST, False),
        ((4, 6, 3), (), True),
        ((3, 4, 6), (), False),
        ((3, 4, 6), CHANNELS_LAST, True),
        ((4, 6, 3), CHANNELS_FIRST, False),
        ((84, 84, 1), (0, 0, 0), True),
        ((1, 84, 84), (0, 0, 0), False),
        ((5, 5, 5), (), False),
    ],
)
def test_both_layouts_of_raw_images_come_out_channels_first(shape, properties, last: bool) -> None:
    values = np.random.default_rng(0).normal(size=(3, *shape)).astype(np.float32)
    decoder = Decoder()
    agents = [agent(picture(shape, value, properties), id=row) for row, value in enumerate(values)]
    found = decisions(decoder, message(*agents, brains=(brain(),)))
    expected = values.transpose(0, 3, 1, 2) if last else values
    np.testing.assert_array_equal(found.obs[0], expected)
    spec = decoder.specs[NAME].observation_specs[0]
    assert spec.shape == expected.shape[1:]
    if properties in (CHANNELS_LAST, CHANNELS_FIRST):
        shifts = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
        assert spec.dimension_property == (DimensionProperty.NONE, shifts, shifts)


@pytest.mark.parametrize(
    ("shape", "size", "properties"),
    [
        ((4, 6, 3), (4, 6), CHANNELS_LAST),
        ((3, 4, 6), (4, 6), CHANNELS_FIRST),
        ((4, 6, 3), (4, 6), ()),
        ((3, 4, 6), (4, 6), ()),
        ((3, 2, 3), (3, 2), ()),  # by its size channels last, though by the counts one might think otherwise
    ],
)
def test_both_layouts_of_compressed_images_come_out_channels_first(shape, size, properties) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (5, *size, 3), dtype=np.uint8)
    decoder = Decoder()
    agents = [agent(png(shape, value, properties), vector(row), id=row) for row, value in enumerate(pixels)]
    found = decisions(decoder, message(*agents, brains=(brain(),)))
    expected = pixels.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(found.obs[0], expected)
    np.testing.assert_array_equal(found.obs[1][:, 0], np.arange(5))
    assert decoder.specs[NAME].observation_specs[0].shape == (3, *size)


def test_an_image_that_claims_another_size_is_refused_before_it_is_decoded() -> None:
    small = png(IMAGE, np.zeros((4, 6, 3), np.uint8))
    lying = bytearray(small.compressed_data)
    lying[16:24] = (60_000).to_bytes(4, "big") * 2
    small.compressed_data = bytes(lying)
    with pytest.raises(ObservationError, match=r"observation 0.*agent 2.*60000"):
        Decoder().decode(message(agent(small, id=2), brains=(brain(),)))


def test_one_broken_image_among_many_is_named() -> None:
    good = [agent(png(IMAGE, np.full((4, 6, 3), row, np.uint8)), id=row) for row in range(8)]
    noise = np.random.default_rng(4).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    broken = agent(png(IMAGE, noise), id=99)
    broken.observations[0].compressed_data = broken.observations[0].compressed_data[:50]
    for agents in ([*good, broken], [broken, *good]):
        with pytest.raises(ObservationError, match="agent 99"):
            Decoder().decode(message(*agents, brains=(brain(),)))


def test_images_with_an_unusual_palette_are_read_as_colors() -> None:
    pixels = np.random.default_rng(2).integers(0, 2, (4, 6), dtype=np.uint8) * 255
    file = io.BytesIO()
    Image.fromarray(pixels).convert("P").save(file, "PNG")
    proto = messages.ObservationProto(
        shape=IMAGE, compression_type=1, dimension_properties=CHANNELS_FIRST, compressed_data=file.getvalue()
    )
    found = decisions(Decoder(), message(agent(proto), brains=(brain(),)))
    np.testing.assert_array_equal(found.obs[0][0], np.broadcast_to(pixels / np.float32(255), IMAGE))


def test_a_sensor_that_is_compressed_for_some_agents_only() -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    raw = pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    one, other = png(IMAGE, pixels, CHANNELS_FIRST), picture(IMAGE, raw, CHANNELS_FIRST)
    for agents in ([agent(one), agent(other)], [agent(other), agent(one)]):
        found = decisions(Decoder(), message(*agents, brains=(brain(),)))
        np.testing.assert_array_equal(found.obs[0][0], raw)
        np.testing.assert_array_equal(found.obs[0][1], raw)
