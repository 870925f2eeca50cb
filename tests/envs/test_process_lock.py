"""A lock belongs to one process, names it, and ends with it."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from lanista.envs.utils.process_lock import Holder, LockingNotSupportedError, ProcessLock

HOLD = """\
import sys, time
from lanista.envs.utils.process_lock import ProcessLock
lock = ProcessLock(sys.argv[1])
print(lock.acquire(), flush=True)
time.sleep(600)
"""


def test_two_cannot_hold_it_and_the_second_learns_who_does(tmp_path):
    first, second = (ProcessLock(tmp_path / "lock") for _ in range(2))
    assert first.acquire()
    assert not second.acquire()
    holder = second.holder()
    assert holder.pid == os.getpid() and abs(holder.since - time.time()) < 60
    assert f"process {os.getpid()}, since 2" in str(holder)
    second.release()  # it was never acquired
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()
    assert os.listdir(tmp_path) == []


def test_another_machine_is_named():
    assert "process 7 on elsewhere, since" in str(Holder(7, "elsewhere", time.time()))


@pytest.mark.parametrize("content", ["", "{", ' {"pid": 3}', "\0\0", "x" * 500])
def test_a_lock_left_by_a_dead_process_is_taken_over(tmp_path, content):
    (tmp_path / "lock").write_text(content)
    lock = ProcessLock(tmp_path / "lock")
    assert lock.holder() is None
    assert lock.acquire() and lock.holder().pid == os.getpid()
    lock.release()


def test_of_many_at_once_one_gets_it(tmp_path):
    locks = [ProcessLock(tmp_path / "lock") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            assert sum(pool.map(ProcessLock.acquire, locks)) == 1
            for lock in locks:
                lock.release()


def test_a_lock_that_is_passed_on_has_one_holder_at_a_time(tmp_path):
    """A file that its holder removes while another has opened it locks nothing."""
    inside, most = [], []

    def work(lock):
        for _ in range(30):
            if lock.acquire():
                inside.append(1)
                most.append(len(inside))
                inside.pop()
                lock.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [ProcessLock(tmp_path / "lock") for _ in range(4)]))
    assert max(most) == 1 and not list(tmp_path.iterdir())


@pytest.mark.posix("replaces flock")
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_distinguished_from_a_held_lock(tmp_path, monkeypatch, number):
    def flock(handle, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(LockingNotSupportedError, match=os.strerror(number)):
        ProcessLock(tmp_path / "lock").acquire()
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.posix("kills by a signal")
def test_a_killed_process_holds_nothing(tmp_path):
    lock = ProcessLock(tmp_path / "lock")
    with subprocess.Popen([sys.executable, "-c", HOLD, lock.path], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"True\n"
        assert not lock.acquire() and lock.holder().pid == other.pid
        other.send_signal(signal.SIGKILL)
    assert lock.acquire()
    lock.release()
