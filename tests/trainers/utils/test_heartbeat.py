"""A process that renews its file is awaited; one that does not is given up, sooner if the run is to end."""

import math
import os
import re
from dataclasses import dataclass

import pytest
from console_runs import until
from lanista.trainers.utils import heartbeat
from lanista.trainers.utils.heartbeat import (
    BEAT_SECONDS,
    LAST_SECONDS,
    LAST_START_SECONDS,
    SHORTEST_TIMEOUT,
    START_SECONDS,
    WARNING_SECONDS,
    FolderSigns,
    Heartbeat,
    Presence,
    StoreSigns,
    Watch,
    await_end,
    last_change,
)


@dataclass
class Waiting:
    """A wait for another process, looked after every `BEAT_SECONDS` of a simulated clock."""

    watch: Watch
    now: list[float]
    file: os.PathLike[str]
    beats: int = 0

    def beat(self):
        self.beats += 1
        with open(self.file, "w"):
            pass
        os.utime(self.file, (self.beats, self.beats))

    def given_up_after(self, at_most=1000.0, beating=False):
        """Seconds after which the process is given up, and the reason; None if it is not."""
        start = self.now[0]
        while self.now[0] - start <= at_most:
            if beating:
                self.beat()
            reason = self.watch.lost_reason("It")
            if reason is not None:
                return round(self.now[0] - start, 3), reason
            self.now[0] += BEAT_SECONDS
        return None


def waiting(folder, timeout=60.0, ends=False):
    now, file = [50.0], folder / "alive"
    return Waiting(Watch(lambda: last_change(file), timeout, lambda: ends, lambda: now[0]), now, file)


@pytest.mark.parametrize(
    ("timeout", "ends", "begun", "seconds", "said"),
    [
        (60.0, False, True, 60.0, "no sign of life for 60 s.*timeout_wait"),
        (1.0, False, True, SHORTEST_TIMEOUT, "no sign of life"),
        (1.0, False, False, START_SECONDS, "no sign of life"),
        (100.0, False, False, 100.0, "no sign of life"),
        (60.0, True, True, LAST_SECONDS, "no sign of life for 5 s, and the run is ending"),
        (60.0, True, False, LAST_START_SECONDS, "and the run is ending"),
    ],
)
def test_a_silent_process_is_given_up(tmp_path, timeout, ends, begun, seconds, said):
    wait = waiting(tmp_path, timeout, ends)
    if begun:
        wait.beat()
        assert wait.watch.lost_reason("It") is None
    found, reason = wait.given_up_after()
    assert found == pytest.approx(seconds)
    assert re.search(said, reason)


def test_a_process_is_alive_while_it_is_heard_of(tmp_path):
    wait = waiting(tmp_path)
    assert wait.watch.lost_reason("It") is None and not wait.watch.is_alive
    wait.beat()
    found = []
    for _ in range(4):
        assert wait.watch.lost_reason("It") is None
        found.append(wait.watch.is_alive)
        wait.now[0] += BEAT_SECONDS
    assert found == [True, True, True, False]


def test_a_process_that_lives_is_awaited_but_not_for_ever_once_the_run_is_to_end(tmp_path):
    assert waiting(tmp_path, 60.0).given_up_after(beating=True) is None
    found, reason = waiting(tmp_path, 60.0, ends=True).given_up_after(beating=True)
    assert found == pytest.approx(60.0) and "was not ready 60 s after the run was told to end" in reason
    assert waiting(tmp_path, math.inf, ends=True).given_up_after(beating=True) is None


def test_one_that_goes_on_before_the_limit_is_awaited_again(tmp_path):
    wait = waiting(tmp_path, 60.0)
    wait.beat()
    for _ in range(3):
        assert wait.given_up_after(at_most=55.0) is None
        wait.beat()
    assert wait.watch.silence() == 0.0


def test_a_suspension_of_this_process_is_not_the_other_s_silence(tmp_path):
    wait = waiting(tmp_path, 60.0)
    wait.beat()
    assert wait.watch.lost_reason("It") is None
    wait.now[0] += 10_000.0
    assert wait.watch.lost_reason("It") is None and wait.watch.silence() <= BEAT_SECONDS


