"""The preamble with which a relay starts, and its answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.remote.preamble import (
    MAX_LINE,
    Preamble,
    PreambleError,
    Refusal,
    decode_answer,
    encode_answer,
)

TOKENS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=512)
NAMES = st.none() | st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True).filter(lambda name: name != "-")


@given(TOKENS, NAMES, st.booleans())
def test_an_encoded_preamble_is_decoded(token, name, probe):
    preamble = Preamble(token, name, probe)
    line = preamble.encode()
    assert line.endswith(b"\n") and len(line) <= MAX_LINE
    assert Preamble.decode(line[:-1]) == preamble


@given(st.binary(max_size=200))
def test_any_other_bytes_are_an_error(line):
    with pytest.raises(PreambleError):
        Preamble.decode(line)


@pytest.mark.parametrize("name", ["-", "", "two words", "line\nbreak", "x" * 65, "ü"])
def test_a_name_that_would_be_misread_is_not_encoded(name):
    with pytest.raises(PreambleError):
        Preamble("t" * 20, name or " ").encode()


def test_another_version_is_an_error_of_its_own():
    with pytest.raises(PreambleError, match="another version"):
        Preamble.decode(b"lanista-relay/2 carry " + b"t" * 20 + b" -")


def test_the_repr_does_not_contain_the_token():
    assert "secret" not in repr(Preamble("secret" * 4))


@given(st.text(max_size=2000), st.none() | st.integers(0, 10**6))
def test_a_rejection_is_encoded_as_one_printable_line(reason, seconds):
    line = encode_answer(Refusal(reason, seconds))
    assert line.count(b"\n") == 1 and line.endswith(b"\n") and len(line) <= MAX_LINE
    decoded = decode_answer(line[:-1])
    assert decoded is not None and decoded.reason.isprintable()
    assert decoded.seconds == (None if seconds is None else min(seconds, 9999))


def test_relays_of_before_take_a_refusal_for_now_neither_for_an_admission_nor_for_a_final_one():
    """They know `ok` and `no REASON`, and try again after all else."""
    assert encode_answer(Refusal("wrong token")) == b"no wrong token\n"
    assert encode_answer(Refusal("too many", 7)) == b"later 7 too many\n"


def test_an_admission_is_encoded_without_a_reason():
    assert decode_answer(encode_answer(None)[:-1]) is None
    with pytest.raises(PreambleError):
        decode_answer(b"HTTP/1.1 200 OK")
