"""A sweep with an invalid trial is refused before its first run."""

import pytest
import yaml
from lanista.envs.utils.installation import install_command
from lanista.trainers.cli.main import run

RATE = "behaviors.Basic.hyperparameters.learning_rate"
GOOD = {"preset": "ppo/basic", "env": "scene:basic", "parameters": {RATE: {"min": 1e-4, "max": 1e-2}}}

pytest.importorskip("optuna")


def complaint(tmp_path, told, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({"results_dir": str(tmp_path / "results"), **told}))
    assert run(["sweep", str(file)]) == 1
    assert not (tmp_path / "results").exists()
    return capsys.readouterr().err


def parameter(key, **told):
    return {"parameters": {key: told}}


def endless():
    schedules = ("learning_rate", "beta", "epsilon")
    constant = {f"behaviors.Basic.hyperparameters.{name}_schedule": "constant" for name in schedules}
    return {"set": {"behaviors.Basic.max_steps": -1, **constant}}


@pytest.mark.parametrize(
    "change, says",
    [
        (
            parameter("behaviors.Basic.hyperparameters.learning_rat", min=1, max=2),
            "Did you mean `learning_rate`",
        ),
        (parameter("behaviors.Basik.hyperparameters.learning_rate", min=1, max=2), "Did you mean Basic?"),
        (parameter("behaviors.Basic.learning_rate", min=1, max=2), "It belongs under `hyperparameters`"),
        (parameter("behaviors.Basic.hyperparameters.epsilon", min=-1, max=0.5), "epsilon=-1.0"),
        (parameter("behaviors.Basic.hyperparameters.lambd", min=0.5, max=1.5), "lambd=1.5"),
        (parameter("behaviors.Basic.trainer_type", values=["ppo", "ppq"]), "Did you mean ppo?"),
        (
            parameter("behaviors.Basic.hyperparameters.batch_size", min=1.5, max=8),
            "found min 1.5, expected a whole",
        ),
        ({"set": {"behaviors.Basic.max_stepz": 3}}, "max_stepz: unknown key"),
        ({"preset": "ppo/basik"}, "There is no preset 'ppo/basik'. Did you mean ppo/basic?"),
        ({"env": "scene:basik"}, "basic"),
        ({"env": None}, "cannot use an editor"),
        ({"behavior": "Basik"}, "Did you mean Basic?"),
        ({"flags": ["--num-env", "x"]}, "flags:"),
        ({"parallel": 2, "flags": ["--base-port", "6000"]}, "cannot share base_port 6000"),
        (endless(), "would never end"),
        ({"sampler": "grid"}, "a range without step has infinitely many"),
        (
            parameter("default_settings.time_horizon", values=[8, 16])
            | {"set": {"behaviors.Basic.time_horizon": 4}},
            "has no effect",
        ),
        (
            {"set": {"behaviors.Other.max_steps": 10}},
            "name the one whose Environment/Cumulative Reward counts",
        ),
    ],
)
def test_an_invalid_sweep_starts_no_trial(tmp_path, change, says, capsys):
    told = {key: value for key, value in (GOOD | change).items() if value is not None}
    said = complaint(tmp_path, told, capsys)
    assert says in said and "Traceback" not in said


def test_trials_of_behaviors_that_are_not_listed_end_too(tmp_path, capsys):
    file = tmp_path / "c.yaml"
    file.write_text("default_settings: {trainer_type: sac, max_steps: -1}")
    rate = "default_settings.hyperparameters.learning_rate"
    told = {"config": str(file), "env": "scene:basic", "parameters": {rate: {"min": 1e-4, "max": 1e-2}}}
    assert "default_settings has max_steps -1, so its trials would never" in complaint(tmp_path, told, capsys)


def test_a_missing_package_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("lanista.trainers.tools.sweep.command.find_spec", lambda name: None)
    assert install_command("sweep") in complaint(tmp_path, GOOD, capsys)


@pytest.mark.slow
def test_a_sweep_is_validated_without_torch(tmp_path):
    import subprocess
    import sys

    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(GOOD))
    code = (
        "import sys; from pathlib import Path\n"
        "from lanista.trainers.tools.sweep.settings import read_sweep\n"
        "from lanista.trainers.tools.sweep.command import Sweep\n"
        f"Sweep.checked(read_sweep({str(file)!r}), Path('nowhere'))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
