"""Differences of Windows and macOS, tested on any system."""

import errno
import io
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from lanista.envs.engines import process, selector
from lanista.envs.engines.ports import holder
from lanista.envs.engines.process import EngineProcess
from lanista.envs.engines.terms import UNKNOWN
from lanista.envs.unity import launch
from lanista.envs.unity.executables import check_executable, find_executable
from lanista.trainers.checkpoints import run_folder
from lanista.trainers.learn import run
from lanista.trainers.runner import training
from lanista.trainers.runner.signals import StopSignals
from lanista.trainers.settings import RunOptions, parse_command_line
from lanista.trainers.stats.display import PlainDisplay, make_display
from lanista.trainers.utils import atomic_files as atomic
from lanista.trainers.utils.errors import TrainerError
from lanista.trainers.utils.logging import configure_logging, show_any_letter
from mlagents_envs.exception import UnityEnvironmentException

STRANGE = "Spiele für Ünï 球 (1)"
"""A folder's name with spaces, brackets and letters that most encodings lack."""


# Files ------------------------------------------------------------------------------------------------


def refusing(times: int, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Make `os.replace` fail this many times, as Windows does while the file is open elsewhere."""
    calls: list[object] = []
    real = os.replace

    def replace(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) <= times:
            raise PermissionError(errno.EACCES, "Access is denied")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    return calls


def test_a_file_that_is_briefly_open_is_replaced_afterwards(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_PATIENCE", 60.0)
    calls = refusing(3, monkeypatch)
    atomic.atomic_write_text(tmp_path / "configuration.yaml", "new")
    assert (tmp_path / "configuration.yaml").read_text() == "new" and len(calls) == 4
    assert os.listdir(tmp_path) == ["configuration.yaml"]


def test_a_file_that_stays_open_keeps_its_content_and_the_error_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_PATIENCE", 0.05)
    (tmp_path / "status").write_text("old")
    calls = refusing(10**6, monkeypatch)
    with pytest.raises(PermissionError):
        atomic.atomic_write_text(tmp_path / "status", "new")
    assert (tmp_path / "status").read_text() == "old" and len(calls) > 1
    assert os.listdir(tmp_path) == ["status"]


def test_files_are_written_even_if_folders_cannot_be_opened(tmp_path, monkeypatch):
    real = os.open

    def no_folders(path: str, *arguments: int, **options: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Access is denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", no_folders)
    atomic.atomic_write_bytes(tmp_path / "file", b"abc")
    assert (tmp_path / "file").read_bytes() == b"abc"


def test_a_behavior_whose_folder_would_be_another_s_is_refused_before_it_is_made(tmp_path, monkeypatch):
    """As on Windows and macOS, where the case of letters in the names of folders is ignored."""
    monkeypatch.setattr(run_folder, "ignores_case", lambda _: True)
    context, made = SimpleNamespace(folder=tmp_path, terms=UNKNOWN), ["Ball"]
    with pytest.raises(TrainerError, match="'Ball' is the same folder"):
        training._make_learner(RunOptions(), context, made, "ball", None)
    assert made == ["Ball"]


# Signals and waiting ----------------------------------------------------------------------------------


def test_a_system_without_hangups_and_with_ctrl_break(monkeypatch):
    """Windows has SIGBREAK, for which SIGUSR1 stands here, and no SIGHUP."""
    other = getattr(signal, "SIGUSR1", signal.SIGTERM)
    monkeypatch.delattr(signal, "SIGHUP", raising=False)
    monkeypatch.setattr(signal, "SIGBREAK", other, raising=False)
    before = signal.getsignal(other)
    asked = []
    with StopSignals() as signals:
        signals.call(lambda: asked.append(True))
        signal.raise_signal(other)
        assert asked == [True]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(other)
    assert signal.getsignal(other) == before


def test_a_handler_that_an_environment_has_replaced_is_put_back_once_there_is_something_to_save(caplog):
    with StopSignals() as signals:
        own = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, lambda *_: None)
        signals.call(lambda: None)
        assert signal.getsignal(signal.SIGTERM) == own
        assert "had replaced the handler of SIGTERM" in caplog.text
        signals.call(lambda: None)
        assert len(caplog.records) == 1


def test_a_wait_that_signals_do_not_interrupt_is_limited(monkeypatch):
    monkeypatch.setattr(selector, "_MAX_WAIT", 0.01)
    waiting: selector.EventSelector[int, str] = selector.EventSelector()
    done = threading.Event()

    def wait() -> None:
        assert list(waiting.wait(10_000.0)) == []
        done.set()

    threading.Thread(target=wait, daemon=True).start()
    assert done.wait(60)
    waiting.close()


# Processes --------------------------------------------------------------------------------------------


def test_without_process_groups_the_children_are_killed_one_by_one(monkeypatch):
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as leader:
        child = psutil.Process(int(leader.stdout.readline()))
        monkeypatch.setattr(process.sys, "platform", "win32")
        process._kill_all(leader.pid)
        assert leader.wait(60) != 0
        assert child.wait(60) is None or not child.is_running()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (0xC0000005, " (0xc0000005, access violation)"),
        (0xC0000135, " (0xc0000135, a DLL is missing)"),
        (0xC0123456, " (0xc0123456)"),
        (1, ""),
    ],
)
def test_exit_codes_of_windows_are_explained(code, told):
    assert process._signal_name(code) == told


def test_a_program_in_a_folder_with_spaces_and_non_ascii_letters_is_started(tmp_path):
    folder = tmp_path / STRANGE
    folder.mkdir()
    game = folder / "mein spiel.py"
    game.write_text("print('gestartet: ' + ascii(__file__))", encoding="utf-8")
    engine = EngineProcess(launch.resolve(str(game)))
    assert engine.wait(60) and engine.returncode == 0
    assert "gestartet" in engine.describe() and STRANGE in engine.describe()


@pytest.mark.parametrize(
    ("platform", "name", "there"),
    [
        ("darwin", "Spiel ü.app", "Spiel ü.app/Contents/MacOS/Spiel ü"),
        ("darwin", "Spiel ü.app/", "Spiel ü.app/Contents/MacOS/Anders"),
        ("win32", "Mein Spiel", "Mein Spiel.exe"),
        ("win32", "Bau 1", "Bau 1/Mein Spiel.exe"),
        ("linux", "mein spiel", "mein spiel.x86_64"),
    ],
)
def test_executables_of_every_system_in_such_a_folder(tmp_path, platform, name, there):
    program = tmp_path / STRANGE / there
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_bytes(b"x")
    assert find_executable(f"{tmp_path / STRANGE}/{name}", platform) == str(program)


def test_an_app_without_a_program_lists_its_files(tmp_path):
    (tmp_path / "Game.app" / "Contents").mkdir(parents=True)
    with pytest.raises(UnityEnvironmentException, match=r"Couldn't launch the Game environment"):
        find_executable(str(tmp_path / "Game.app"), "darwin")


def test_on_windows_any_file_may_be_executed(tmp_path, monkeypatch):
    """`os.access` says so there; a script's first line means nothing."""
    game = tmp_path / "Game.exe"
    game.write_bytes(b"MZ")
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    check_executable(str(game), "win32")


def test_a_taken_port_is_explained_even_if_connections_are_hidden(monkeypatch):
    """macOS shows connections only to root."""

    def hidden(kind: str) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", hidden)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        assert holder(other.getsockname()[1]) == "a process that this user may not see"


# Paths in settings ------------------------------------------------------------------------------------


def test_paths_of_windows_are_kept_as_they_are(tmp_path):
    path = r"C:\Meine Spiele\3DBall.exe"
    text = f"behaviors: {{B: {{}}}}\nenv_settings: {{env_path: '{path}'}}\n"
    assert RunOptions.from_text(text).env_settings.env_path == path
    plain = f"env_settings:\n  env_path: {path}\n"
    assert RunOptions.from_text(plain).env_settings.env_path == path
    file = tmp_path / "c.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())  # as Notepad saves it
    given = parse_command_line(
        [str(file), "--env", r"D:\x.exe", "--set", r"checkpoint_settings.results_dir=E:\r"]
    )
    assert (given.env_settings.env_path, given.checkpoint_settings.results_dir) == (r"D:\x.exe", r"E:\r")


def test_a_path_in_double_quotes_is_explained():
    with pytest.raises(Exception, match="write paths of Windows in single quotes"):
        RunOptions.from_text('env_settings: {env_path: "C:\\Games\\3DBall.exe"}')


@pytest.mark.parametrize("run_id", ["..\\other", "C:run", "a\\", "why?"])
def test_a_run_id_that_is_invalid_on_windows_is_refused_there(run_id, monkeypatch):
    assert RunOptions.from_dict({"checkpoint_settings": {"run_id": run_id}})
    monkeypatch.setattr("lanista.trainers.settings.models.run.WINDOWS", True)
    with pytest.raises(Exception, match="run_id"):
        RunOptions.from_dict({"checkpoint_settings": {"run_id": run_id}})


# Consoles that lack letters ---------------------------------------------------------------------------


@pytest.fixture
def console(monkeypatch):
    """When called, makes standard output and errors those of a Windows pipe; returns their bytes."""

    def begin() -> tuple[io.BytesIO, io.BytesIO]:
        raw = io.BytesIO(), io.BytesIO()
        for name, stream in zip(("stdout", "stderr"), raw):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(stream, encoding="cp1252", write_through=True))
        return raw

    return begin


