"""Sweeps with real runs, which train in a scene."""

import csv

import pytest
import yaml
from lanista.trainers.cli.main import run

pytestmark = pytest.mark.slow

pytest.importorskip("optuna")

BASIC = "behaviors.Basic"


def sweep(tmp_path, **change):
    told = {
        "preset": "ppo/basic",
        "env": "scene:basic",
        "max_steps": 600,
        "results_dir": str(tmp_path / "results"),
        "set": {f"{BASIC}.summary_freq": 100, f"{BASIC}.time_horizon": 16},
        "parameters": {f"{BASIC}.hyperparameters.batch_size": {"values": [16, 32]}},
        "sampler": "grid",
        **change,
    }
    told = {key: value for key, value in told.items() if value is not None}
    file = tmp_path / "short.yaml"
    file.write_text(yaml.safe_dump(told))
    return run(["sweep", str(file)])


def rows(tmp_path):
    with open(tmp_path / "results" / "short" / "sweep.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_runs_train_with_their_values_and_are_compared(tmp_path, capfd):
    assert sweep(tmp_path, parallel=2) == 0, capfd.readouterr()
    folder = tmp_path / "results" / "short"
    for number, batch in ((0, 16), (1, 32)):
        run_folder = folder / f"trial-00{number}"
        assert (run_folder / "Basic.onnx").is_file()
        settings = yaml.safe_load((run_folder / "configuration.yaml").read_text())
        assert settings["behaviors"]["Basic"]["hyperparameters"]["batch_size"] == batch
    assert all(row["outcome"] == "done" and int(row["step"]) == 600 for row in rows(tmp_path))


def test_a_run_that_is_pruned_ends_early_and_saves_its_brain(tmp_path, capfd):
    """Compares the learning rate itself, so that the second run is worse at every summary."""

    def behavior(rate, steps):
        schedule = {"learning_rate": rate, "learning_rate_schedule": "constant"}
        hyperparameters = {"batch_size": 16, "buffer_size": 64, **schedule}
        keys = {"summary_freq": 100, "time_horizon": 16, "max_steps": steps}
        return {"trainer_type": "ppo", "hyperparameters": hyperparameters, **keys}

    status = sweep(
        tmp_path,
        metric="Policy/Learning Rate",
        max_steps=None,
        set={},
        parameters={BASIC: {"values": [behavior(0.01, 600), behavior(0.0001, 50_000_000)]}},
        pruner={"type": "median", "startup_trials": 1, "warmup_steps": 0},
    )
    assert status == 0, capfd.readouterr()
    done, pruned = rows(tmp_path)
    assert (done["outcome"], pruned["outcome"]) == ("done", "pruned")
    folder = tmp_path / "results" / "short" / "trial-001"
    assert (folder / "Basic.onnx").is_file() and (folder / "Basic" / "checkpoint.pt").is_file()
