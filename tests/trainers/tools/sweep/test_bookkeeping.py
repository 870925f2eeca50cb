"""Which runs a sweep starts, repeats and stops, and what it reports; the runs are simulated."""

import csv
import os
import signal
import time
from pathlib import Path

import pytest
from lanista.trainers.checkpoints.transfer import find_start
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.tools.sweep.commands import Commands, base_options
from lanista.trainers.tools.sweep.metric import LOGS
from lanista.trainers.tools.sweep.settings import read_sweep
from PIL import Image

pytestmark = pytest.mark.slow

RATE = "behaviors.Basic.hyperparameters.learning_rate"
posix = pytest.mark.posix("signals")


def rows(place):
    with open(place.sweep / "sweep.csv", newline="") as file:
        return {int(row["trial"]): row for row in csv.DictReader(file)}


def wait_for(condition, process):
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_trial_is_run_and_reported_once(place):
    place.fake(worth={"trial-002": 7.0})
    status, said = place.run()
    assert status == 0, said
    assert place.lines("starts") == [f"trial-00{k} new seed 0" for k in range(4)]
    assert "trial 2 reached 7, the best so far" in said
    assert "trial 3 reached 1; the best so far is trial 2 with 7" in said
    table = rows(place)
    assert [row["outcome"] for row in table.values()] == ["done"] * 4
    assert float(table[2]["value"]) == 7.0
    assert len({row[RATE] for row in table.values()}) == 4
    best = parse_command_line([str(place.sweep / "best.yaml")])
    behavior = best.behaviors["Basic"]
    assert behavior.hyperparameters.learning_rate == pytest.approx(float(table[2][RATE]))
    assert behavior.max_steps == 1000 and best.env_settings.env_path == "scene:basic"
    assert best.checkpoint_settings.run_id == "ppo", "the next run is no part of the sweep"
    with Image.open(place.sweep / "sweep.png") as picture:
        assert picture.width > 300


def test_the_best_configuration_starts_with_the_weights_that_its_trials_had(place):
    (place.folder / "pre.pt").touch()
    place.write(flags=["--initialize-from", "pre.pt"])
    place.fake()
    status, said = place.run()
    assert status == 0, said
    best = parse_command_line([str(place.sweep / "best.yaml")])
    assert best.checkpoint_settings.initialize_from == "pre.pt" and best.checkpoint_settings.run_id == "ppo"


def test_trials_start_with_the_weights_of_a_run_by_its_id(place):
    (place.folder / "results" / "pre" / "Basic").mkdir(parents=True)
    place.write(flags=["--initialize-from", "pre"])
    settings = read_sweep("mine.yaml")
    commands = Commands(settings, place.sweep, base_options(settings))
    options = commands.options({})
    assert find_start(options.checkpoint_settings) == Path("results/pre")


def test_minimize_prefers_lower_values(place):
    place.write(direction="minimize")
    place.fake(worth={"trial-001": -3.0})
    said = place.run()[1]
    assert "the best so far is trial 1 with -3" in said


def test_a_finished_sweep_starts_nothing_and_more_trials_continue_it(place):
    place.run()
    assert place.run()[0] == 0 and len(place.lines("starts")) == 4
    drawn = {row[RATE] for row in rows(place).values()}
    status, said = place.run("--trials", "6", "--parallel", "2")
    assert status == 0, said
    assert len(place.lines("starts")) == 6
    assert len({row[RATE] for row in rows(place).values()} | drawn) == 6, "nothing is drawn twice"


@posix
def test_after_a_kill_only_unfinished_trials_are_run_again(place):
    place.write(parallel=2)
    place.fake(block=["trial-001", "trial-002"])
    with place.start() as process:
        wait_for(lambda: any("trial-002" in line for line in place.lines("starts")), process)
        process.kill()
    drawn = {number: row[RATE] for number, row in rows(place).items()}
    (place.folder / "go").touch()
    before = len(place.lines("starts"))
    status, said = place.run()
    assert status == 0, said
    again = [line for line in place.lines("starts")[before:] if "resumed" in line]
    assert sorted(again) == [f"trial-00{k} resumed seed 0" for k in (1, 2)]
    assert len(place.lines("starts")[before:]) == 3, "and trial 3 was new"
    table = rows(place)
    assert [row["outcome"] for row in table.values()] == ["done"] * 4
    assert all(table[number][RATE] == value for number, value in drawn.items())


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_shuts_all_runs_down_cleanly_and_they_can_be_resumed(place, number):
    place.write(parallel=2)
    place.fake(block=["trial-000", "trial-001"])
    with place.start() as process:
        wait_for(lambda: len(place.lines("starts")) == 2, process)
        wait_for(lambda: len(list(place.sweep.glob("*/Basic/summaries.csv"))) == 2, process)
        os.killpg(process.pid, number)  # as a terminal's Ctrl-C does
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert sorted(place.lines("ends")) == ["trial-000", "trial-001"]
    assert "The same command continues it" in said and "Traceback" not in said
    (place.folder / "go").touch()
    assert place.run()[0] == 0
    assert [row["outcome"] for row in rows(place).values()] == ["done"] * 4