def test_letters_that_the_console_lacks_are_escaped(console):
    out, errors = console()
    show_any_letter()
    configure_logging()
    logging.getLogger("lanista.x").info("Läufer 球. Step: 100.")
    print("Läufer ▁▂▃ 球")
    assert out.getvalue().decode("cp1252") == (
        "[INFO] Läufer \\u7403. Step: 100.\nLäufer \\u2581\\u2582\\u2583 \\u7403\n"
    )
    assert errors.getvalue() == b""


def test_errors_with_such_letters_are_printed(console, tmp_path):
    _, errors = console()
    assert run([str(tmp_path / "球.yaml")]) == 1
    assert "\\u7403.yaml" in errors.getvalue().decode("cp1252")


def test_there_is_no_live_display_if_its_letters_are_missing(console):
    console()
    assert isinstance(make_display("run"), PlainDisplay)


@pytest.mark.slow
def test_the_real_command_survives_a_console_of_ascii(tmp_path):
    (tmp_path / "球.yaml").write_text("behaviors: {Ünï: {trainer_type: 球}}", encoding="utf-8")
    script = "import sys; sys.argv[0] = 'lanista-learn'; from lanista.trainers.learn import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", script, "球.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert ended.returncode == 1
    assert b"Invalid trainer type \\u7403" in ended.stderr and b"Traceback" not in ended.stderr
