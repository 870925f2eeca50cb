"""What reads messages and pictures of engines, for `fuzz.py`; `fuzz_connections.py` has what carries them."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from functools import cache
from itertools import islice
from random import Random
from zlib import crc32

import numpy as np
from damaged_bytes import mutated
from fuzz_target import Target, refusal
from godot_messages import WORDS, damaged_value
from godot_messages import sessions as godot_sessions
from lanista.envs.errors import ObservationError, WireError
from lanista.envs.godot.messages import make_messages, parse_message
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.dialect import UNITY, UNREAL, Dialect
from lanista.envs.protocol.images import CompressedImage, ImageCache
from lanista.envs.protocol.png_writer import SIGNATURE
from lanista.envs.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannelManager,
    StatsSideChannel,
)
from lanista.envs.side_channels.messages import OutgoingMessage
from lanista.envs.validation import NonFinitePolicy, check_finite
from mlagents_envs.exception import UnityException
from scripted_game import encode
from transcripts import FILES, messages_of
from translated import spoken
from wiremessages import message_with_images, png_file

NAME = "environment 7"

# Every input of a message begins with a byte that chooses the session in which it arrives.


@cache
def sessions() -> list[tuple[Dialect, list[bytes], list[bytes]]]:
    """Of each session the messages until its behaviors are described, and some of it."""
    found = []
    for number, path in enumerate(FILES):
        for dialect in (UNITY, UNREAL)[: 2 if number == 0 else 1]:
            data = [spoken(sent, dialect) for _, sent in islice(messages_of(path), 40)]
            decoder = Decoder(dialect=dialect)
            start = next(i for i, sent in enumerate(data) if decoder.decode(sent).specs)
            found.append((dialect, data[: start + 1], [*data[: start + 1], *data[start + 1 :: 12]]))
    pictures = message_with_images()
    found.append((UNITY, [pictures], [pictures]))
    return found


def chosen(data: bytes, count: int) -> tuple[int, bytes]:
    """The number of the session, and the rest."""
    return (data[0] % count, data[1:]) if data else (0, b"")


def with_choice(lists: list[list[bytes]]) -> list[bytes]:
    """The seeds of several sessions as inputs."""
    return [bytes([number]) + seed for number, seeds in enumerate(lists) for seed in seeds]


def read_message(data: bytes) -> None:
    number, rest = chosen(data, 2 * len(sessions()))
    dialect, before, _ = sessions()[number // 2]
    decoder = Decoder(NAME, dialect=dialect)
    for message in before if number % 2 else ():
        decoder.decode(message)
    with refusal(UnityException, names=NAME):
        found = decoder.decode(rest)
        side_channels().process(found.side_channel)
        for behavior, steps in (found.steps or {}).items():
            check_finite(steps, decoder.specs[behavior], NAME, behavior, NonFinitePolicy.STOP)


def message_seeds() -> list[bytes]:
    return with_choice([seeds for _, _, seeds in sessions() for _ in range(2)])


def side_channels() -> SideChannelManager:
    channels = [StatsSideChannel(), EnvironmentParametersChannel(), EngineConfigurationChannel()]
    return SideChannelManager(channels, where=NAME)


def read_side_channels(data: bytes) -> None:
    with refusal(UnityException, names=NAME):
        side_channels().process(data)


def side_channel_seeds() -> list[bytes]:
    statistic = OutgoingMessage()
    statistic.write_string("Crawler/Speed")
    statistic.write_float32(1.5)
    statistic.write_int32(0)
    content = bytes(statistic.buffer)
    return [
        struct.pack("<16si", channel().channel_id.bytes_le, len(content)) + content
        for channel in (StatsSideChannel, EnvironmentParametersChannel, EngineConfigurationChannel)
    ]


@cache
def games() -> list[list[dict[str, object]]]:
    return godot_sessions()


def read_godot(data: bytes) -> None:
    number, rest = chosen(data, 2 * len(games()))
    session = games()[number // 2]
    messages = make_messages(session[0], NAME, "float32") if number % 2 else None
    with refusal(WireError, names=NAME):
        message = parse_message(rest, NAME)
        if messages is None:
            make_messages(message, NAME, "uint8")
        elif messages.answer(message) is None:
            messages.read(message)


def read_godot_session(data: bytes) -> None:
    """What a game says of itself, and a line of JSON for each message that follows."""
    with refusal(WireError, names=NAME):
        info, *others = data.split(b"\n")
        messages = make_messages(parse_message(info, NAME), NAME, "uint8")
        for line in others:
            if messages.answer(message := parse_message(line, NAME)) is None:
                messages.read(message)


def godot_session_seeds() -> list[bytes]:
    return [b"\n".join(json.dumps(message).encode() for message in game[:4]) for game in games()]


def godot_seeds() -> list[bytes]:
    lists = [part for session in games() for part in (session[:1], session[1:4])]
    return with_choice([[encode(message) for message in part] for part in lists])


def damaged_json(data: bytes, random: Random) -> bytes:
    """With one of its values replaced; else with some bytes changed."""
    if random.random() < 0.5:
        with suppress(ValueError, RecursionError, IndexError, TypeError):
            return data[:1] + encode(damaged_value(json.loads(data[1:]), random))
    return mutated(data, random, WORDS)


SHAPES = [(1, 5, 7), (3, 5, 7), (4, 5, 7), (3, 64, 64)]


def read_png(data: bytes) -> None:
    number, rest = chosen(data, 2 * len(SHAPES))
    out = np.zeros(SHAPES[number // 2], [np.float32, np.uint8][number % 2])  # type: ignore[call-overload]
    with refusal(ObservationError, names=NAME):
        CompressedImage(rest, (), out, NAME).decode(ImageCache())


def png_seeds() -> list[bytes]:
    pixels = np.arange(5 * 7 * 4, dtype=np.uint8).reshape(5, 7, 4)
    gray, color, alpha = png_file(pixels[..., 0]), png_file(pixels[..., :3]), png_file(pixels)
    large = png_file(np.zeros((64, 64, 3), np.uint8))
    return with_choice(
        [each for seeds in ([gray], [color], [alpha, gray + color], [large]) for each in (seeds, seeds)]
    )


def damaged_png(data: bytes, random: Random) -> bytes:
    """With a chunk changed whose checksum is right; else with some bytes changed."""
    if random.random() < 0.3:
        return mutated(
            data, random, (SIGNATURE, b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"IEND", b"iCCP", b"zTXt")
        )
    out, at = [data[:9]], 9
    while at + 12 <= len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length
        if random.random() < 0.3:
            body = mutated(body, random)
        if random.random() < 0.1:
            kind = random.choice(
                (b"PLTE", b"tRNS", b"iCCP", b"zTXt", b"gAMA", b"acTL", b"fcTL", b"IDAT", b"eXIf")
            )
        out.append(struct.pack(">I", len(body)) + kind + body + struct.pack(">I", crc32(kind + body)))
    return b"".join(out) + data[at:]


WIRE = {
    "wire": Target(message_seeds, read_message),
    "side_channels": Target(side_channel_seeds, read_side_channels),
    "godot": Target(godot_seeds, read_godot, damaged_json),
    "godot_session": Target(godot_session_seeds, read_godot_session),
    "png": Target(png_seeds, read_png, damaged_png),
}
