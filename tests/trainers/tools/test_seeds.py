"""`lanista learn --seeds`: a run for each seed, and a report on all of them."""

import io
import os
import signal
import time
from collections import deque
from pathlib import Path
from threading import Thread

import pytest
import yaml
from console_runs import until
from lanista.trainers.cli.main import run
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.stats.writer import StatsPropertyType
from lanista.trainers.tools.seeds.command import _resuming, asked
from lanista.trainers.tools.seeds.runs import SeedDisplay, SeedProgress, SeedRun
from made_runs import make_run, write
from rich.console import Console
from scripted_engine import free_port

BASIC = {
    "behaviors": {
        "Basic": {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 16, "buffer_size": 64},
            "max_steps": 192,
            "summary_freq": 64,
        }
    }
}


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "basic.yaml").write_text(yaml.safe_dump(BASIC))
    return "basic.yaml"


def seed_of(run_id):
    return yaml.safe_load(open(f"results/{run_id}/configuration.yaml"))["env_settings"]["seed"]


@pytest.mark.slow
def test_every_seed_is_trained_and_the_report_shows_them_as_one_group(config, tmp_path, capfd):
    line = ["learn", config, "--env", "scene:basic", "--run-id", "b", "--seeds", "3,5", "--parallel", "2"]
    assert run(line) == 0
    said = capfd.readouterr().out
    assert seed_of("b-3") == 3 and seed_of("b-5") == 5
    assert "Seed 3 ended after" in said and "The report is results/b.html." in said
    assert "b (2 runs)" in (tmp_path / "results" / "b.html").read_text()
    assert run(line) == 1
    assert "No run has begun" in capfd.readouterr().err


def test_a_page_that_is_no_report_is_not_replaced(config, tmp_path, capfd):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "b.html").write_text("mine")
    assert run(["learn", config, "--env", "scene:basic", "--run-id", "b", "--seeds=2"]) == 1
    said = capfd.readouterr().err
    assert "b.html is there and is not a report" in said and "No run has begun" in said
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["b.html"]


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_go_on(config, tmp_path, capfd):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / ".b-0.lock").mkdir()  # where the run's lock would be
    assert run(["learn", config, "--env", "scene:basic", "--run-id", "b", "--seeds=2"]) == 1
    said = capfd.readouterr().out
    assert "Seed 0 failed after" in said and "Seed 1 ended after" in said


@pytest.mark.slow
def test_a_run_that_is_stopped_before_it_learned_has_not_failed(config, capfd):
    log = Path("results/b-0.log")

    def interrupt():
        until(lambda: log.exists() and "Listening" in log.read_text())
        os.kill(os.getpid(), signal.SIGINT)

    thread = Thread(target=interrupt)
    thread.start()
    assert run(["learn", config, "--run-id", "b", "--seeds=2", "--base-port", str(free_port())]) == 130
    thread.join()
    said = capfd.readouterr().out
    assert "Seed 0 was stopped after" in said and "failed" not in said and "Seed 1" not in said
    assert "This continues them: lanista learn basic.yaml --run-id b --seeds=2" in said and "--resume" in said


def test_a_wrong_setting_is_refused_before_any_run_begins(config, tmp_path, capfd):
    wrong = "behaviors.Basic.max_steps=many"
    assert run(["learn", config, "--env", "scene:basic", "--seeds", "2", "--set", wrong]) == 1
    said = capfd.readouterr().err
    assert "max_steps" in said and "No run has begun" in said
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("seeds", ["0", "-1", "a", "1,1", "1,,2", "1.5", ""])
def test_seeds_that_are_none_are_refused(config, seeds, capfd):
    with pytest.raises(SystemExit) as end:
        run(["learn", config, "--env", "scene:basic", f"--seeds={seeds}"])
    assert end.value.code == 2 and "expected a number of seeds, or seeds" in capfd.readouterr().err


def test_the_seed_of_a_single_run_is_not_ignored(config, capfd):
    with pytest.raises(SystemExit) as end:
        run(["learn", config, "--env", "scene:basic", "--seeds", "2", "--seed", "4"])
    assert end.value.code == 2 and "found --seed 4 beside --seeds" in capfd.readouterr().err


class Ended:
    """A process that has ended with a status."""

    def __init__(self, status):
        self.status = status

    def poll(self):
        return self.status

    def error_message(self):
        return "a <b>fault</b> [red]"


