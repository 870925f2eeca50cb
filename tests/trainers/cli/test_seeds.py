"""`lanista learn --seeds`: a run for each seed, and a report on all of them."""

import os
import signal
from pathlib import Path
from threading import Thread

import pytest
import yaml
from console_runs import until
from lanista.trainers.cli.main import run
from lanista.trainers.cli.seeds import asked
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


def test_every_seed_is_trained_and_the_report_shows_them_as_one_group(config, tmp_path, capfd):
    line = ["learn", config, "--env", "scene:basic", "--run-id", "b", "--seeds", "3,5", "--parallel", "2"]
    assert run(line) == 0
    said = capfd.readouterr().out
    assert seed_of("b-3") == 3 and seed_of("b-5") == 5
    assert "Seed 3 ended after" in said and "The report is results/b.html." in said
    assert "b (2 runs)" in (tmp_path / "results" / "b.html").read_text()
    assert run(line) == 1
    assert "No run has begun" in capfd.readouterr().err


def test_a_run_that_fails_is_named_and_the_others_go_on(config, tmp_path, capfd):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / ".b-0.lock").mkdir()  # where the run's lock would be
    assert run(["learn", config, "--env", "scene:basic", "--run-id", "b", "--seeds=2"]) == 1
    said = capfd.readouterr().out
    assert "Seed 0 failed after" in said and "Seed 1 ended after" in said


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


def test_what_follows_env_args_is_the_engine_s():
    assert asked(["a.yaml", "--seeds=3", "--env-args", "x"])
    assert not asked(["a.yaml", "--env-args", "--seeds", "3"])