@pytest.mark.parametrize(
    ("timeout", "ends", "begun", "warnings"),
    [(60.0, False, True, 1), (60.0, False, False, 1), (8.0, False, True, 0), (60.0, True, True, 0)],
)
def test_the_user_is_told_of_a_silent_process_long_before_it_is_given_up(
    tmp_path, caplog, timeout, ends, begun, warnings
):
    wait = waiting(tmp_path, timeout, ends)
    if begun:
        wait.beat()
    wait.given_up_after()
    told = f"It has shown no sign of life for {WARNING_SECONDS:.0f} s, as if it were suspended"
    assert [told in message for message in caplog.messages] == [True] * warnings
    assert all("awaited for 60 s (env_settings.timeout_wait" in message for message in caplog.messages)


def test_the_user_is_told_once_for_each_silence(tmp_path, caplog):
    wait = waiting(tmp_path, 60.0)
    for silences in (1, 2):
        wait.beat()
        assert wait.given_up_after(at_most=50.0) is None
        assert len(caplog.messages) == silences
    assert waiting(tmp_path, math.inf).given_up_after() is None
    assert len(caplog.messages) == 2, "a rank that awaits another one for ever says nothing"


def test_a_heartbeat_renews_its_sign_until_it_is_stopped(tmp_path):
    called = []
    beat = Heartbeat(lambda: called.append(1))
    beat.start()
    assert until(lambda: len(called) > 2)
    beat.stop()
    beat.join(60)
    assert not beat.is_alive()


@pytest.mark.parametrize("error", [OSError, RuntimeError])
def test_a_heartbeat_ends_with_what_it_is_shown_by(error):
    """A folder that is gone; a store whose process has ended."""

    def renew():
        raise error("gone")

    beat = Heartbeat(renew)
    beat.start()
    beat.join(60)
    assert not beat.is_alive()


class Entries:
    """A store, as torch has them."""

    def __init__(self):
        self.entries = {}

    def set(self, key, value):
        self.entries[key] = value.encode()

    def get(self, key):
        return self.entries[key]

    def check(self, keys):
        return all(key in self.entries for key in keys)


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_ranks_see_each_other_s_signs_and_that_one_is_to_end(tmp_path, kind):
    store = Entries()
    first, second = (
        FolderSigns(tmp_path, rank) if kind == "folder" else StoreSigns(store, rank, 2) for rank in range(2)
    )
    assert first.newest(1) is None and not first.renew(False)
    assert not second.renew(False) and not first.renew(False)
    seen = first.newest(1)
    assert seen is not None
    first.renew(False)
    assert first.newest(1) == seen, "it is silent"
    assert until(lambda: not second.renew(False) and not first.renew(False) and first.newest(1) != seen)
    assert second.renew(True) and first.renew(False) and second.renew(False), "it is not taken back"


def test_whoever_is_to_end_tells_the_others(tmp_path, monkeypatch):
    ending = []
    monkeypatch.setattr(heartbeat.distributed, "end", lambda asked=True: ending.append(asked))
    presence = Presence(FolderSigns(tmp_path, 0), 0, 2)
    try:
        assert list(presence.watches) == [1] and ending == [False]
        FolderSigns(tmp_path, 1).renew(True)
        assert until(lambda: True in ending)
    finally:
        presence.close()


@dataclass
class Ends:
    """A process that ends when it was looked at so often."""

    looks: int

    def wait(self, timeout):
        self.looks -= 1
        return self.looks <= 0


@pytest.mark.parametrize(
    ("looks", "silent", "timeout", "ended"),
    [(1, True, 0.0, True), (3, False, 60.0, True), (10**9, True, 60.0, False), (10**9, False, 0.0, False)],
)
def test_the_end_of_a_process_is_awaited_while_it_lives(tmp_path, monkeypatch, looks, silent, timeout, ended):
    wait = waiting(tmp_path)
    monkeypatch.setattr(wait.watch, "silence", lambda: LAST_SECONDS if silent else 0.0)
    assert await_end(Ends(looks), wait.watch, timeout) is ended
