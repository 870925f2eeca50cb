"""What runs and checkpoints of others name is neither started nor imported, unless the user says so."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from installed_plugins import install
from lanista.envs.engines.own_program import own_program
from lanista.trainers.checkpoints.compatibility import recorded_in
from lanista.trainers.checkpoints.file import load_checkpoint, save_checkpoint
from lanista.trainers.checkpoints.shared_weights import save_shared
from lanista.trainers.cli.main import run
from lanista.trainers.cli.runs.record import read_run
from lanista.trainers.learn import run as learn
from lanista.trainers.policies.onnx.load import LoadError, load
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.tools.card.contents import Training
from line_runs import Restored

YAML = """\
behaviors:
  Basic:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 64
"""
EVIL = "open('PWNED', 'a').write('imported')\nclass Net: pass\nenv = parallel_env = Net\n"
OWN = """
open('STARTED', 'a').write('x')
from lanista.envs.scenes.in_process import make_in_process


def make():
    return make_in_process('scene:basic')
"""
BODY = """
import torch


class Body(torch.nn.Module):
    def __init__(self, specs, settings):
        super().__init__()
        self.size = 4
        self.layer = torch.nn.Linear(20, 4)

    def forward(self, observations):
        return self.layer(observations[0])
"""
SHORT = ["--episodes", "2", "--max-decisions", "5"]
SHELL = {"env_path": "python:os:system", "env_args": ["--command", "touch PWNED; true"]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A results folder with the run `base`, of a built-in scene."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "c.yaml").write_text(YAML)
    with Restored():
        arguments = ["--env", "scene:basic", "--seed", "1", "--run-id", "base"]
        assert learn([str(folder / "c.yaml"), *arguments, "--results-dir", str(folder / "results")]) == 0
    return folder / "results"


@pytest.fixture
def place(trained, tmp_path, monkeypatch):
    """A folder of somebody else, which is the current one: with the run `theirs`, and modules."""
    shutil.copytree(trained / "base", tmp_path / "theirs")
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "c.yaml").write_text(YAML)
    (tmp_path / "theirs" / "game.sh").write_text("#!/bin/sh\ntouch PWNED\n")
    (tmp_path / "theirs" / "game.sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "stdin", None)
    yield tmp_path
    sys.modules.pop("evil", None)


def rename(run_folder, **settings):
    """Let the run's settings name another environment."""
    path = run_folder / "configuration.yaml"
    tree = yaml.safe_load(path.read_text())
    tree["env_settings"].update({"env_args": None, **settings})
    path.write_text(yaml.safe_dump(tree))


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        SHELL,
        {"env_path": "theirs/game.sh"},
        {"env_path": "scene:basic", "env_args": ["-logFile", "PWNED"]},
        {"env_path": "python:evil:Net"},
        {"env_path": "pettingzoo:evil"},
        {"env_path": "gymnasium:evil:Env-v0"},
    ],
    ids=lambda settings: settings["env_path"],
)
@pytest.mark.parametrize(
    "words",
    [
        ["play", "theirs"],
        ["play", "theirs/Basic"],
        ["card", "theirs", "-o", "card.md"],
        ["card", "theirs/Basic.onnx", "-o", "card.md"],
        ["tournament", "theirs", "theirs/Basic.onnx", "--games", "1"],
    ],
    ids=" ".join,
)
def test_the_environment_of_a_run_is_not_started(place, settings, words, capsys):
    rename(place / "theirs", **settings)
    more = SHORT if words[0] == "play" else []
    assert run([*words, *more]) == 1
    told = capsys.readouterr().err
    assert "--trust-run" in told and "--env" in told and settings["env_path"] in told
    assert not (place / "PWNED").exists()


@pytest.mark.slow
@pytest.mark.parametrize("words", [["play", "theirs"], ["card", "theirs", "-o", "card.md"]], ids=" ".join)
def test_with_the_flag_it_is(place, words):
    rename(place / "theirs", **SHELL)
    assert run([*words, "--trust-run", "--episodes", "1"]) == 1, "what it started is no environment"
    assert (place / "PWNED").exists()


