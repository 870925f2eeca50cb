"""Engine processes end with everything they started, and their last words are kept."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from console_runs import until
from lanista.envs.engines.logs import EngineLog
from lanista.envs.engines.process import EngineProcess
from lanista.envs.engines.reaper import REAPER
from mlagents_envs.exception import UnityEnvironmentException

pytestmark = pytest.mark.posix("shell scripts and signals")


def shell(script: str, **options) -> EngineProcess:
    return EngineProcess(["/bin/sh", "-c", script], **options)


def gone(pid: int, within: float = 20.0) -> bool:
    """Whether the process has ended, waiting for it; a zombie has."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def number_in(path: Path, within: float = 20.0) -> int:
    """The number that another process writes into a file."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().endswith("\n"):
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError(f"nobody wrote {path}")


def test_describes_exit_code_and_last_lines():
    process = shell("echo one; echo two >&2; exit 3")
    assert process.wait(20)
    assert process.returncode == 3
    assert "return code 3." in process.describe()
    assert "one\n    two" in process.describe()


def test_describes_the_signal():
    process = shell("kill -s SEGV $$")
    assert process.wait(20)
    assert "return code -11 (SIGSEGV)" in process.describe()
    assert "It wrote nothing" in process.describe()


def test_shows_the_engines_own_log_rather_than_its_output(tmp_path):
    log = tmp_path / "Player-0.log"
    process = shell(
        f"echo chatter; for i in $(seq 50); do echo line $i; done > '{log}'; exit 1",
        log=EngineLog(log),
    )
    assert process.wait(20)
    assert str(log) in process.describe() and "line 50" in process.describe()
    assert "\n    chatter" not in process.describe() and "\n    line 30" not in process.describe()


def test_shows_the_exception_at_which_a_script_stopped_however_deep_it_was_thrown(tmp_path):
    """Such an engine goes on without its agents, and is silent; its log is all that tells why."""
    log = tmp_path / "Player-0.log"
    frames = "".join(f"  at Game.Deep{k} () [0x00000] in <0>:0\n" for k in range(30))
    thrown = f"NullReferenceException: Object reference not set\n{frames}(Filename: <0> Line: 0)\n\n"
    log.write_text(f"Loaded the scene\n{thrown * 3}")
    process = shell("sleep 60", log=EngineLog(log))
    lines = [line.strip() for line in process.output().splitlines()[1:]]
    assert lines[:2] == ["NullReferenceException: Object reference not set", "..."]
    assert lines[-2:] == ["at Game.Deep29 () [0x00000] in <0>:0", "(Filename: <0> Line: 0)"]
    assert len(lines) == 12
    process.kill()


def test_shows_the_output_when_the_log_is_empty(tmp_path):
    process = shell("echo chatter; exit 1", log=EngineLog(tmp_path / "never-written.log"))
    assert process.wait(20)
    assert "chatter" in process.describe()


def test_a_lot_of_output_neither_blocks_nor_is_kept():
    process = shell("i=0; while [ $i -lt 20000 ]; do echo 'some words that fill a line' $i; i=$((i+1)); done")
    assert process.wait(60) and process.returncode == 0
    assert "fill a line 19999" in process.describe()
    assert len(process._output) < 200_000


def test_calls_back_when_it_has_ended():
    called = threading.Event()
    process = shell("exit 0", on_exit=called.set)
    assert called.wait(20) and process.returncode == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_its_end_is_known_whatever_happens_in_the_thread_that_notes_it(monkeypatch):
    called = threading.Event()
    monkeypatch.setattr(REAPER, "remove", Mock(side_effect=OSError("no guard")))
    process = shell("exit 3", on_exit=called.set)
    assert process.wait(20) and called.wait(20)
    assert process.returncode == 3


def test_no_command_line_tells_what_marks_an_engines_family():
    """Everybody sees command lines; who knows the mark could be taken for one that the engine has started."""
    process = shell("sleep 60")
    name, _, secret = REAPER.mark.partition("=")
    assert psutil.Process(process.pid).environ()[name] == secret and len(secret) == 32
    lines = [" ".join(one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"])]
    assert lines and not [line for line in lines if secret in line]
    process.kill()


def test_kill_ends_its_children_too(tmp_path):
    process = shell(f"sleep 600 & echo $! > {tmp_path}/child; wait")
    child = number_in(tmp_path / "child")
    assert process.returncode is None
    process.kill()
    assert process.returncode == -signal.SIGKILL and gone(child)


def test_kill_ends_a_stopped_process():
    process = shell("kill -s STOP $$")
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)
    assert "is alive (stopped)" in process.describe()
    process.kill()
    assert process.returncode == -signal.SIGKILL


def test_children_do_not_outlive_an_engine_that_ends_by_itself(tmp_path):
    process = shell(f"sleep 600 > /dev/null & echo $! > {tmp_path}/child; exit 1")
    assert process.wait(20)
    assert gone(number_in(tmp_path / "child"))


def test_children_end_too_where_no_process_can_be_waited_for_without_reaping_it(tmp_path, monkeypatch):
    """As on macOS before Python 3.13."""
    monkeypatch.delattr(os, "waitid", raising=False)
    process = shell(f"sleep 600 > /dev/null & echo $! > {tmp_path}/child; exit 1")
    assert process.wait(20) and process.returncode == 1
    assert gone(number_in(tmp_path / "child"))
    alone = shell("exit 0")
    assert alone.wait(20) and alone.returncode == 0


def test_ctrl_c_in_the_terminal_does_not_reach_it():
    process = shell("sleep 600")
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    process.kill()


@pytest.mark.parametrize("content", ["#!/no/such/interpreter\n", "\x7fELF but not really\n"])
def test_a_program_that_cannot_run_is_an_error_with_its_name(tmp_path, content):
    program = tmp_path / "Game.x86_64"
    program.write_text(content)
    program.chmod(0o755)
    with pytest.raises(UnityEnvironmentException, match=r"Game\.x86_64 cannot be started"):
        EngineProcess([str(program)])


@pytest.mark.slow
def test_engines_die_with_a_trainer_that_is_killed(tmp_path):
    script = f"""
        import time
        from lanista.envs.engines.process import EngineProcess
        EngineProcess(["/bin/sh", "-c", "sleep 600 & echo $! > {tmp_path}/child; wait"])
        gone = EngineProcess(["/bin/sh", "-c", "exit 0"])
        gone.wait(20)
        print("ready", flush=True)
        time.sleep(600)
    """
    trainer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    assert trainer.stdout.readline() == "ready\n"
    child = number_in(tmp_path / "child")
    trainer.kill()
    trainer.communicate()
    assert gone(child)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


def killed_trainer(script):
    """Run a script that kills itself like `kill -9`."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize("engine", ["", "EngineProcess(['/bin/sh', '-c', 'sleep 600'])"])
