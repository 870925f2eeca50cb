"""Files of others are opened only if they are files, and a run writes through no link that it finds."""

import logging
import os
from pathlib import Path

import pytest
from lanista.envs.engines.logs import new_log
from lanista.envs.utils import regular_files
from lanista.envs.utils.regular_files import open_file, open_own, read_bytes, read_text, refuse_pipe
from lanista.trainers.runner import ranks
from lanista.trainers.stats.writers import CsvTable
from lanista.trainers.tools.run_process import RunProcess
from lanista.trainers.utils.logging import PACKAGE, warnings_kept

PRECIOUS = "line one\nprecious without an end"


@pytest.mark.posix("named pipes")
def test_a_pipe_or_a_device_is_refused_and_what_a_shell_has_opened_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    for name in ("pipe", "device"):
        with pytest.raises(OSError, match="a pipe or a device"):
            read_bytes(tmp_path / name)
    refuse_pipe(tmp_path)
    reader, writer = os.pipe()
    with open(writer, "wb") as file, open(reader, "rb"):
        file.write(b"given")
        file.close()
        assert read_bytes(Path(f"/dev/fd/{reader}")) == b"given"


def _table(path):
    CsvTable(path).append({"step": 1, "time": 0.0})


def _warning(path):
    with warnings_kept(path):
        logging.getLogger(PACKAGE).warning("something")


def _engine(path):
    new_log(path.parent, 0).path.write_text("of an engine")


def _rank(path, monkeypatch):
    def start(command):
        ranks.main([*command[-5:-1], str(path)])

    monkeypatch.setattr(ranks, "further_rank", lambda *_: None)
    monkeypatch.setattr(ranks.os, "dup2", lambda *_: None)
    monkeypatch.setattr(ranks, "EngineProcess", start)
    ranks.RankProcesses(2, "cpu", path.parent, 60.0)


def _trial(path):
    RunProcess([], path, ("true",)).kill()


@pytest.mark.posix("links need a right there")
@pytest.mark.parametrize("there", [PRECIOUS, "", None], ids=["text", "empty", "nothing"])
@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("summaries.csv", _table),
        ("warnings.log", _warning),
        ("Player-0.log", _engine),
        ("learner-1.log", _rank),
        ("trial.log", _trial),
    ],
)
def test_what_a_link_in_a_run_leads_to_stays(tmp_path, monkeypatch, caplog, name, write, there):
    victim, path = tmp_path / "victim", tmp_path / "run" / name
    path.parent.mkdir()
    if there is not None:
        victim.write_text(there)
    path.symlink_to(victim)
    write(path, monkeypatch) if write is _rank else write(path)
    assert (victim.read_text() if victim.exists() else None) == there
    assert path.is_file() and not path.is_symlink()
    assert f"{path} was a link to {victim}" in caplog.text


@pytest.mark.posix("named pipes")
def test_a_pipe_that_takes_a_file_s_place_at_the_last_moment_is_not_waited_for(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(regular_files, "refuse_pipe", lambda path: None)
    with pytest.raises(OSError, match="a pipe or a device"):
        open_file(tmp_path / "pipe")


@pytest.mark.posix("device files")
@pytest.mark.skipif(not os.path.exists("/proc/self/root/dev/zero"), reason="no such names here")
@pytest.mark.parametrize("path", ["/dev/fd/../root/dev/zero", "/proc/self/fd/../../../dev/zero"])
def test_a_device_is_not_what_a_shell_has_opened(path):
    with pytest.raises(OSError, match="a pipe or a device"):
        read_text(Path(path))


def test_a_file_is_read_up_to_a_size(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 11)
    assert read_bytes(path, 11) == read_bytes(path) == b"x" * 11
    with pytest.raises(OSError, match="it holds more than 0 MiB"):
        read_bytes(path, 10)
    with path.open("wb") as file:
        file.truncate(1 << 34)
    with pytest.raises(OSError, match="it holds more than 16 MiB"):
        read_text(path)
    with path.open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(OSError, match="4,194,304 MiB, more than is free"):
        read_bytes(path)


@pytest.mark.posix("links need a right there")
@pytest.mark.parametrize("mode", ["wb", "ab", "r+b"])
def test_a_link_that_comes_at_the_last_moment_is_not_written_through(tmp_path, monkeypatch, mode):
    victim, path = tmp_path / "victim", tmp_path / "a.log"
    victim.write_text(PRECIOUS)
    path.symlink_to(victim)
    monkeypatch.setattr(regular_files, "remove_link", lambda path: None)
    with pytest.raises(OSError, match="symbolic link"):
        open_own(path, mode)
    assert victim.read_text() == PRECIOUS