@pytest.mark.slow
def test_what_the_user_names_is_started_and_scenes_are(place, capsys):
    assert run(["play", "theirs", *SHORT]) == 0, "as it was trained, in a scene"
    rename(place / "theirs", **SHELL)
    assert run(["play", "theirs", "--env", "scene:basic", *SHORT]) == 0
    assert run(["card", "theirs", "--episodes", "0", "-o", "card.md"]) == 0, "nothing is started for it"
    assert run(["runs", "."]) == 0 and run(["report", "theirs"]) == 0
    assert not (place / "PWNED").exists()


def evil_network(place):
    """Its checkpoints name a class, in every form."""
    file = place / "theirs" / "Basic" / "checkpoint.pt"
    state = load_checkpoint(file)
    state["brain"]["network"]["encoders"] = {"Basic": "evil:Net"}
    save_checkpoint(file, state)
    save_shared(place / "x.safetensors", state)
    for brain in place.glob("theirs/**/*.onnx"):
        brain.unlink()


@pytest.mark.parametrize("source", ["theirs", "theirs/Basic", "theirs/Basic/checkpoint.pt", "x.safetensors"])
@pytest.mark.parametrize(
    "words",
    [
        ["play", "--env", "scene:basic"],
        ["card", "-o", "card.md"],
        ["tournament", "x.safetensors", "--env", "scene:basic"],
        ["export"],
        ["export", "--safetensors"],
        ["export", "--godot"],
    ],
    ids=" ".join,
)
def test_a_class_that_a_checkpoint_names_is_not_imported(place, source, words, capsys):
    pytest.importorskip("safetensors")
    evil_network(place)
    assert run([words[0], source, *words[1:]]) == 1
    told = capsys.readouterr().err
    assert "evil:Net" in told and "--trust-run" in told and not (place / "PWNED").exists()
    assert run([words[0], source, *words[1:], "--trust-run"]) == 1, "it is no network"
    assert (place / "PWNED").exists()


@pytest.mark.parametrize("part", ["body", "critic"])
def test_loading_refuses_it_and_names_the_argument(place, part):
    file = place / "theirs" / "Basic" / "checkpoint.pt"
    state = load_checkpoint(file)
    network = state["brain"]["network"]
    network.update({"body": "evil:Net"} if part == "body" else {"critic": {**network, "body": "evil:Net"}})
    save_checkpoint(file, state)
    with pytest.raises(LoadError, match=r"evil:Net.*\n.*trust_run=True"):
        load(file)
    assert not (place / "PWNED").exists()
    with pytest.raises(LoadError, match=r"evil:Net cannot be built"):
        load(file, trust_run=True)
    assert (place / "PWNED").exists()


@pytest.mark.slow
@pytest.mark.parametrize("source", ["theirs", "theirs/Basic/checkpoint.pt", "x.safetensors"])
def test_weights_to_begin_with_import_nothing(place, source):
    pytest.importorskip("safetensors")
    evil_network(place)
    with Restored():
        learn(["c.yaml", "--env", "scene:basic", "--run-id", "new", "--initialize-from", source])
    assert not (place / "PWNED").exists()


@pytest.mark.slow
def test_an_own_run_is_played_without_a_question_also_from_another_folder_for_runs(trained, place, capsys):
    (place / "own_game.py").write_text(OWN)
    (place / "own_body.py").write_text(BODY)
    line = ["--env", "python:own_game:make", "--run-id", "mine", "--seed", "1"]
    whose = ["--set", "behaviors.Basic.network_settings.body=own_body:Body"]
    with Restored():
        assert learn(["c.yaml", *line, *whose]) == 0
    assert run(["play", "mine", *SHORT]) == 0
    assert run(["card", "mine", "--episodes", "1"]) == 0
    Path("elsewhere").mkdir()
    moved = Path("results/mine").rename("elsewhere/moved")
    assert run(["play", str(moved), *SHORT]) == 0, capsys.readouterr().err
    assert load(moved).act(np.zeros((1, 20), np.float32))

    # Somebody else sends it back, with another game, or with other words.
    theirs = place / "received"
    shutil.copytree(moved, theirs / "run")
    (theirs / "own_game.py").write_text(EVIL)
    (theirs / "own_body.py").write_text(EVIL)
    os.chdir(theirs)
    for name in ("own_game", "own_body"):
        sys.modules.pop(name, None)
    assert run(["play", "run", *SHORT]) == 1
    assert run(["play", "run", "--env", "scene:basic", *SHORT]) == 1, "its network too"
    os.chdir(place)
    rename(moved, **SHELL)
    assert run(["play", str(moved), *SHORT]) == 1
    assert not list(place.rglob("PWNED"))


