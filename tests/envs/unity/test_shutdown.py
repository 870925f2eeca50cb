"""Engines that a script leaves open when it ends."""

import pytest
from lanista.envs.unity import shutdown as leaving


class Connection:
    timeout = 5.0

    def __init__(self, *, fails=()):
        self.fails, self.calls = fails, []

    def send_quit(self):
        self._note("send_quit")

    def close(self, timeout):
        self._note("close")

    def _note(self, call):
        self.calls.append(call)
        if call in self.fails:
            raise OSError(f"{call} failed")


@pytest.mark.parametrize("failing", ["send_quit", "close"])
def test_one_that_fails_does_not_keep_the_others_from_being_closed(monkeypatch, caplog, failing):
    connections = [Connection(), Connection(fails=(failing,)), Connection()]
    monkeypatch.setattr(leaving, "_open", dict.fromkeys(connections))
    leaving._close_all()
    assert [connection.calls for connection in connections] == [["send_quit", "close"]] * 3
    assert f"{failing} failed" in caplog.text
    assert not leaving._open
