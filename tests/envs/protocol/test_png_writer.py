"""Images of engines written in Python: PNG on the wire, and unchanged at its other end."""

import io

import numpy as np
import pytest
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.engine import AgentBatch, StepEncoder, encode_hello
from lanista.envs.protocol.images import split_pngs
from lanista.envs.protocol.png_writer import encode_images
from lanista.envs.scenes.parts.sensors import image_spec, vector_spec
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from PIL import Image


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6, 7])
def test_every_three_channels_are_a_png_of_their_own_that_pillow_reads(channels):
    pictures = pixels(2, channels, 5, 7)
    for picture, data in zip(pictures, encode_images(pictures)):
        files = list(split_pngs(data))
        assert b"".join(files) == data
        assert len(files) == -(-channels // 3)
        images = [Image.open(io.BytesIO(file)) for file in files]
        assert {image.mode for image in images} == {"RGB"}
        planes = np.concatenate([np.asarray(image).transpose(2, 0, 1) for image in images])
        np.testing.assert_array_equal(planes[:channels], picture)
        assert channels == 1 or not planes[channels:].any()


def spec_of(*shapes):
    observations = [
        image_spec(shape, f"Sensor{index}") if len(shape) == 3 else vector_spec(*shape, f"Sensor{index}")
        for index, shape in enumerate(shapes)
    ]
    return BehaviorSpec(observations, ActionSpec.create_discrete((3, 2)))


def batch_of(obs, count):
    return AgentBatch(
        obs=obs,
        reward=np.arange(count, dtype=np.float32),
        done=np.arange(count) == 0,
        interrupted=np.arange(count) == 0,
        agent_id=np.arange(count, dtype=np.int32) + 100,
        group_id=np.ones(count, np.int32),
        group_reward=np.full(count, 0.5, np.float32),
        action_mask=np.arange(5 * count).reshape(count, 5) % 2 == 1,
    )


@pytest.mark.parametrize(
    "shapes",
    [
        [(3, 5, 7)],
        [(2,), (1, 4, 4), (3,)],
        [(6, 5, 5), (2,)],
        [(2,), (3, 5, 7), (3, 4, 4), (1,), (4, 4, 5)],
    ],
)
def test_images_and_vectors_arrive_in_order_with_all_fields_of_agents(shapes):
    spec = spec_of(*shapes)
    obs = [pixels(4, *shape) if len(shape) == 3 else np.float32(pixels(4, *shape)) for shape in shapes]
    batch = batch_of(obs, 4)
    decoder = Decoder()
    message = decoder.decode(StepEncoder({"Seer?team=0": spec}).encode({"Seer?team=0": batch}))
    decisions, terminals = message.steps["Seer?team=0"]
    assert decoder.specs["Seer?team=0"].observation_specs == spec.observation_specs
    for sent, asked, ended in zip(obs, decisions.obs, terminals.obs):
        scale = np.float32(255 if sent.dtype == np.uint8 else 1)
        # Grey is the mean of three equal planes, which rounds.
        np.testing.assert_allclose(np.concatenate([ended, asked]), sent / scale, rtol=1e-6)
    np.testing.assert_array_equal(decisions.agent_id, [101, 102, 103])
    np.testing.assert_array_equal(terminals.interrupted, [True])
    np.testing.assert_array_equal(decisions.group_reward, [0.5] * 3)
    np.testing.assert_array_equal(np.concatenate(decisions.action_mask, axis=1), batch.action_mask[1:])


def test_the_same_sensor_may_send_floats_in_another_step():
    spec = spec_of((3, 5, 7))
    encoder, decoder = StepEncoder({"Seer?team=0": spec}), Decoder()
    pictures = pixels(2, 3, 5, 7)
    for obs in (pictures, np.float32(pictures) / 255, pictures):
        steps = decoder.decode(encoder.encode({"Seer?team=0": batch_of([obs], 2)})).steps
        decisions, terminals = steps["Seer?team=0"]
        seen = np.concatenate([terminals.obs[0], decisions.obs[0]])
        np.testing.assert_allclose(seen, np.float32(pictures) / 255, atol=1e-7)


def test_bytes_that_are_not_an_image_are_refused():
    with pytest.raises(ValueError, match=r"observation 0 of the shape \(4,\) came as uint8"):
        StepEncoder({"Seer?team=0": spec_of((4,))}).encode({"Seer?team=0": batch_of([pixels(2, 4)], 2)})


def test_engines_announce_what_they_can_compress_as_unitys_player_does():
    """The trainer of the recorded session received the same (tests/real/transcripts)."""
    hello = Decoder().decode(encode_hello("Scene", "4.0.0")).hello
    assert hello.capabilities.concatenated_png_observations
    assert hello.capabilities.compressed_channel_mapping
    assert hello.capabilities.variable_length_observation