def test_a_plugin_that_settings_name_is_not_imported(place, monkeypatch, capsys):
    entries = {"lanista.trainers": {"odd": "odd_trainer:make"}}
    monkeypatch.syspath_prepend(install(place / "site", entries, {"odd_trainer": EVIL}))
    path = place / "theirs" / "configuration.yaml"
    tree = yaml.safe_load(path.read_text())
    tree["behaviors"]["Basic"]["trainer_type"] = "odd"
    path.write_text(yaml.safe_dump(tree))
    assert run(["play", "theirs", *SHORT]) == 1
    assert "lanista.trainers:odd" in capsys.readouterr().err
    assert "odd" in json.dumps(Training(read_run(place / "theirs")).settings())
    assert run(["report", "theirs"]) == 0
    assert not (place / "PWNED").exists()


def test_a_plugin_that_only_the_settings_of_an_older_run_name_is_not_imported(place, monkeypatch):
    """Checkpoints of 0.1.0 have no settings: those of the run, which may be somebody else's, are compared."""
    monkeypatch.syspath_prepend(
        install(
            place / "site", {"lanista.reward_signals": {"odd": "odd_signal:SIGNAL"}}, {"odd_signal": EVIL}
        )
    )
    settings = TrainerSettings.model_validate({"trainer_type": "ppo"})
    written = {"trainer_type": "ppo", "network_settings": {"hidden_units": 32}}
    assert recorded_in({"Basic": written}, "Basic", settings)["network_settings.hidden_units"] == 32
    assert recorded_in({"Basic": {**written, "reward_signals": {"odd": {}}}}, "Basic", settings) == {}
    assert not (place / "PWNED").exists()


@pytest.mark.slow
@pytest.mark.parametrize("version", [(3, 10), sys.version_info[:2]], ids=["3.10", "here"])
@pytest.mark.parametrize(
    "words", [("lanista.envs.scenes", "--help"), ("lanista.trainers.cli.main", "play", "--help")]
)
def test_modules_of_the_current_folder_do_not_shadow_those_of_a_process(place, version, words):
    for name in ("argparse", "json", "numpy", "logging", "runpy", "yaml"):
        (place / f"{name}.py").write_text(EVIL)
    command = own_program(*words, version=version)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "usage" in done.stdout, done.stderr
    assert not (place / "PWNED").exists()


@pytest.mark.slow
def test_an_experiment_in_the_folder_of_somebody_else_runs_none_of_its_modules(place):
    (place / "argparse.py").write_text(EVIL)
    (place / "c.yaml").write_text(f"{YAML}env_settings: {{env_path: scene:basic}}\n")
    assert run(["experiment", "c.yaml"]) == 0
    assert not (place / "PWNED").exists()


@pytest.mark.slow
def test_modules_of_the_current_folder_do_not_shadow_those_of_a_process_of_ray(place):
    """Ray would put that folder before all others."""
    pytest.importorskip("ray")
    for name in ("argparse", "colorsys", "numpy", "logging", "yaml"):
        (place / f"{name}.py").write_text(EVIL)
    with Restored():
        assert (
            learn(["c.yaml", "--env", "scene:basic", "--run-id", "mine", "--seed", "1", "--ray", "local"])
            == 0
        )
    assert not (place / "PWNED").exists()
