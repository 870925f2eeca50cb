"""`lanista play` with what a training leaves: a run by its ID or folder, its models, its checkpoints."""

import json

import pytest
from lanista.envs.unity.environment import UnityEnvironment
from lanista.trainers.cli.main import run
from lanista.trainers.learn import run as learn
from line_runs import Restored

YAML = """\
default_settings:
  trainer_type: ppo
  hyperparameters: {batch_size: 16, buffer_size: 64}
  network_settings: {hidden_units: 8, num_layers: 1}
  max_steps: 64
"""
WALLS = "scene:wall-jump?size=small"
BEHAVIORS = {"BigWallJump?team=0", "SmallWallJump?team=0"}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A results folder with the run `walls`, of two behaviors with the same observations and actions."""
    folder = tmp_path_factory.mktemp("play")
    (folder / "c.yaml").write_text(YAML)
    with Restored():
        arguments = ["--env", WALLS, "--seed", "1", "--run-id", "walls"]
        assert learn([str(folder / "c.yaml"), *arguments, "--results-dir", str(folder / "results")]) == 0
    return folder / "results"


def played(capsys, *arguments):
    """The report of a game."""
    capsys.readouterr()
    assert run(["play", *map(str, arguments), "--episodes", "30", "--max-decisions", "5", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys, *arguments):
    """What is said of a game that cannot be played."""
    capsys.readouterr()
    assert run(["play", *map(str, arguments), "--episodes", "2"]) == 1
    return capsys.readouterr().err


def test_all_behaviors_of_a_run_act_in_the_environment_that_it_was_trained_in(results, capsys):
    report = played(capsys, "walls", "--results-dir", results)
    assert report["environment"] == WALLS and set(report["behaviors"]) == BEHAVIORS
    assert {name.partition("?")[0] for name in report["models"]} == {"BigWallJump", "SmallWallJump"}
    assert all(name.partition("?")[0] in source for name, source in report["models"].items())
    assert played(capsys, results / "walls")["behaviors"] == report["behaviors"]
    one = played(capsys, results / "walls" / "SmallWallJump")
    assert one["environment"] == WALLS and list(one["behaviors"]) == ["SmallWallJump?team=0"]


@pytest.mark.parametrize("kind", ["brains", "checkpoints"])
def test_sampled_actions_repeat_with_a_seed_and_differ_with_another(results, capsys, kind):
    run_folder = results / "walls"
    models = [run_folder] if kind == "brains" else sorted(run_folder.glob("*/checkpoint.pt"))

    def returns(seed):
        report = played(capsys, *models, "--env", WALLS, "--sampled", "--seed", seed)
        return report["behaviors"]

    assert returns(3) == returns(3) != returns(4)


def test_checkpoints_and_models_act_together_for_the_behaviors_of_their_names(results, capsys):
    whole = played(capsys, "walls", "--results-dir", results)
    checkpoint, model = (
        results / "walls" / "BigWallJump" / "checkpoint.pt",
        results / "walls/SmallWallJump.onnx",
    )
    report = played(capsys, model, checkpoint, "--env", WALLS)
    assert report["models"] == {"BigWallJump?team=0": str(checkpoint), "SmallWallJump?team=0": str(model)}
    assert report["behaviors"] == whole["behaviors"], "a checkpoint acts as the model that was made of it"


def test_the_models_of_a_run_are_its_checkpoints_where_it_has_no_others(results, tmp_path, capsys):
    run_folder = tmp_path / "copy"
    (run_folder / "SmallWallJump").mkdir(parents=True)
    source = results / "walls" / "SmallWallJump" / "checkpoint.pt"
    (run_folder / "SmallWallJump" / "checkpoint.pt").write_bytes(source.read_bytes())
    report = played(capsys, run_folder, "--env", WALLS)
    assert set(report["behaviors"]) == {"SmallWallJump?team=0"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["wals"], "there is no such file or folder, and no run"),
        (["wals"], "Did you mean walls?"),
        (["walls", "walls/SmallWallJump.onnx"], "are for the same behavior, SmallWallJump"),
        (["walls", "--env", "scene:basic"], "No model acts for the behavior Basic?team=0"),
        (["walls/run_logs"], "holds no policy"),
        (["walls/configuration.yaml"], "is neither a brain (.onnx) nor a checkpoint (.pt)"),
    ],
)
def test_what_cannot_be_played_is_told(results, given, says, capsys, monkeypatch):
    monkeypatch.chdir(results)
    assert says in refused(capsys, *given, "--results-dir", ".")


def test_ctrl_c_reports_the_episodes_so_far(results, capsys, monkeypatch):
    step, steps = UnityEnvironment.step, []

    def stop(env):
        steps.append(1)
        if len(steps) == 40:
            raise KeyboardInterrupt
        step(env)

    monkeypatch.setattr(UnityEnvironment, "step", stop)
    arguments = ["play", str(results / "walls"), "--episodes", "100000", "--max-decisions", "5"]
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 130
    report = json.loads(capsys.readouterr().out)
    assert report["interrupted"] and 0 < report["episodes"] < 100000
    steps.clear()
    assert run(arguments) == 130
    assert f"Stopped after {report['episodes']} of 100000 episodes." in capsys.readouterr().out
    steps[:] = [1] * 39
    assert run(arguments) == 130, "before the first step"
    assert capsys.readouterr().out.endswith("Stopped after 0 of 100000 episodes.\n")
