"""The line with which a relay begins, and its answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.remote.handshake import MAX_LINE, Preamble, PreambleError, decode_answer, encode_answer

TOKENS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=512)
NAMES = st.none() | st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True).filter(lambda name: name != "-")


@given(TOKENS, NAMES, st.booleans())
def test_what_is_said_is_understood(token, name, probe):
    said = Preamble(token, name, probe)
    line = said.encode()
    assert line.endswith(b"\n") and len(line) <= MAX_LINE
    assert Preamble.decode(line[:-1]) == said


@given(st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(line):
    with pytest.raises(PreambleError):
        Preamble.decode(line)


@pytest.mark.parametrize("name", ["-", "", "two words", "line\nbreak", "x" * 65, "ü"])
def test_a_name_that_would_be_misread_is_not_sent(name):
    said = Preamble("t" * 20, name or " ")
    with pytest.raises(PreambleError):
        said.encode()


def test_another_version_is_told_apart():
    with pytest.raises(PreambleError, match="another version"):
        Preamble.decode(b"lanista-relay/2 carry " + b"t" * 20 + b" -")


def test_a_token_is_not_shown_by_accident():
    assert "secret" not in repr(Preamble("secret" * 4))


@given(st.text(max_size=2000))
def test_a_refusal_is_one_line_that_is_understood(reason):
    line = encode_answer(reason)
    assert line.count(b"\n") == 1 and line.endswith(b"\n") and len(line) <= MAX_LINE
    told = decode_answer(line[:-1])
    assert told is not None and told.isprintable()


def test_a_welcome():
    assert decode_answer(encode_answer(None)[:-1]) is None
    with pytest.raises(PreambleError):
        decode_answer(b"HTTP/1.1 200 OK")