def test_a_temporary_folder_goes_with_a_trainer_that_is_killed(tmp_path, engine):
    killed_trainer(f"""
        import os, signal, tempfile
        from lanista.envs.engines.process import EngineProcess
        from lanista.envs.engines.reaper import REAPER
        tempfile.tempdir = {str(tmp_path)!r}
        for name in ("first", "the second one"):
            folder = REAPER.make_folder(name)
            assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "socket").touch()
        {engine}
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert until(lambda: not list(tmp_path.iterdir()))


def test_no_other_folder_is_removed_where_a_temporary_one_has_a_line_break_in_its_path(tmp_path):
    (tmp_path / "a" / "kept").mkdir(parents=True)
    (tmp_path / "a\nb").mkdir()
    killed_trainer(f"""
        import os, signal, tempfile
        from lanista.envs.engines.reaper import REAPER
        tempfile.tempdir = {str(tmp_path / "a")!r} + chr(10) + "b"
        REAPER.make_folder("folder")
        tempfile.tempdir = {str(tmp_path)!r}
        REAPER.make_folder("next")
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert until(lambda: not list(tmp_path.glob("next*")))
    assert (tmp_path / "a" / "kept").is_dir()


@pytest.mark.slow
@linux
def test_an_engine_dies_whose_trainer_is_killed_before_the_guard_has_heard_of_it(tmp_path):
    killed_trainer(f"""
        import os, signal, time
        from lanista.envs.engines import process
        def die(group):
            while not os.path.exists("{tmp_path}/engine"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        process.REAPER.add = die
        process.EngineProcess(["/bin/sh", "-c", "echo $$ > {tmp_path}/engine; exec sleep 600"])
    """)
    assert gone(number_in(tmp_path / "engine"))


@pytest.mark.slow
@linux
def test_a_child_that_has_left_its_engine_s_session_dies_with_the_trainer(tmp_path):
    killed_trainer(f"""
        import os, signal, sys, time
        from lanista.envs.engines.process import EngineProcess
        child = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
        EngineProcess(["/bin/sh", "-c", '"$0" -c "$1" > {tmp_path}/child & wait', sys.executable, child])
        while not os.path.exists("{tmp_path}/child") or not os.path.getsize("{tmp_path}/child"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert gone(number_in(tmp_path / "child"))


@pytest.mark.slow
@linux
def test_the_guard_of_a_trainer_within_a_trainer_outlives_that_one(tmp_path):
    inner = f"""
        import time
        from lanista.envs.engines.process import EngineProcess
        EngineProcess(["/bin/sh", "-c", "echo $$ > {tmp_path}/engine; exec sleep 600"])
        time.sleep(600)
    """
    killed_trainer(f"""
        import os, signal, sys, time
        from lanista.envs.engines.process import EngineProcess
        EngineProcess([sys.executable, "-c", {textwrap.dedent(inner)!r}])
        while not os.path.exists("{tmp_path}/engine"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    assert gone(number_in(tmp_path / "engine"))
