"""Windows' job objects, opposite a small model of that kernel which ends real processes."""

import ctypes
import struct
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from lanista.envs.engines.reaper import JobObject, JobReaper, kernel32

KILL_ON_JOB_CLOSE = 0x2000
WINDOWS_BYTES = 144
"""Of JOBOBJECT_EXTENDED_LIMIT_INFORMATION in a 64-bit Windows; its flags are at byte 16."""

pytestmark = [
    pytest.mark.skipif(ctypes.sizeof(ctypes.c_void_p) != 8, reason="the layout is that of 64 bits"),
    pytest.mark.posix(
        "the model's processes are those of a shell; the journeys have Windows' own job object"
    ),
]


class ModelKernel:
    """Jobs and handles as Windows documents them."""

    def __init__(self, refuses: str = "") -> None:
        self._refuses = refuses
        self._handles: dict[int, tuple[str, int, int]] = {}
        """Kind, process and access."""
        self._flags: dict[int, int] = {}
        self._members: dict[int, set[int]] = {}

    def _open(self, kind: str, pid: int = 0, access: int = 0) -> int:
        handle = 4 * (len(self._handles) + 1)
        self._handles[handle] = (kind, pid, access)
        return handle

    def CreateJobObjectW(self, attributes, name):
        assert attributes is None, "the handle must not be inherited"
        return None if self._refuses == "CreateJobObject" else self._open("job")

    def SetInformationJobObject(self, job, kind, data, size):
        if self._refuses == "SetInformationJobObject" or (kind, size) != (9, WINDOWS_BYTES):
            return 0
        content = ctypes.string_at(ctypes.addressof(data._obj), size)
        (self._flags[job],) = struct.unpack_from("<I", content, 16)
        assert sum(content) == sum(struct.pack("<I", self._flags[job])), "all else is left as it is"
        return 1

    def OpenProcess(self, access, inherit, pid):
        assert not inherit
        there = psutil.pid_exists(pid) and self._refuses != "OpenProcess"
        return self._open("process", pid, access) if there else None

    def AssignProcessToJobObject(self, job, process):
        _, pid, access = self._handles[process]
        if self._refuses == "AssignProcessToJobObject" or access & 0x101 != 0x101:
            return 0
        self._members.setdefault(job, set()).add(pid)
        return 1

    def CloseHandle(self, handle):
        kind, _, _ = self._handles.pop(handle)
        if kind == "job" and self._flags.get(handle, 0) & KILL_ON_JOB_CLOSE:
            for pid in self._members.get(handle, set()):
                psutil.Process(pid).kill()
        return 1

    def end_process(self) -> list[str]:
        """Close all handles, as the end of their process does; returns their kinds."""
        kinds = [kind for kind, _, _ in self._handles.values()]
        for handle in list(self._handles):
            self.CloseHandle(handle)
        return kinds


@pytest.fixture
def suspended(tmp_path):
    """A process that waits to be resumed, and writes a file then."""
    script = f"kill -STOP $$; echo begun > {tmp_path}/begun; sleep 600"
    process = subprocess.Popen(["/bin/sh", "-c", script])
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


def begins(folder: Path) -> bool:
    deadline = time.monotonic() + 20
    while not (folder / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return (folder / "begun").exists()


def test_a_process_ends_with_the_one_that_has_put_it_into_the_job(suspended):
    kernel = ModelKernel()
    JobObject(kernel).add(suspended.pid)
    assert suspended.poll() is None
    assert kernel.end_process() == ["job"], "no handle of a process is left open"
    assert suspended.wait(20) < 0


@pytest.mark.parametrize("function", ["CreateJobObject", "SetInformationJobObject"])
def test_a_system_that_makes_no_job_is_an_error_that_names_the_function(function):
    with pytest.raises(OSError, match=function):
        JobObject(ModelKernel(refuses=function))


@pytest.mark.parametrize("function", ["OpenProcess", "AssignProcessToJobObject"])
def test_a_process_that_cannot_be_put_into_the_job_leaves_no_handle(function, suspended):
    kernel = ModelKernel(refuses=function)
    job = JobObject(kernel)
    with pytest.raises(OSError, match=function):
        job.add(suspended.pid)
    assert kernel.end_process() == ["job"]


def test_an_engine_begins_once_it_is_in_the_job(suspended, tmp_path, caplog):
    kernel = ModelKernel()
    reaper = JobReaper(kernel)
    reaper.admit(suspended.pid)
    assert begins(tmp_path) and not caplog.text
    kernel.end_process()
    assert suspended.wait(20) < 0


@pytest.mark.parametrize("function", ["CreateJobObject", "AssignProcessToJobObject"])
def test_an_engine_begins_without_a_job_too_after_a_warning(suspended, tmp_path, caplog, function):
    JobReaper(ModelKernel(refuses=function)).admit(suspended.pid)
    assert begins(tmp_path)
    assert f"No guard for process {suspended.pid}: {function}" in caplog.text


def test_what_an_engine_leaves_behind_ends_with_it_alone(suspended):
    """Every engine has a job of its own. With one job for all, it lived as long as the trainer."""
    kernel = ModelKernel()
    reaper = JobReaper(kernel)
    with subprocess.Popen(["sleep", "600"]) as other:
        for process in (suspended, other):
            reaper.admit(process.pid)
        reaper.remove(suspended.pid)
        assert suspended.wait(20) < 0 and other.poll() is None
        reaper.remove(suspended.pid)
        assert kernel.end_process() == ["job"]
        assert other.wait(20) < 0


def test_an_engine_that_cannot_be_put_into_its_job_leaves_no_handle(suspended):
    kernel = ModelKernel(refuses="AssignProcessToJobObject")
    JobReaper(kernel).admit(suspended.pid)
    assert kernel.end_process() == []


def test_engines_are_started_suspended_in_a_group_of_their_own():
    """So that nothing of them runs outside the job, and Ctrl-C does not reach them."""
    assert JobReaper.creation_flags == 0x4 | 0x200


def test_other_systems_have_no_job_objects(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(OSError, match="only Windows"):
        kernel32()
