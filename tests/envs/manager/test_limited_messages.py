"""An engine that comes and goes many times a second does not fill the log."""

import logging

from lanista.envs.manager.admission import MOST_MESSAGES, PERIOD_SECONDS, LimitedMessages


def test_messages_beyond_a_hundred_a_minute_are_counted(caplog):
    now = [1000.0]
    messages = LimitedMessages(lambda: now[0])
    with caplog.at_level(logging.INFO):
        for number in range(500):
            messages.log(logging.WARNING, "engine %d has left", number)
        assert len(caplog.messages) == MOST_MESSAGES + 1 and "only counted" in caplog.messages[-1]
        now[0] += PERIOD_SECONDS
        caplog.clear()
        messages.log(logging.INFO, "engine %d has joined", 500)
    assert caplog.messages == [
        "400 messages about engines that came and went were left out.",
        "engine 500 has joined",
    ]


def test_a_subject_is_logged_once_a_minute(caplog):
    now = [1000.0]
    messages = LimitedMessages(lambda: now[0])
    with caplog.at_level(logging.INFO):
        for number in range(MOST_MESSAGES + 50):
            messages.log(logging.WARNING, "engine %d is too old", number, subject="10.0.0.1, too old")
        messages.log(logging.WARNING, "engine 1 speaks HTTP", subject="10.0.0.1, HTTP")
        now[0] += PERIOD_SECONDS
        messages.log(logging.WARNING, "engine 999 is too old", subject="10.0.0.1, too old")
    assert caplog.messages == [
        "engine 0 is too old",
        "engine 1 speaks HTTP",
        f"{MOST_MESSAGES + 49} messages about engines that came and went were left out.",
        "engine 999 is too old",
    ]
