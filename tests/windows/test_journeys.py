"""What users do, in a folder with spaces and umlauts; `tests/windows/run.py` runs it on Windows.

Engines are scenes, which are processes of their own that speak over the wire, and programs: a scene that was
exported is a real .exe on Windows.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import console_runs
import psutil
import pytest
from console_runs import (
    YAML,
    end,
    kill_family,
    lanista,
    learn,
    outcome,
    ppo_yaml,
    start,
    until,
    weights_are_finite,
)
from script_programs import KILLED_MESSAGE, SUFFIX, write_program
from scripted_engine import first_free_port

pytestmark = pytest.mark.slow

BASIC = ppo_yaml(
    "Basic",
    {"batch_size": 32, "buffer_size": 256, "learning_rate_schedule": "constant"},
    {"hidden_units": 16, "num_layers": 1},
    **{"max_steps": 2000, "summary_freq": 500, "checkpoint_interval": 500, "time_horizon": 16},
)
ENDLESS = BASIC.replace("max_steps: 2000", "max_steps: -1")
WINDOWS = os.name == "nt"


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "Spiele für Jürgen"
    path.mkdir()
    yield path
    for child in psutil.Process().children():
        kill_family(child.pid)


@pytest.fixture
def port():
    return ["--base-port", str(first_free_port(4))]


def engines_of(process):
    """The engines that a run has started."""
    return [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if any("--mlagents-port" in part for part in child.cmdline())
    ]


def begin(folder, *arguments, env="scene:basic", yaml=ENDLESS):
    """A run with two engines that has saved a checkpoint."""
    flags = subprocess.CREATE_NEW_PROCESS_GROUP if WINDOWS else 0
    printed = folder / "printed.txt"
    with printed.open("w") as stream:
        options = {"stdout": stream, "stderr": subprocess.STDOUT, "creationflags": flags}
        process = start(folder, "--env", env, "--num-envs", "2", *arguments, yaml=yaml, **options)
    assert until(lambda: saved(folder) or process.poll() is not None), printed.read_text()
    assert process.poll() is None, printed.read_text()
    return process


INTERRUPTIBLE = """\
import _thread, os, signal, threading, time

def wait():
    while not os.path.exists("interrupt"):
        time.sleep(0.05)
    _thread.interrupt_main(signal.SIGBREAK)

