"""Files of others are opened only if they are files, and a run writes through no link that it finds."""

import logging
import os

import pytest
from lanista.envs.engines.logs import new_log
from lanista.envs.utils.regular_files import read_bytes, refuse_pipe
from lanista.trainers.runner import ranks
from lanista.trainers.stats.writers import CsvTable
from lanista.trainers.tools.run_process import RunProcess
from lanista.trainers.utils.logging import PACKAGE, warnings_kept

PRECIOUS = "line one\nprecious without an end"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
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
        assert read_bytes(type(tmp_path)(f"/dev/fd/{reader}")) == b"given"


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


@pytest.mark.skipif(os.name == "nt", reason="links need a right there")
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
