"""The reference's own bytes: pictures and one whole exchange over gRPC.

Sessions, initialization, side channels and names are compared where they are built: tests/envs and
tests/envs/side_channels.
"""

import io
import json
import re
import threading
from typing import Any

import numpy as np
import pytest
from goldendata import array, bytes_of, cases
from lanista.envs.errors import ObservationError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.grpcio_server import GrpcioSession
from lanista.envs.grpc.server import ServerSession
from lanista.envs.images import Images, as_floats
from lanista.envs.protocol import messages
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.encoder import Encoder, encode_quit
from mlagents_envs.base_env import ActionTuple
from PIL import Image
from wiremessages import agent, brain, decisions, message


def planes_of(png: bytes) -> np.ndarray:
    """A PNG as [channels, height, width], of whichever kind it is; colors of a palette are three channels."""
    with Image.open(io.BytesIO(png)) as image:
        if image.mode.startswith("I"):
            return np.repeat(np.asarray(image)[None] // 256, 3, axis=0)
        pixels = np.asarray(image if image.mode in ("L", "LA", "RGB", "RGBA") else image.convert("RGB"))
    return pixels[None] if pixels.ndim == 2 else np.moveaxis(pixels, -1, 0)


def without_color_axis(proto: messages.ObservationProto) -> np.ndarray | None:
    """What the reference's rules make of pictures at which it fails; None if they break these rules too.

    It fails at gray PNGs and palettes by an accident of their arrays' rank; here they are images like others.
    """
    signature = b"\x89PNG\r\n\x1a\n"
    mapping, (channels, *size) = np.array(proto.compressed_channel_mapping, int), proto.shape
    try:
        files = [planes_of(signature + rest) for rest in proto.compressed_data.split(signature)[1:]]
        planes = np.concatenate(files) / np.float32(255)
    except (OSError, ValueError, SyntaxError):
        return None
    if list(planes.shape[1:]) != size or (len(mapping) or channels) > len(planes):
        return None
    if not len(mapping):
        return files[0].mean(axis=0, keepdims=True) / np.float32(255) if channels == 1 else planes[:channels]
    if len(mapping) != len(planes) or {*mapping} - {-1} != {*range(channels)}:
        return None
    return np.stack([planes[mapping == channel].mean(axis=0) for channel in range(channels)])


@pytest.mark.parametrize("images", ["float32", "uint8"])
@pytest.mark.parametrize("case", cases("wire", "decode_images"))
def test_images_are_decoded_as_the_reference_decodes_them(case: dict[str, Any], images: Images) -> None:
    """Kept as bytes for a trainer, they have the same values."""
    proto = messages.ObservationProto.FromString(bytes_of(case["inputs"]["observation_proto"]))
    failed = "error_class" in case["expected"]
    expected = without_color_axis(proto) if failed else array(case["expected"]["array"])
    if expected is None:
        with pytest.raises(ObservationError, match="observation 0"):
            Decoder(images=images).decode(message(agent(proto), brains=(brain(),)))
        return
    sent = decisions(Decoder(images=images), message(agent(proto), brains=(brain(),))).obs[0]
    assert images == "uint8" or sent.dtype == np.float32
    found = as_floats(sent)
    assert found.shape == (1, *case["inputs"]["shape"])
    np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("server", [ServerSession, GrpcioSession], ids=["lean", "grpcio"])
@pytest.mark.parametrize("case", cases("wire", "grpc"))
def test_a_whole_exchange_over_grpc(case: dict[str, Any], server) -> None:
    """The engine's recorded requests, through both of our ends; our answers mean what the reference's did."""
    trainer = server.listen(0)
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


def _answer(trainer: ServerSession | GrpcioSession, operations: list[str]) -> None:
    decoder = Decoder()
    actions: dict[str, ActionTuple] = {}
    for operation in operations:
        name, _, argument = operation.partition(" ")
        if name == "set_actions":
            values = json.loads(argument)
            actions = {
                behavior: ActionTuple(np.array(values, np.float32))
                if spec.action_spec.continuous_size
                else ActionTuple(discrete=np.array(values, np.int32))
                for behavior, spec in decoder.specs.items()
            }
            continue
        if name.startswith("construct"):
            decoder.decode(_received(trainer))
            options = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", operation)}
            trainer.reply(Encoder().initialization(options.get("seed", 0), options.get("num_areas", 1)))
        elif name == "reset":
            trainer.reply(Encoder().reset(b""))
        elif name == "step":
            trainer.reply(Encoder().actions(actions, b"", deprecated_field=True))
        else:
            assert name == "close"
            trainer.reply(encode_quit())
            return
        decoder.decode(_received(trainer))


def _received(trainer: ServerSession | GrpcioSession) -> bytes:
    request = trainer.receive(10)
    assert request is not None
    return request


def _meaning(data: bytes) -> messages.UnityMessageProto:
    """Without the side channels' bytes: the reference's analytics, whose content is its own versions."""
    read = messages.UnityMessageProto.FromString(data)
    if read.unity_input.HasField("rl_input"):
        read.unity_input.rl_input.ClearField("side_channel")
    return read
