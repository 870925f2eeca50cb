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