threading.Thread(target=wait, daemon=True).start()
from lanista.trainers.learn import main
main()
"""
"""A run that gets Ctrl-Break when there is a file of that name, from another thread as Windows does it."""


@pytest.fixture
def interruptible(monkeypatch):
    """Let `interrupt` reach runs that are begun: Wine, where it is, delivers no Ctrl-Break."""
    if WINDOWS:
        monkeypatch.setattr(console_runs, "learn_command", lambda: [sys.executable, "-c", INTERRUPTIBLE])


def ended_well(process, folder):
    """Wait for the end of a run that was begun; it has complained of nothing."""
    end(process, folder)
    printed = (folder / "printed.txt").read_text()
    assert "Traceback" not in printed, printed


def interrupt(process, folder):
    """Press Ctrl-C, or what Windows has for it, and wait for the end of the run."""
    if WINDOWS:
        (folder / "interrupt").touch()
    else:
        process.send_signal(signal.SIGINT)
    ended_well(process, folder)


def saved(folder):
    """The checkpoints of the run with their models."""
    return sorted((folder / "results" / "r").glob("Basic/Basic-*.onnx"))


def test_the_machine_is_fit(folder):
    assert "training" in lanista(folder, "doctor")


@pytest.mark.parametrize("threaded", [False, True])
def test_training_playing_and_reporting(folder, port, threaded):
    run = learn(
        folder,
        *("--env", "scene:basic", "--num-envs", "2", *port),
        yaml=BASIC + "    threaded: true\n" * threaded,
    )
    assert run.good and len(saved(folder)) >= 3
    assert weights_are_finite(run.files("checkpoint.pt"))
    printed = lanista(folder, "play", "r", "--env", "scene:basic", "--episodes", "4", "--json", *port)
    assert json.loads(printed)["episodes"] == 4
    lanista(folder, "report", "r", "--output", "page.html")
    assert "Basic" in (folder / "page.html").read_text(encoding="utf-8")
    assert "finished" in lanista(folder, "runs")


def test_a_killed_run_leaves_no_engine_and_goes_on(folder, port):
    """A kill in the middle of a save leaves its model, and the checkpoint before it."""
    process = begin(folder, *port)
    engines = engines_of(process)
    assert len(engines) == 2
    assert until(lambda: len(saved(folder)) > 1)
    process.kill()
    outcome(process)
    assert until(lambda: not any(engine.is_running() for engine in engines))
    *_, earlier, newest = sorted(int(path.stem.rpartition("-")[2]) for path in saved(folder))
    run = learn(
        folder, "--env", "scene:basic", "--resume", *port, yaml=BASIC.replace("2000", str(newest + 1000))
    )
    resumed = re.search(r"resuming training from step (\d+)", run.out)
    assert run.good and resumed and int(resumed[1]) in (earlier, newest), run.out
    assert int(resumed[1]) < min(int(step) for step in re.findall(r"Step: (\d+)\.", run.out))


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_saves_and_ends(folder, port, threaded):
    process = begin(folder, *port, yaml=ENDLESS + "    threaded: true\n" * threaded)
    before = saved(folder)
    interrupt(process, folder)
    assert len(saved(folder)) > len(before)


@pytest.mark.skipif(not WINDOWS, reason="only Windows has Ctrl-Break")
def test_ctrl_break_saves_and_ends(folder, port):
    process = begin(folder, *port)
    before = saved(folder)
    process.send_signal(signal.CTRL_BREAK_EVENT)
    ended_well(process, folder)
    assert len(saved(folder)) > len(before)


def test_a_port_in_use_is_named(folder):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        taken = held.getsockname()[1]
        run = learn(folder, "--env", "scene:basic", "--base-port", str(taken), yaml=BASIC)
    assert str(taken) in run.error and "--base-port" in run.error


@pytest.mark.usefixtures("interruptible")
def test_files_that_other_programs_read_are_replaced_and_added_to(folder, port):
    process = begin(folder, *port)
    try:
        (events,) = (folder / "results" / "r" / "Basic").glob("events.*")
        models = saved(folder)
        with events.open("rb") as log, models[0].open("rb") as model:
            assert until(lambda: saved(folder)[-1] not in models)
            assert log.read(8) and model.read(8)
    finally:
        interrupt(process, folder)
    assert (folder / "results" / "r" / "Basic.onnx").is_file()


def test_a_model_that_another_program_holds_open_is_written_or_named(folder, port):
    assert learn(folder, "--env", "scene:basic", *port, yaml=BASIC).good
    before = saved(folder)
    model = folder / "results" / "r" / "Basic.onnx"
    with model.open("rb"):
        run = learn(folder, "--env", "scene:basic", "--resume", *port, yaml=BASIC.replace("2000", "2500"))
    assert set(saved(folder)) - set(before)
    if WINDOWS:
        assert re.search(r"could not be copied to \S+Basic\.onnx \(", run.out) and "are saved" in run.error
    else:
        assert run.good


def test_self_play(folder, port):
    yaml = (
        YAML.replace("Ball", "Tennis").replace("max_steps: 400", "max_steps: 600")
        + "    self_play: {save_steps: 100, swap_steps: 100, team_change: 200, window: 3}\n"
    )
    run = learn(folder, "--env", "scene:tennis", *port, yaml=yaml)
    assert run.good and (folder / "results" / "r" / "Tennis.onnx").is_file()


def test_demonstrations(folder, port):
    assert learn(folder, "--env", "scene:basic", *port, yaml=BASIC).good
    lanista(
        folder,
        *("play", "r", "--env", "scene:basic", "--episodes", "4", "--record-demos", "demos", *port),
    )
    (demo,) = (folder / "demos").rglob("*.demo")
    lanista(folder, "demo", "show", demo)
    cloning = BASIC + f"    behavioral_cloning: {{demo_path: '{demo}', strength: 0.5}}\n"
    again = learn(folder, "--env", "scene:basic", "--force", *port, yaml=cloning)
    assert again.good


def test_another_library_gets_the_engine(folder, port):
    pytest.importorskip("gymnasium")
    code = (
        "from lanista.envs.wrappers import make_gym\n"
        "if __name__ == '__main__':\n"
        f"    env = make_gym('scene:basic', base_port={port[1]})\n"
        "    env.reset()\n"
        "    for _ in range(5):\n"
        "        env.step(env.action_space.sample())\n"
        "    env.close()\n"
        "    print('closed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=console_runs.PATIENCE,
    )
    assert done.stdout == "closed\n", done.stderr


def test_a_configuration_is_written_for_an_environment(folder):
    pytest.importorskip("gymnasium")
    lanista(folder, "init", "--env", "gymnasium:CartPole-v1", "--output", "cartpole.yaml")
    lanista(folder, "check", "cartpole.yaml")


def test_a_scene_becomes_a_program(folder, port):
    lanista(folder, "scenes", "export", "basic", "game")
    (program,) = (path for path in folder.iterdir() if path.name.startswith("game") and path.is_file())
    assert learn(folder, "--env", str(program), *port, yaml=BASIC.replace("2000", "500")).good


@pytest.mark.parametrize("name", ["CON", "aux", "Basic.", "com1.x"])
def test_names_that_windows_keeps(folder, port, name):
    run = learn(folder, "--env", "scene:basic", *port, yaml=BASIC.replace("Basic", f'"{name}"'))
    assert name in run.error


def test_a_long_run_id(folder, port):
    name = "r" * 200
    process = start(
        folder, "--env", "scene:basic", *port, "--run-id", name, yaml=BASIC.replace("2000", "500")
    )
    ended = end(process, folder)
    if ended.status:
        assert "248" in ended.error and "--run-id" in ended.error
    else:
        assert (folder / "results" / name / "Basic.onnx").is_file()


@pytest.mark.parametrize("encoding", ["cp1252", "cp437"])
def test_consoles_without_unicode(folder, port, monkeypatch, encoding):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    run = learn(folder, "--env", "scene:basic", *port, yaml=BASIC.replace("2000", "500"), encoding=encoding)
    assert run.good


WRONG_PROGRAMS = {
    "a page in its place": (b"<html>not found</html>", "no program for Windows, which begins with MZ"),
    "half a copy": (b"MZ\x90\x00", "cannot be started, .* a program for this Windows"),
    "nothing": (b"", "the file is empty"),
}


@pytest.mark.parametrize("kind", WRONG_PROGRAMS)
def test_what_is_no_program_is_named(folder, port, kind):
    content, told = WRONG_PROGRAMS[kind]
    wrong = Path(folder, f"Game{SUFFIX}")
    wrong.write_bytes(content)
    wrong.chmod(0o755)
    error = learn(folder, "--env", str(wrong), *port, yaml=BASIC).error
    assert str(wrong) in error
    assert re.search(told if WINDOWS or not content else "cannot be started, .* a program for this", error)


def test_a_program_that_ends_at_once_is_named(folder, port):
    program = write_program(folder / "Game", "import sys; print('no license'); sys.exit(3)")
    error = learn(folder, "--env", str(program), *port, yaml=BASIC).error
    assert "return code 3." in error and "no license" in error and str(program) in error


def test_a_program_that_is_killed_is_named(folder, port):
    lanista(folder, "scenes", "export", "basic", "game")
    (program,) = (path for path in folder.iterdir() if path.name.startswith("game") and path.is_file())
    process = begin(folder, *port, "--max-lifetime-restarts", "0", env=str(program))
    engines_of(process)[0].kill()
    end(process, folder)
    printed = (folder / "printed.txt").read_text()
    assert process.returncode == 1 and "Traceback" not in printed, printed
    error = printed.partition("lanista-learn: error: ")[2]
    assert re.search(KILLED_MESSAGE, error) and str(program) in error, printed


@pytest.mark.skipif(not Path("/sys/power").is_dir(), reason="no folder in which nobody may write")
def test_a_folder_in_which_nobody_may_write_is_named(folder, port):
    results = Path("/sys/power").absolute()
    run = learn(folder, "--env", "scene:basic", "--results-dir", str(results), *port, yaml=BASIC)
    assert f"{results / 'r'} cannot be made: " in run.error and "--results-dir" in run.error
