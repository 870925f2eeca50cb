"""Readers return what was written, and damaged messages are errors that can be caught."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.side_channels import IncomingMessage, OutgoingMessage
from mlagents_envs.exception import UnitySideChannelException

FLOATS = st.floats(width=32, allow_nan=False)
VALUES = st.one_of(
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.just("int32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("float32"), FLOATS),
    st.tuples(st.just("float32_list"), st.lists(FLOATS, max_size=5)),
    st.tuples(st.just("string"), st.text(max_size=8)),
)


@given(st.lists(VALUES, max_size=8))
def test_reads_back_what_was_written(values):
    message = OutgoingMessage()
    for kind, value in values:
        getattr(message, f"write_{kind}")(value)
    incoming = IncomingMessage(message.buffer)
    assert [getattr(incoming, f"read_{kind}")() for kind, _ in values] == [value for _, value in values]
    assert incoming.read_int32(7) == 7, "nothing may be left"


def test_every_reader_returns_its_default_at_the_end():
    message = IncomingMessage(b"")
    assert message.read_bool() is False and message.read_bool(True) is True
    assert message.read_int32() == 0 and message.read_int32(3) == 3
    assert message.read_float32() == 0.0 and message.read_float32(2.5) == 2.5
    assert message.read_float32_list() == [] and message.read_float32_list([1.0]) == [1.0]
    assert message.read_string() == "" and message.read_string("x") == "x"


@given(st.binary(max_size=24), st.lists(st.sampled_from(["int32", "float32", "float32_list", "string"])))
def test_random_bytes_are_read_or_refused(data, kinds):
    message = IncomingMessage(data)
    for kind in kinds:
        try:
            getattr(message, f"read_{kind}")()
        except UnitySideChannelException:
            break


@pytest.mark.parametrize("length", [-1, 5, 2**31 - 1])
def test_a_text_of_wrong_length_names_the_byte(length):
    with pytest.raises(UnitySideChannelException, match="at byte 4"):
        IncomingMessage(struct.pack("<i", length) + b"four").read_string()


def test_a_text_in_another_encoding_is_refused():
    with pytest.raises(UnitySideChannelException, match="neither ASCII nor UTF-8"):
        IncomingMessage(struct.pack("<i", 2) + b"\xff\xfe").read_string()


def test_reading_may_start_inside_a_buffer():
    assert IncomingMessage(b"xx\x05\x00\x00\x00", offset=2).read_int32() == 5


def test_raw_bytes_replace_what_was_written_with_a_warning():
    message = OutgoingMessage()
    message.write_int32(1)
    with pytest.warns(UserWarning, match="drops"):
        message.set_raw_bytes(b"abc")
    assert message.buffer == b"abc"
    assert IncomingMessage(message.buffer).get_raw_bytes() == b"abc"
