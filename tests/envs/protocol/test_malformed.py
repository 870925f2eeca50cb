"""Malformed bytes end in a WireError that says where they came from."""

import random
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from damaged_bytes import mutated
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.errors import WireError
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.dialect import UNITY, Dialect
from lanista.envs.protocol.encoder import Encoder
from lanista.envs.protocol.engine_decoder import ReplyDecoder
from lanista.envs.protocol.png_writer import SIGNATURE
from mlagents_envs.base_env import ActionTuple
from transcripts import FILES, messages_of
from translated import spoken
from wiremessages import DIALECTS, message_with_images
from wirereference import trainer_message


class Session(NamedTuple):
    """Some messages of a session."""

    before: list[bytes]
    """Of the handshake."""
    first: bytes
    """The one that describes the behaviors."""
    others: list[bytes]


def has_images(dialect: Dialect) -> bool:
    """Whether it can say compressed images."""
    return dialect.has("ObservationProto", "compressed_data")


@cache
def session_of(path: Path, dialect: Dialect) -> Session | None:
    """The beginning of a session; None if it has images and the dialect none."""
    sent = [data for _, data in messages_of(path)]
    if not has_images(dialect) and any(SIGNATURE in data for data in sent):
        return None
    data = [spoken(each, dialect) for each in sent]
    decoder = Decoder(dialect=dialect)
    start = next(i for i, each in enumerate(data) if decoder.decode(each).specs)
    return Session(data[:start], data[start], data[start : start + 20])


@cache
def real_messages(dialect: Dialect = UNITY) -> list[Session]:
    """The beginning of each session; last, if the dialect has them, one with compressed images."""
    result = [session for path in FILES if (session := session_of(path, dialect)) is not None]
    if has_images(dialect):
        result.append(Session([], message_with_images(), [message_with_images()] * 3))
    return result


def survives(decoder: Decoder, data: bytes) -> bool:
    try:
        decoder.decode(data)
    except WireError as error:
        assert str(error).startswith("environment 7: ")
        return False
    return True


@DIALECTS
@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**64))
def test_mutated_real_messages_decode_or_raise_a_wire_error(seed: int, dialect: Dialect) -> None:
    rng = random.Random(seed)
    before, first, others = rng.choice(real_messages(dialect))
    decoder = Decoder("environment 7", dialect=dialect)
    if rng.random() < 0.3:
        survives(decoder, mutated(first, rng))
        return
    decoder.decode(first)
    survives(decoder, mutated(rng.choice(before + others), rng))


@DIALECTS
@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_decode_or_raise_a_wire_error(data: bytes, dialect: Dialect) -> None:
    survives(Decoder("environment 7", dialect=dialect), data)
    try:
        ReplyDecoder(dialect).decode(data)
    except WireError as error:
        assert "malformed" in str(error) or "not of one size" in str(error)


@DIALECTS
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**64))
def test_a_mutated_message_that_protobuf_accepts_means_the_same_to_the_decoder(
    seed: int, dialect: Dialect
) -> None:
    """Where both read it, they read the same agents: no mutation slips through the comparison of layouts."""
    rng = random.Random(seed)
    _, first, others = rng.choice(real_messages(dialect))
    decoder = Decoder("environment 7", dialect=dialect)
    decoder.decode(first)
    data = mutated(rng.choice(others), rng)
    try:
        proto = dialect.messages.UnityMessageProto.FromString(data).unity_output
    except (DecodeError, UnicodeDecodeError):  # the latter of protobuf's implementation in Python
        return
    if proto.rl_initialization_output.brain_parameters or not survives(decoder, data):
        return
    steps = decoder.decode(data).steps
    for name, listed in proto.rl_output.agentInfos.items():
        if not listed.value:
            continue
        assert steps is not None
        asking = [agent for agent in listed.value if not agent.done]
        found = steps[name][0]
        assert found.agent_id.tolist() == [agent.id for agent in asking]
        np.testing.assert_array_equal(found.reward, np.array([a.reward for a in asking], np.float32))
        for index, values in enumerate(found.obs):
            if any(agent.observations[index].compressed_data for agent in asking):
                continue  # an image, whose file protobuf does not read
            expected = [list(agent.observations[index].float_data.data) for agent in asking]
            np.testing.assert_array_equal(values.ravel(), np.array(expected, np.float32).ravel())


def label_of(name: str) -> bytes:
    """An observation's name after its length."""
    return bytes([len(name.encode())]) + name.encode()


@DIALECTS
def test_a_message_cut_anywhere_has_no_agents(dialect: Dialect) -> None:
    first = min((session.first for session in real_messages(dialect)), key=len)
    whole = [
        cut
        for cut in range(len(first))
        if survives(decoder := Decoder("environment 7", dialect=dialect), first[:cut]) and decoder.specs
    ]
    assert whole == []


@DIALECTS
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_error_names_environment_behavior_and_byte(path: Path, dialect: Dialect) -> None:
    """In the last message that has agents of a behavior."""
    session = session_of(path, dialect)
    if session is None:
        pytest.skip("the dialect has no compressed images")
    known = Decoder(dialect=dialect)
    for sent in session.others:
        known.decode(sent)
    labels = {name: label_of(spec.observation_specs[0].name) for name, spec in known.specs.items()}
    last = max(k for k, sent in enumerate(session.others) if any(map(sent.__contains__, labels.values())))
    data = bytearray(session.others[last])
    at = min(data.index(label) for label in labels.values() if label in data)
    names = [re.escape(name) for name, label in labels.items() if data.startswith(label, at)]
    decoder = Decoder("environment 7", dialect=dialect)
    for sent in session.others[:last]:
        decoder.decode(sent)
    data[at] = 0x7F  # of the name, which now ends beyond its observation, or takes numbers for its letters
    with pytest.raises(WireError) as raised:
        decoder.decode(bytes(data))
    told = re.match(rf"environment 7: behavior '({'|'.join(names)})': .*byte (\d+): ", str(raised.value))
    assert told is not None, raised.value
    # The place is in the agent's message: where it begins, or where the name that is now 127 bytes long ends.
    assert 0 < int(told[2]) <= min(len(data), at + 1 + 0x7F)


@DIALECTS
@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**64), ours=st.booleans())
def test_a_mutated_answer_is_read_as_protobuf_reads_it_or_is_a_wire_error(
    seed: int, ours: bool, dialect: Dialect
) -> None:
    rng = random.Random(seed)
    actions = {"A": ActionTuple(np.ones((20, 2), np.float32), np.full((20, 2), 300, np.int32))}
    if ours:
        data = Encoder(dialect).actions(actions, b"x")
    else:
        data = trainer_message(actions, True, b"x", dialect)
    data = mutated(data, rng)
    try:
        reply = ReplyDecoder(dialect).decode(data)
    except WireError:
        return
    rl_input = dialect.messages.UnityMessageProto.FromString(data).unity_input.rl_input
    if reply.kind == "step":
        assert reply.side_channel == rl_input.side_channel
        for name in rl_input.agent_actions:  # protobuf drops map entries that hold unknown fields
            continuous, discrete = reply.actions[name]
            rows = rl_input.agent_actions[name].value
            expected = np.array([list(row.continuous_actions) for row in rows], np.float32)
            np.testing.assert_array_equal(continuous.ravel(), expected.ravel())
            assert discrete.ravel().tolist() == [x for row in rows for x in row.discrete_actions]