def three(tmp_path):
    """A seed that takes 1000 of 20 million steps a second, one that failed at once, and one that waits."""
    runs = [SeedRun(seed, tmp_path / f"b-{seed}", []) for seed in range(3)]
    make_run(tmp_path, "b-0")
    runs[0].process, runs[1].process = Ended(None), Ended(1)
    runs[1].began = time.monotonic()
    assert not runs[0].ended() and runs[1].ended() and not runs[2].ended()
    summaries = deque([(1000.0, 12_000_000), (1010.0, 12_010_000)])
    runs[0].progress = SeedProgress(12_010_000, 20_000_000, -12.3456, summaries)
    return runs


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_of_seeds_is_shown_whole(tmp_path, width):
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, height=24)
    display = SeedDisplay(three(tmp_path), console, lambda: 1015.0)
    with display:
        display.ended(display.runs[1])
    lines = console.file.getvalue().splitlines()
    shown = [" ".join(line.split()) for line in lines]
    for line in (
        "0 training 12,010,000 of 20,000,000 -12.346 1,000 2:13:05",
        "1 failed - - - took 0:00",
        "2 waiting - - - -",
        "Ctrl-C stops all, and all save. Their output:",
    ):
        assert line in shown
    assert "Seed 1 failed after 0 s: a <b>fault</b> [red]" in shown[0]
    assert max(len(line) for line in lines[1:6]) <= width


def test_seeds_that_have_no_room_are_counted(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80, height=10)
    runs = [SeedRun(seed, tmp_path / f"b-{seed}", []) for seed in range(100)]
    runs[70].process = Ended(None)
    with SeedDisplay(runs, console):
        pass
    shown = console.file.getvalue()
    assert "70  starting" in shown and "94 more have no room here." in shown


def test_without_a_terminal_a_line_tells_of_new_summaries(tmp_path, capsys):
    (run, *_) = three(tmp_path)
    run.progress, now = SeedProgress(), [1000.0]
    display = SeedDisplay([run], None, lambda: now[0])
    display.update()
    write(run.folder, "Ball", {300: 3.0})
    for _ in range(12):
        now[0] += 1
        display.update()
    assert [line.partition(", mean")[0] for line in capsys.readouterr().out.splitlines()] == [
        "Seed 0: step 200",
        "Seed 0: step 300",
    ]


def test_speed_is_measured_between_summaries_not_from_the_settings_written_with_the_first(tmp_path):
    """They stand at step 0, some milliseconds before it: a read in between made a million steps a second."""
    folder, progress = make_run(tmp_path, "early", rewards=()), SeedProgress()
    writer = TensorBoardWriter(folder)
    writer.add_property("Ball", StatsPropertyType.HYPERPARAMETERS, {"trainer_type": "ppo"})
    writer.close()
    progress.read(folder)
    write(folder, "Ball", {12_000: 1.0})
    progress.read(folder)
    assert (progress.step, progress.rate) == (12_000, None)
    write(folder, "Ball", {24_000: 1.0})
    progress.read(folder)
    assert progress.rate is not None


def test_what_an_earlier_process_wrote_is_not_shown_as_the_progress_of_a_resumed_run(tmp_path):
    folder, progress = make_run(tmp_path, "b-0"), SeedProgress()
    progress.note_earlier(folder)
    progress.read(folder)
    assert (progress.step, progress.reward, progress.rate) == (0, None, None)
    write(folder, "Ball", {300: 3.0})
    progress.read(folder)
    assert (progress.step, progress.reward, progress.rate) == (300, 3.0, None)


def test_a_resumed_run_that_had_nothing_left_to_do_ends_with_its_reward(tmp_path, capsys):
    (run, *_) = three(tmp_path)
    run.progress = SeedProgress()
    run.progress.note_earlier(run.folder)
    run.process.status = 0
    assert run.ended()
    SeedDisplay([run], None).ended(run)
    assert capsys.readouterr().out.endswith(", mean reward 2.\n")


def test_the_command_that_continues_is_one_to_type(config, capfd):
    line = "learn basic.yaml --force --env scene:basic --run-id b --seeds 1 --env-args --areas 2"
    assert _resuming(line.split()[1:]) == (
        "lanista learn basic.yaml --env scene:basic --run-id b --seeds 1 --resume --env-args --areas 2"
    )


def test_what_follows_env_args_is_the_engine_s():
    assert asked(["a.yaml", "--seeds=3", "--env-args", "x"])
    assert not asked(["a.yaml", "--env-args", "--seeds", "3"])
