"""The reference's own bytes: pictures and one whole exchange over gRPC.

Sessions, initialization, side channels and names are compared where they are built: tests/envs and
tests/envs/side_channels.
"""

import json
import threading
from typing import Any

import numpy as np
import pytest
from goldendata import array, bytes_of, cases
from lanista.envs.errors import ObservationError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.server import TrainerEndpoint
from lanista.envs.images import Images, as_floats
from lanista.envs.protocol import messages
from lanista.envs.protocol.decoder import (
    Decoder,
    encode_actions,
    encode_initialization,
    encode_quit,
    encode_reset,
)
from mlagents_envs.base_env import ActionTuple


def one_agent(observation: messages.ObservationProto, name: str = "B?team=0") -> bytes:
    output = messages.UnityOutputProto()
    brain = messages.BrainParametersProto(
        brain_name=name, action_spec=messages.ActionSpecProto(num_continuous_actions=1)
    )
    output.rl_initialization_output.brain_parameters.append(brain)
    output.rl_output.agentInfos[name].value.append(messages.AgentInfoProto(observations=[observation]))
    return messages.UnityMessageProto(
        header=messages.HeaderProto(status=200), unity_output=output
    ).SerializeToString()


def decodes_better(proto: messages.ObservationProto) -> bool:
    """A grayscale PNG of one plane, at which the reference fails by an accident of its array's rank.

    It is a picture like any other: one channel.
    """
    colour_type = proto.compressed_data[25] if len(proto.compressed_data) > 25 else None
    return colour_type == 0 and proto.shape[0] == 1


@pytest.mark.parametrize("images", ["float32", "uint8"])
@pytest.mark.parametrize("case", cases("wire", "decode_images"))
def test_pictures_are_decoded_as_the_reference_decodes_them(case: dict[str, Any], images: Images) -> None:
    """As bytes on the way to a trainer they are the same numbers."""
    proto = messages.ObservationProto.FromString(bytes_of(case["inputs"]["observation_proto"]))
    expected = case["expected"]
    if "error_class" in expected and not decodes_better(proto):
        with pytest.raises(ObservationError, match="observation 0"):
            Decoder(images=images).decode(one_agent(proto))
        return
    steps = Decoder(images=images).decode(one_agent(proto)).steps
    assert steps is not None
    sent = steps["B?team=0"][0].obs[0]
    assert images == "uint8" or sent.dtype == np.float32
    found = as_floats(sent)
    assert found.shape == (1, *case["inputs"]["shape"])
    if "array" in expected:
        np.testing.assert_allclose(found[0], array(expected["array"]), rtol=1e-6, atol=1e-7)
    else:
        assert 0 <= found.min() < found.max() <= 1


@pytest.mark.parametrize("case", cases("wire", "grpc"))
def test_a_whole_exchange_over_grpc(case: dict[str, Any]) -> None:
    """The engine's recorded requests, through both of our ends; our answers mean what the reference's did."""
    trainer = TrainerEndpoint(0)
    answers: list[bytes] = []

    def engine() -> None:
        end = EngineEndpoint(trainer.port)
        end.connect(10)
        for _, request in case["inputs"]["engine_requests"]:
            answers.append(end.exchange(bytes_of(request)))
        end.close()

    thread = threading.Thread(target=engine)
    thread.start()
    try:
        _answer(trainer, case["inputs"]["python_ops"])
    finally:
        trainer.close()
        thread.join(10)
    expected = [bytes_of(response) for response in case["expected"]["python_responses"]]
    assert [_meaning(answer) for answer in answers] == [_meaning(answer) for answer in expected]


def _answer(trainer: TrainerEndpoint, operations: list[str]) -> None:
    decoder = Decoder()
    actions: dict[str, ActionTuple] = {}
    for operation in operations:
        name, _, argument = operation.partition(" ")
        if name == "set_actions":
            values = np.array(json.loads(argument), np.float32)
            actions = {behavior: ActionTuple(continuous=values) for behavior in decoder.specs}
            continue
        if name.startswith("construct"):
            decoder.decode(_received(trainer))
            trainer.reply(encode_initialization(int(name[name.index("=") + 1 : -1]), 1))
        elif name == "reset":
            trainer.reply(encode_reset(b""))
        elif name == "step":
            trainer.reply(encode_actions(actions, b"", deprecated_field=True))
        else:
            assert name == "close"
            trainer.reply(encode_quit())
            return
        decoder.decode(_received(trainer))


def _received(trainer: TrainerEndpoint) -> bytes:
    request = trainer.receive(10)
    assert request is not None
    return request


def _meaning(data: bytes) -> messages.UnityMessageProto:
    """Without the side channels' bytes: the reference's analytics, whose content is its own versions."""
    message = messages.UnityMessageProto.FromString(data)
    if message.unity_input.HasField("rl_input"):
        message.unity_input.rl_input.ClearField("side_channel")
    return message
