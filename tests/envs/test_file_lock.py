"""A lock is one process's, tells whose it is, and goes with the process that held it."""

import errno
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from lanista.envs.file_lock import FileLock, Holder, LockingNotSupportedError, WindowsLocking

HOLD = """\
import sys, time
from lanista.envs.file_lock import FileLock
print(FileLock(sys.argv[1]).take(), flush=True)
time.sleep(600)
"""


class FakeMsvcrt:
    """What the module of this name does with the locks of all handles of a file: by inode and position."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        self.holders = {}

    def locking(self, handle, mode, size):
        place = (os.fstat(handle).st_ino, os.lseek(handle, 0, os.SEEK_CUR), size)
        if mode == self.LK_UNLCK:
            del self.holders[place]
        elif self.holders.setdefault(place, handle) != handle:
            raise OSError(errno.EACCES, "Permission denied")


@pytest.fixture(params=["this system's", "windows"])
def locking(request):
    return None if request.param == "this system's" else WindowsLocking(FakeMsvcrt())


def test_two_cannot_hold_it_and_the_second_learns_who_does(tmp_path, locking):
    first, second = (FileLock(tmp_path / "lock", locking) for _ in range(2))
    assert first.take()
    assert not second.take()
    holder = second.holder()
    assert holder.pid == os.getpid() and abs(holder.since - time.time()) < 60
    assert f"process {os.getpid()}, since 2" in str(holder)
    second.give_back()  # of what was never taken
    assert not second.take()
    first.give_back()
    assert second.take()
    second.give_back()
    assert os.listdir(tmp_path) == []


def test_another_machine_is_named(tmp_path):
    assert "process 7 on elsewhere, since" in str(Holder(7, "elsewhere", time.time()))


@pytest.mark.parametrize("content", ["", "{", '{"pid": 3}', "\0\0"])
def test_what_a_dead_process_left_is_taken_over(tmp_path, content):
    (tmp_path / "lock").write_text(content)
    lock = FileLock(tmp_path / "lock")
    assert lock.holder() is None
    assert lock.take() and lock.holder().pid == os.getpid()
    lock.give_back()


def test_a_file_that_was_removed_before_it_was_locked_is_no_lock(tmp_path):
    """As when the holder gives it back between another's opening and locking."""
    path, first = tmp_path / "lock", FileLock(tmp_path / "lock")
    first.take()
    real = first._locking

    class Slow:
        def lock(self, handle):
            first.give_back()
            real.lock(handle)

        unlock = real.unlock

    second, third = FileLock(path, Slow()), FileLock(path)
    assert second.take()
    assert not third.take(), "the second one's lock is of the file that everybody sees"
    second.give_back()


def test_of_many_at_the_same_instant_one_gets_it(tmp_path):
    locks = [FileLock(tmp_path / "lock") for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            assert sum(pool.map(FileLock.take, locks)) == 1
            for lock in locks:
                lock.give_back()


def test_a_file_system_without_locks_is_told_from_a_lock_of_another(tmp_path):
    class None_:
        def lock(self, handle):
            raise OSError(errno.ENOLCK, "No locks available")

    with pytest.raises(LockingNotSupportedError, match="No locks available"):
        FileLock(tmp_path / "lock", None_()).take()
    assert not list(tmp_path.iterdir()), "nothing is left behind"


@pytest.mark.skipif(os.name != "posix", reason="kills by a signal")
def test_a_killed_process_holds_nothing(tmp_path):
    lock = FileLock(tmp_path / "lock")
    with subprocess.Popen([sys.executable, "-c", HOLD, lock.path], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"True\n"
        assert not lock.take() and lock.holder().pid == other.pid
        other.send_signal(signal.SIGKILL)
    assert lock.take()
    lock.give_back()
