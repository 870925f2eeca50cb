"""`lanista experiment`: several runs, one after the other, and the outcome of each."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from lanista.trainers.cli.main import run
from lanista.trainers.tools import experiment


def options(folder, run_id, **behavior):
    settings = {
        "trainer_type": "ppo",
        "hyperparameters": {"batch_size": 8, "buffer_size": 32},
        "network_settings": {"hidden_units": 8, "num_layers": 1},
        "max_steps": 100,
    } | behavior
    return {
        "behaviors": {"Basic": settings},
        "env_settings": {"env_path": "scene:basic", "seed": 1},
        "checkpoint_settings": {"run_id": run_id, "results_dir": str(folder / "results")},
    }


def write(path, told):
    path.write_text(json.dumps(told, indent=2) if path.suffix == ".json" else yaml.safe_dump(told))
    return str(path)


@pytest.mark.slow
def test_runs_continue_after_one_that_fails(tmp_path, capfd):
    broken = options(tmp_path, "broken")
    broken["env_settings"]["env_path"] = str(tmp_path / "no engine")
    files = [
        write(tmp_path / "broken.yaml", broken),
        write(tmp_path / "good.json", options(tmp_path, "good")),
    ]
    assert run(["experiment", *files]) == 1
    said = capfd.readouterr()
    assert (tmp_path / "results" / "good" / "Basic.onnx").is_file(), said
    assert "no engine" in said.err and "lanista-learn: error" in said.err
    table = said.out[said.out.index("configuration") :]
    assert "failed (status 1)" in table and "done" in table


@pytest.fixture
def processes(monkeypatch):
    """Replaces the runs' processes; the files that were run."""
    ran = []

    def train(one, stopping):
        ran.append(one.file)
        one.seconds, one.outcome = 1.0, "done"

    monkeypatch.setattr(experiment, "_train", train)
    return ran


def test_the_status_is_0_if_all_runs_succeed(tmp_path, processes):
    files = [write(tmp_path / f"{name}.yaml", options(tmp_path, name)) for name in "ab"]
    assert run(["experiment", *files]) == 0
    assert processes == files


@pytest.mark.parametrize(
    "change, says",
    [
        ({"max_stepz": 3}, "max_stepz: unknown key"),
        ({"trainer_type": "td3", "network_settings": {"memory": {}}}, "network_settings.memory"),
    ],
)
def test_an_invalid_file_lets_no_run_start(tmp_path, processes, change, says, capsys):
    good, bad = options(tmp_path, "good"), options(tmp_path, "bad", **change)
    files = [write(tmp_path / "good.yaml", good), write(tmp_path / "bad.yaml", bad)]
    assert run(["experiment", *files]) == 1
    said = capsys.readouterr().err
    assert says in said and "No run has begun" in said
    assert not processes


def test_a_run_that_would_be_overwritten_is_found_before_the_first_starts(tmp_path, processes, capsys):
    (tmp_path / "results" / "old" / "Basic").mkdir(parents=True)
    files = [write(tmp_path / f"{name}.yaml", options(tmp_path, name)) for name in ("new", "old")]
    assert run(["experiment", *files]) == 1
    said = capsys.readouterr().err
    assert "old.yaml: Previous data from this run ID was found" in said and "No run has begun" in said
    assert not processes


def test_two_runs_of_one_folder_are_refused(tmp_path, processes, capsys):
    files = [write(tmp_path / f"{name}.yaml", options(tmp_path, "same")) for name in "ab"]
    assert run(["experiment", *files]) == 1
    assert "write to one folder" in capsys.readouterr().err and not processes


@pytest.mark.slow
@pytest.mark.posix("signals")
@pytest.mark.parametrize("told", ["alone by SIGTERM", "alone by SIGINT", "with its run by Ctrl-C"])
def test_a_signal_ends_the_run_gracefully_and_starts_no_other(tmp_path, told):
    files = [
        write(tmp_path / f"{name}.yaml", options(tmp_path, name, max_steps=10_000_000, summary_freq=500))
        for name in ("first", "second")
    ]
    command = [sys.executable, "-m", "lanista.trainers.cli.main", "experiment", *files]
    log = tmp_path / "log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True) as process,
    ):
        while "Step: 500" not in log.read_text():
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        if "Ctrl-C" in told:
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(signal.SIGINT if "SIGINT" in told else signal.SIGTERM)
        assert process.wait(timeout=120) == experiment.INTERRUPTED, log.read_text()
    assert (tmp_path / "results" / "first" / "Basic.onnx").is_file()
    assert not (tmp_path / "results" / "second").exists()
    said = log.read_text()
    assert "stopped" in said and "not run" in said
