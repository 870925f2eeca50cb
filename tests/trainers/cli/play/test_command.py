"""`lanista play` with what a training leaves: a run by its ID or folder, its models, its checkpoints."""

import argparse
import json

import pytest
import yaml
from lanista.envs.scenes.in_process import make_in_process
from lanista.envs.unity.environment import UnityEnvironment
from lanista.trainers.cli.main import run
from lanista.trainers.cli.opening import set_parameters
from lanista.trainers.cli.play.command import _choose_environment, add_arguments, environment_name
from lanista.trainers.cli.play.environment import open_played
from lanista.trainers.learn import run as learn
from lanista.trainers.networks.multi_actor import MultiActor, exported_networks
from lanista.trainers.policies.onnx.export import export_brain
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.utils.trust import Trust
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


@pytest.mark.slow
def test_all_behaviors_of_a_run_act_in_the_environment_that_it_was_trained_in(results, capsys):
    report = played(capsys, "walls", "--results-dir", results)
    assert report["environment"] == WALLS and set(report["behaviors"]) == BEHAVIORS
    assert [one["episodes"] for one in report["behaviors"].values()] == [30, 30], "of each behavior"
    assert report["episodes"] == 60 and report["mean_reward"] is None
    assert {name.partition("?")[0] for name in report["models"]} == {"BigWallJump", "SmallWallJump"}
    assert all(name.partition("?")[0] in source for name, source in report["models"].items())
    assert played(capsys, results / "walls")["behaviors"] == report["behaviors"]
    one = played(capsys, results / "walls" / "SmallWallJump")
    assert one["environment"] == WALLS and list(one["behaviors"]) == ["SmallWallJump?team=0"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["brains", "checkpoints"])
def test_sampled_actions_repeat_with_a_seed_and_differ_with_another(results, capsys, kind):
    run_folder = results / "walls"
    models = [run_folder] if kind == "brains" else sorted(run_folder.glob("*/checkpoint.pt"))

    def returns(seed):
        report = played(capsys, *models, "--env", WALLS, "--sampled", "--seed", seed)
        return report["behaviors"]

    assert returns(3) == returns(3) != returns(4)


@pytest.mark.slow
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
        (["results/wals.onnx"], "results/wals.onnx: there is no such file or folder.\n"),
        (["wals.onnx"], "wals.onnx: there is no such file or folder.\n"),
        (["walls", "walls/SmallWallJump.onnx"], "are for the same behavior, SmallWallJump"),
        (["walls", "--env", "scene:basic"], "No model acts for the behavior Basic?team=0"),
        (["walls/run_logs"], "holds no policy"),
        (["walls/configuration.yaml"], "is neither a brain (.onnx) nor a checkpoint (.pt)"),
    ],
)
def test_what_cannot_be_played_is_told(results, given, says, capsys, monkeypatch):
    monkeypatch.chdir(results)
    assert says in refused(capsys, *given, "--results-dir", ".")


@pytest.mark.slow
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
    big, small = (report["behaviors"][name]["episodes"] for name in sorted(BEHAVIORS))
    each = f"{big} (BigWallJump?team=0) and {small} (SmallWallJump?team=0)"
    assert f"Stopped after {each} of 100000 episodes." in capsys.readouterr().out
    steps[:] = [1] * 39
    assert run(arguments) == 130, "before the first step"
    assert capsys.readouterr().out.endswith("Stopped after 0 of 100000 episodes.\n")


SOCCER = "scene:soccer-twos"


def slot_models(folder, behavior, slots):
    """A run whose slots have models of their own, for the agents of SOCCER."""
    env = make_in_process(SOCCER, 0, ["--areas", "1"])
    env.reset()
    network = MultiActor(
        next(iter(env.behavior_specs.values())), NetworkSettings(hidden_units=8), slots, shared=False
    )
    (folder / behavior).mkdir(parents=True)
    for suffix, actor in exported_networks(network).items():
        export_brain(actor, folder / behavior / f"{behavior}-10{suffix}.onnx", behavior=behavior)
    return str(folder)


@pytest.mark.slow
def test_the_models_of_all_slots_play(tmp_path, capsys):
    team = slot_models(tmp_path / "team", "SoccerTwos", 2)
    report = played(capsys, team, "--env", SOCCER)
    assert sum(one["episodes"] for one in report["behaviors"].values()) > 0
    both = [
        "tournament",
        team,
        slot_models(tmp_path / "one", "SoccerTwos", 1),
        "--env",
        SOCCER,
        "--games",
        "1",
    ]
    assert run([*both, "--num-areas", "1"]) == 1
    assert "more than 1 members in one episode" in capsys.readouterr().err


