"""HTTP/2's frames: the reason of a goodbye is found in what was sent last."""

from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.grpc.frames import ACK, DATA, PING, ErrorCode, frame, goaway, last_goaway_reason

REASONS = st.text(st.characters(exclude_categories=("C", "Z")), max_size=100)


@given(st.binary(max_size=300), REASONS, st.integers(0, 3))
def test_the_reason_of_the_last_goaway_reason_is_found(before, reason, pings):
    tail = (
        frame(DATA, 0, 1, before)
        + goaway(1, ErrorCode.NO_ERROR, reason)
        + pings * frame(PING, ACK, 0, bytes(8))
    )
    assert last_goaway_reason(tail) == reason
    assert last_goaway_reason(tail[5:] if before else tail) == reason, "from anywhere on"


@given(st.binary(max_size=300))
def test_without_a_goodbye_there_is_no_reason(data):
    assert last_goaway_reason(frame(DATA, 0, 1, bytes(300)) + frame(DATA, 0, 3, bytes(len(data)))) == ""
    last_goaway_reason(data)  # whatever came: no error
