"""A process that renews its file is awaited; one that does not is given up, sooner if the run is to end."""

import math
import os
import re
from dataclasses import dataclass

import pytest
from console_runs import until
from lanista.trainers.utils.heartbeat import (
    BEAT_SECONDS,
    LAST_SECONDS,
    LAST_START_SECONDS,
    SHORTEST_TIMEOUT,
    START_SECONDS,
    Heartbeat,
    Watch,
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
        os.utime(self.file, ns=(self.beats, self.beats))

    def given_up_after(self, at_most=1000.0, beating=False):
        """Seconds after which the process is given up, and the reason; None if it is not."""
        start = self.now[0]
        while self.now[0] - start <= at_most:
            if beating:
                self.beat()
            reason = self.watch.lost_reason()
            if reason is not None:
                return round(self.now[0] - start, 3), reason
            self.now[0] += BEAT_SECONDS
        return None


def waiting(folder, timeout=60.0, ends=False):
    now, file = [50.0], folder / "alive"
    return Waiting(Watch(file, timeout, lambda: ends, lambda: now[0]), now, file)


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
        assert wait.watch.lost_reason() is None
    found, reason = wait.given_up_after()
    assert found == pytest.approx(seconds)
    assert re.search(said, reason)


def test_a_process_is_alive_while_it_is_heard_of(tmp_path):
    wait = waiting(tmp_path)
    assert wait.watch.lost_reason() is None and not wait.watch.is_alive
    wait.beat()
    found = []
    for _ in range(4):
        assert wait.watch.lost_reason() is None
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
    assert wait.watch.lost_reason() is None
    wait.now[0] += 10_000.0
    assert wait.watch.lost_reason() is None and wait.watch.silence() <= BEAT_SECONDS


def test_a_heartbeat_renews_its_file_until_it_is_stopped(tmp_path):
    called = []
    beat = Heartbeat(tmp_path / "alive", lambda: called.append(1))
    beat.start()
    assert until(lambda: len(called) > 2)
    beat.stop()
    beat.join(60)
    assert not beat.is_alive()
    watch = Watch(tmp_path / "alive", 60.0, lambda: False)
    assert watch.lost_reason() is None


def test_a_heartbeat_ends_with_its_folder(tmp_path):
    beat = Heartbeat(tmp_path / "nowhere" / "alive")
    beat.start()
    beat.join(60)
    assert not beat.is_alive()