def test_a_run_is_played_with_its_environment_parameters_in_the_lesson_that_it_came_to(tmp_path, capsys):
    folder = tmp_path / "heavy"
    (folder / "run_logs").mkdir(parents=True)
    lessons = [{"name": "light", "value": 1.0}, {"name": "heavy", "value": 7.0}]
    criteria = {"measure": "progress", "behavior": "3DBall", "threshold": 0.5}
    lessons[0]["completion_criteria"] = criteria
    parameters = {"mass": {"curriculum": lessons}, "scale": 3.0}
    settings = {"behaviors": {"3DBall": {"trainer_type": "ppo"}}, "environment_parameters": parameters}
    settings["env_settings"] = {"env_path": "scene:ball3d"}
    (folder / "configuration.yaml").write_text(yaml.safe_dump(settings))
    (folder / "run_logs" / "training_status.json").write_text(
        '{"mass": {"lesson_num": 1}, "metadata": {"stats_format_version": "0.3.0"}}'
    )

    def given(*more):
        parser = argparse.ArgumentParser()
        add_arguments(parser)
        arguments = parser.parse_args([str(folder), *more])
        _choose_environment(arguments, Trust())
        return arguments

    env = open_played(given("--render", "x.gif"), shown=True)
    set_parameters(env, given().parameters)
    assert [env.parameters.get(name, 0.0) for name in ("mass", "scale")] == [7.0, 3.0]
    other = given("--env", "scene:ball3d")
    assert other.parameters == {}, "another environment than the run's"
    # Recorded demonstrations then hold what the run observes, and not a state that it does not read.
    assert [(each.with_state, each.self_play) for each in (given(), other)] == [(False, False), (True, None)]
    engine = open_played(given(), shown=False)
    try:
        set_parameters(engine, given().parameters)
        engine.reset()
    finally:
        engine.close()


TURNS = """
from scripted_turns import Move, ScriptedGame


def env():
    return ScriptedGame([[Move([0, 0], {}, 1), Move([1, -1], {}, 1)]], 2)
"""


def test_seats_that_were_trained_as_behaviors_of_their_own_are_played_so(tmp_path, monkeypatch, capsys):
    """Although one policy could play both: that is what environments without a run are played with."""
    pytest.importorskip("pettingzoo")
    (tmp_path / "played_turns.py").write_text(TURNS)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "c.yaml").write_text(YAML)
    where = ["--results-dir", str(tmp_path / "results")]
    with Restored():
        arguments = ["--env", "pettingzoo:played_turns", "--run-id", "r", "--seed", "1"]
        assert learn([str(tmp_path / "c.yaml"), *arguments, *where]) == 0
    capsys.readouterr()
    assert run(["play", "r", "--episodes", "4", "--json", *where]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"player_0", "player_1"} == {name.partition("?")[0] for name in report["behaviors"]}


STUCK = """
from lanista.envs import WorldEnvironment
from lanista.envs.scenes.worlds.basic import Basic


class Stuck(WorldEnvironment):
    def __init__(self):
        super().__init__(Basic(), seed=1)

    def close(self):
        raise OSError("the window is stuck")
"""


def test_what_was_played_is_reported_although_the_environment_cannot_be_closed(tmp_path, monkeypatch, capsys):
    (tmp_path / "played_stuck.py").write_text(STUCK)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--pretrained", "basic", "--env", "python:played_stuck:Stuck", "--episodes", "2", "--json"]
    with Restored():
        assert run(["play", *words]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["behaviors"]["Basic?team=0"]["episodes"] == 2
    assert "close of <played_stuck.Stuck> raised OSError: the window is stuck" in said.err


@pytest.mark.parametrize(
    ("env_path", "listen", "name"),
    [
        ("scene:basic", None, "scene:basic"),
        (None, None, "Unity Editor"),
        (None, "0.0.0.0", "Unity Editor"),
        (None, "127.0.0.1:6000", "the engine that calls at 127.0.0.1:6000"),
    ],
)
def test_the_report_names_the_environment(env_path, listen, name):
    assert environment_name(env_path, listen) == name