def test_a_trial_that_is_worse_than_others_is_pruned(place):
    place.write(pruner={"type": "median", "startup_trials": 1, "warmup_steps": 0})
    place.fake(block=["trial-002"], worth={"trial-002": -5.0})
    status, said = place.run()
    assert status == 0, said
    assert place.lines("ends") == ["trial-002"]
    assert "trial 2 was pruned at step 100: others were better by then" in said
    assert rows(place)[2]["outcome"] == "pruned" and float(rows(place)[2]["value"]) == -5.0


def test_no_trial_is_pruned_during_warm_up_or_after_its_end(place):
    place.write(pruner={"type": "median", "startup_trials": 1, "warmup_steps": 600})
    place.fake(block=["trial-002"], worth={"trial-002": -5.0})
    with place.start() as process:
        wait_for(lambda: (place.sweep / "trial-002/Basic/summaries.csv").exists(), process)
        (place.folder / "go").touch()
        process.communicate(timeout=300)
    assert rows(place)[2]["outcome"] == "done" and not place.lines("ends")


def test_a_failure_is_reported_with_its_error_and_retried_at_the_next_start(place):
    place.fake(fail=["trial-001"])
    status, said = place.run()
    assert status == 0
    assert "trial 1 failed: the engine is on strike" in said
    table = rows(place)
    assert table[1]["outcome"] == "failed" and table[1]["error"] == "the engine is on strike"
    assert len(table) == 4
    place.fake()
    assert place.run()[0] == 0
    after = rows(place)
    assert place.lines("starts")[-1] == "trial-004 new seed 0" and len(place.lines("starts")) == 5
    assert after[4][RATE] == table[1][RATE] and 1 not in after
    assert place.run()[0] == 0 and len(place.lines("starts")) == 5


def test_a_sweep_ends_if_all_trials_fail(place):
    place.write(trials=20)
    place.fake(fail=[f"trial-{number:03}" for number in range(20)])
    status, said = place.run()
    assert status == 1
    assert "3 trials in a row failed and none succeeded" in said and "on strike" in said
    assert len(place.lines("starts")) == 3


def test_every_seed_of_a_trial_counts(place):
    place.write(trials=1, seeds=3, seed=5)
    place.fake(worth={f"trial-000/seed-{k}": float(k) for k in (5, 6, 7)})
    status, said = place.run()
    assert status == 0, said
    assert place.lines("starts") == [f"trial-000/seed-{k} new seed {k}" for k in (5, 6, 7)]
    assert float(rows(place)[0]["value"]) == 6.0 and int(rows(place)[0]["step"]) == 3000


@posix
def test_finished_seeds_are_not_run_again_after_a_kill(place):
    place.write(trials=1, seeds=2)
    place.fake(block=["trial-000/seed-1"], worth={"trial-000/seed-0": 3.0})
    with place.start() as process:
        wait_for(lambda: len(place.lines("starts")) == 2, process)
        process.kill()
    (place.folder / "go").touch()
    assert place.run()[0] == 0
    assert [line.split()[0] for line in place.lines("starts")].count("trial-000/seed-0") == 1
    assert float(rows(place)[0]["value"]) == 2.0


def test_a_grid_is_tried_completely(place):
    place.write(
        sampler="grid",
        trials=None,
        parameters={RATE: {"values": [0.001, 0.002]}, "debug": {"values": [0, 1]}},
    )
    assert place.run()[0] == 0
    tried = {(row[RATE], row["debug"]) for row in rows(place).values()}
    assert len(tried) == 4 == len(place.lines("starts"))
    assert place.run()[0] == 0 and len(place.lines("starts")) == 4


def test_a_grid_is_tried_up_to_the_limit_and_the_rest_later(place):
    place.write(
        sampler="grid", trials=3, parameters={RATE: {"values": [0.001, 0.002]}, "debug": {"values": [0, 1]}}
    )
    assert place.run()[0] == 0 and len(rows(place)) == 3 == len(place.lines("starts"))
    assert place.run("--trials", "9")[0] == 0 and len(place.lines("starts")) == 4
    assert len({(row[RATE], row["debug"]) for row in rows(place).values()}) == 4


def test_a_different_sweep_of_the_same_name_is_refused_unless_forced(place):
    place.run()
    place.write(last=1, set={"behaviors.Basic.time_horizon": 32})
    status, said = place.run()
    assert status == 1
    assert "last was 3 and is 1" in said and "behaviors.Basic.time_horizon was 64 and is 32" in said
    assert "--force" in said and "--name" in said and len(place.lines("starts")) == 4
    status, said = place.run("--force")
    assert status == 0 and "set aside" in said
    assert len(place.lines("starts")) == 8 and len(list((place.folder / "results").glob("mine.*"))) == 1


def test_a_folder_without_a_sweep_is_left_alone(place):
    (place.sweep / "run_logs").mkdir(parents=True)
    status, said = place.run()
    assert status == 1 and "holds no sweep" in said
    assert [path.name for path in place.sweep.iterdir()] == ["run_logs"]


def test_a_damaged_study_is_reported(place):
    place.sweep.mkdir(parents=True)
    (place.sweep / "study.db").write_text("no database")
    status, said = place.run()
    assert status == 1 and "study.db cannot be used" in said and "Traceback" not in said


def test_an_unknown_metric_is_reported_with_the_nearest(place):
    place.write(metric="Environment/Cumulative Rewart")
    status, said = place.run()
    assert status == 1 and "Did you mean Environment/Cumulative Reward?" in said


@posix
def test_two_processes_cannot_run_one_sweep(place):
    place.fake(block=["trial-000"])
    with place.start() as process:
        wait_for(lambda: place.lines("starts"), process)
        status, said = place.run()
        process.terminate()
        process.communicate(timeout=300)
    assert status == 1 and "is running" in said


def test_incompatible_values_fail_only_their_own_trial(place):
    """Each is compatible with the first value of the other, which is all that is checked before."""
    both = {
        "behaviors.Basic.test_video": {"values": [False, True]},
        "behaviors.Basic.test_frequency": {"values": [100, -1, 200]},
    }
    place.write(sampler="grid", trials=None, parameters=both)
    status, said = place.run()
    assert status == 0, said
    assert "found true, but there are no tests to film" in said and "Traceback" not in said
    assert [row["outcome"] for row in rows(place).values()].count("failed") == 1
    assert len(place.lines("starts")) == 5


def test_hyperband_finishes_or_prunes_every_trial(place):
    place.write(pruner="hyperband", trials=5)
    place.fake(worth={f"trial-{number:03}": float(-number) for number in range(5)})
    status, said = place.run()
    assert status == 0, said
    assert {row["outcome"] for row in rows(place).values()} <= {"done", "pruned"} and len(rows(place)) == 5


@posix
def test_a_sweep_continues_if_its_tables_cannot_be_written(place):
    place.fake(block=["trial-001"])
    with place.start() as process:
        wait_for(lambda: len(place.lines("starts")) == 2, process)
        (place.sweep / "sweep.csv").unlink()
        (place.sweep / "sweep.csv").mkdir()
        (place.folder / "go").touch()
        said, _ = process.communicate(timeout=300)
    assert "could not be written" in said and "trial 3 reached 1" in said and "Traceback" not in said


@posix
def test_a_study_damaged_during_the_sweep_shuts_its_runs_down_cleanly(place):
    place.write(parallel=2)
    place.fake(block=["trial-001"])
    with place.start() as process:
        wait_for(lambda: (place.sweep / "trial-001/Basic/summaries.csv").exists(), process)
        (place.sweep / "study.db").write_bytes(b"no database" * 10000)
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "study.db cannot be used" in said and "Traceback" not in said
    assert "The sweep cannot continue" in said and "trial-001" in place.lines("ends")


@posix
def test_a_sweep_that_cannot_write_logs_shuts_its_runs_down_cleanly(place):
    place.write(parallel=2, trials=1000)
    place.fake(block=["trial-000"])
    with place.start() as process:
        wait_for(lambda: (place.sweep / "trial-000/Basic/summaries.csv").exists(), process)
        logs = place.sweep / LOGS
        logs.rename(place.folder / "elsewhere")
        logs.write_text("in the way")
        said, _ = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "The sweep cannot continue" in said and "Traceback" not in said
    assert "trial-000" in place.lines("ends")


@posix
@pytest.mark.parametrize("name", ["study.db", "trial-000"])
def test_a_sweep_that_leads_out_of_its_folder_is_not_continued(place, tmp_path, name):
    place.run()
    path, victim = place.sweep / name, tmp_path / "precious"
    path.rename(victim)
    path.symlink_to(victim)
    before = len(place.lines("starts"))
    status, said = place.run("--trials", "9")
    assert status == 1 and f"{name} is a link to {victim}, outside of the sweep" in said
    assert len(place.lines("starts")) == before
