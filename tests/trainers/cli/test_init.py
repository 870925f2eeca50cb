"""`lanista init`: what it writes for an environment can be trained with, and fits what was seen there."""

import sys
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.base import behavior_id
from lanista.envs.scenes.registry import export
from lanista.trainers.cli.init import bounds, command
from lanista.trainers.cli.init import observe as init_observe
from lanista.trainers.cli.init.observe import BehaviorFacts, observe
from lanista.trainers.cli.init.suggest import TRAINERS, UnsuitableTrainerError, suggest
from lanista.trainers.cli.init.text import configuration
from lanista.trainers.cli.main import run
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from scripted_engine import executable
from scripted_env import NAME, Asks, Ends, ScriptedEnv, spec_of
from specs import vector_spec

SEATS = """
from scripted_turns import Move, ScriptedGame

def make():
    return ScriptedGame([[Move([0, 0], {}, 1), Move([1, -1], {0: False, 1: False}, 0)]], seats=2)
"""
CHOICES = vector_spec([4], branches=(3, 2))


def seen(name="Walker", spec=CHOICES, **known):
    return BehaviorFacts(name, spec, **{"teams": {0}, "agents": 1, "largest": 1.0, "rewarded": True, **known})


def written(environment, folder, *more):
    """The settings that are written for an environment."""
    file = folder / "own.yaml"
    assert run(["init", "--env", environment, "-o", str(file), *more]) == 0
    return RunOptions.from_file(file)


@pytest.mark.slow
def test_what_is_written_trains_without_a_change(tmp_path, capfd):
    from lanista.trainers.learn import run as learn

    written("scene:basic", tmp_path)
    short = ["--set", "behaviors.Basic.max_steps=300", "--results-dir", str(tmp_path / "results")]
    config = str(tmp_path / "own.yaml")
    status = learn([config, "--env", "scene:basic", "--run-id", "first", *short])
    printed = capfd.readouterr().out
    assert status == 0 and "Basic: the rollout will take" in printed, printed
    assert (tmp_path / "results" / "first" / "Basic.onnx").is_file()


@pytest.mark.slow
def test_the_line_to_type_is_told_and_stands_in_the_file(tmp_path, capsys):
    written("scene:soccer-twos?size=small", tmp_path)
    line = f"lanista-learn {tmp_path / 'own.yaml'} --env 'scene:soccer-twos?size=small' --run-id first"
    assert line in capsys.readouterr().out and line in (tmp_path / "own.yaml").read_text()


@pytest.mark.slow
def test_groups_learn_by_poca_and_teams_by_self_play(tmp_path):
    soccer = written("scene:soccer-twos?size=small", tmp_path).behaviors["SoccerTwos"]
    assert soccer.trainer_type == "poca" and soccer.self_play is not None
    assert "in 2 teams, in groups of up to 2" in (tmp_path / "own.yaml").read_text()


@pytest.mark.slow
def test_every_behavior_of_an_environment_is_listed(tmp_path):
    assert list(written("scene:wall-jump?areas=4", tmp_path).behaviors) == ["SmallWallJump", "BigWallJump"]


@pytest.mark.slow
def test_an_executable_of_unity_is_started(tmp_path):
    settings = written(str(export("grid", tmp_path / "Grid")), tmp_path).behaviors["GridWorld"]
    assert settings.network_settings.vis_encode_type.value == "simple"


def test_environments_in_python_are_multiplied_for_on_policy_trainers(tmp_path, capsys):
    pytest.importorskip("gymnasium")
    settings = written("gymnasium:CartPole-v1", tmp_path).behaviors["CartPole-v1"]
    assert settings.trainer_type == "ppo" and "--num-areas 16" in capsys.readouterr().out
    assert (
        written("gymnasium:Pendulum-v1", tmp_path, "--force").behaviors["Pendulum-v1"].trainer_type == "sac"
    )
    assert "--num-areas" not in capsys.readouterr().out


def test_the_seats_of_a_game_of_turns_play_against_each_other(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium")
    (tmp_path / "seats.py").write_text(SEATS)
    monkeypatch.chdir(tmp_path)
    player = written("python:seats:make", tmp_path).behaviors["player"]
    assert player.trainer_type == "ppo" and player.self_play is not None


@pytest.mark.slow
def test_a_game_of_godot_is_started(tmp_path, godot_engine, monkeypatch):
    from godot_engine import imported_project

    monkeypatch.setenv("LANISTA_GODOT", godot_engine)
    project = imported_project(godot_engine, "upstream_project")
    assert written(f"godot:{project}", tmp_path, "--no-graphics", "--timeout-wait", "120").behaviors


def test_standard_output_holds_the_file_alone(capsys):
    assert run(["init", "--env", "scene:basic", "-o", "-"]) == 0
    assert list(RunOptions.from_text(capsys.readouterr().out).behaviors) == ["Basic"]


def test_a_file_is_overwritten_by_force_alone_and_nothing_is_started_for_it(tmp_path, capsys):
    file = tmp_path / "own.yaml"
    file.write_text("mine")
    assert run(["init", "--env", "no-such-environment", "-o", str(file)]) == 1
    assert "own.yaml exists" in capsys.readouterr().err and file.read_text() == "mine"
    assert run(["init", "--env", "scene:basic", "-o", str(file), "--force"]) == 0
    assert "Basic" in file.read_text()


def test_a_file_that_was_made_while_the_environment_was_looked_at_is_kept(tmp_path, monkeypatch, capsys):
    """As by another `lanista init` in the same folder."""
    file = tmp_path / "own.yaml"

    look = command._observed

    def observed(arguments):
        file.write_text("another's")
        return look(arguments)

    monkeypatch.setattr(command, "_observed", observed)
    assert run(["init", "--env", "scene:basic", "-o", str(file)]) == 1
    assert "own.yaml exists" in capsys.readouterr().err and file.read_text() == "another's"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env", "ball3d"], "The scene is named --env scene:ball3d"),
        (["--env", "scene:bal3d"], "Did you mean 'ball3d'?"),
        (["--env", "scene:ball3d", "--allow", "10.0.0.0/8"], "such as --listen 0.0.0.0"),
        (["--env", "scene:ball3d", "--trainer", "dqn"], "3DBall has continuous actions, and dqn"),
        (["--env", "scene:basic", "--trainer", "td3"], "Basic has discrete actions, and td3"),
        (["--env", "scene:basic", "-o", "no/folder.yaml"], "There is no folder no."),
        (["--env", "scene:basic", "-o", "."], ". is a folder."),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(["init", *arguments]) == 1
    told = capsys.readouterr().err
    assert message in told.splitlines()[-1] and "Traceback" not in told and not list(tmp_path.iterdir())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the engine is a shell script")
def test_the_log_of_an_engine_that_failed_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "Bad.x86_64").write_text("#!/bin/sh\necho no level > $4\nexit 3\n")
    (tmp_path / "Bad.x86_64").chmod(0o755)
    assert run(["init", "--env", str(tmp_path / "Bad"), "-o", "-"]) == 1
    (log,) = tmp_path.glob("lanista-init-*/Player-0.log")
    assert str(log) in capsys.readouterr().err and "no level" in log.read_text()


@pytest.mark.parametrize("line", ["", "NullReferenceException: no target"])
def test_the_log_of_a_game_that_printed_errors_is_kept(tmp_path, monkeypatch, capsys, line):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    game = executable(tmp_path, f"print({line!r}, file=log)\ngreet()\nsteps(10**6)")
    assert run(["init", "--env", game, "-o", "-"]) == 0
    logs, told = list(tmp_path.glob("lanista-init-*/Player-0.log")), capsys.readouterr().err
    assert len(logs) == bool(line) and all(f"The log of environment 0: {log}" in told for log in logs)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_every_trainer_gets_settings_that_it_takes(trainer):
    actions = {"dqn": {"branches": (3,)}, "td3": {"continuous": 2}}.get(trainer, {"continuous": 2})
    one = suggest(seen(spec=vector_spec([4], **actions)), trainer=trainer, opponents=False)
    assert RunOptions.from_text(configuration([one], [])).behaviors["Walker"].trainer_type == trainer


@pytest.mark.parametrize("trainer", ["dqn", "td3"])
def test_a_trainer_of_one_kind_of_actions_is_refused_for_both(trainer):
    both = vector_spec([4], continuous=1, branches=(2,))
    with pytest.raises(UnsuitableTrainerError):
        suggest(seen(spec=both), trainer=trainer, opponents=False)


def test_an_update_holds_a_time_horizon_of_every_agent():
    for agents in (1, 33, 1000):
        settings = suggest(seen(agents=agents), copies=3, opponents=False).settings
        hyper = settings["hyperparameters"]
        together = 3 * agents * settings["time_horizon"]
        assert hyper["buffer_size"] + hyper["batch_size"] >= together
        assert hyper["buffer_size"] % hyper["batch_size"] == 0
        waves = hyper["buffer_size"] // together + 1
        assert waves * together - hyper["buffer_size"] <= together - 1, "no trajectories wait for the next"


@pytest.mark.parametrize(
    ("known", "epochs"), [({"rate": 1e3}, 10), ({"rate": 1e6}, 3), ({"rate": 1e3, "group": 2}, 3), ({}, 10)]
)
def test_few_steps_are_learned_from_in_many_epochs_of_small_minibatches(known, epochs):
    one = suggest(seen(**known), trainer="ppo", opponents=False)
    hyper = one.settings["hyperparameters"]
    assert hyper["num_epoch"] == epochs and (hyper["batch_size"] < 100) is (epochs == 10)
    assert "action_range" not in one.settings["network_settings"], "there are no continuous actions"
    assert ("1,000 decisions per second" in configuration([one], [])) is (known.get("rate") == 1e3)


PISTON = spec_of((3, 457, 120), continuous=1)
"""As PettingZoo's pistonball shows it."""


@pytest.mark.parametrize("behaviors", [1, 3])
@pytest.mark.parametrize("agents", [1, 20, 300])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_large_images_get_sizes_that_memory_has_room_for(trainer, agents, behaviors):
    spec = PISTON if trainer != "dqn" else spec_of((3, 457, 120), branches=(3,))
    one = suggest(seen(spec=spec, agents=agents), trainer=trainer, opponents=False, behaviors=behaviors)
    hyper, image = one.settings["hyperparameters"], 3 * 457 * 120
    assert hyper["batch_size"] * one.bounds.gradient <= bounds.MINIBATCH_BYTES
    assert one.bounds.gradient > 10 * image, "what convolutions keep for the gradient is the most of it"
    text = configuration([one], [])
    assert RunOptions.from_text(text).behaviors["Walker"].hyperparameters.batch_size == hyper["batch_size"]
    assert ("low because each step takes" in text) is bool(one.bounded)
    on_their_way = agents * one.settings["time_horizon"] if one.bounds.on_policy else 0
    assert hyper["buffer_size"] >= max(on_their_way, hyper["batch_size"])
    if agents <= 20:
        assert behaviors * (hyper["buffer_size"] + 2 * on_their_way) * image <= bounds.COLLECTED_BYTES


def test_large_images_are_proposed_smaller_and_then_have_room():
    text = configuration([suggest(seen(spec=PISTON, agents=20, group=20), opponents=False)], [])
    assert (
        "# let the environment send smaller images, such as 84 x 22: then the usual sizes have room" in text
    )
    small = suggest(seen(spec=spec_of((3, 84, 22), continuous=1), agents=20, group=20), opponents=False)
    assert not small.bounded and "smaller images" not in configuration([small], [])


def test_copies_of_an_environment_with_large_images_are_as_many_as_memory_has_room_for():
    many = suggest(seen(spec=PISTON, agents=20), trainer="ppo", opponents=False).bounds
    one = suggest(seen(spec=PISTON), trainer="ppo", opponents=False).bounds
    assert many.copies(20, 16) == 1 and one.copies(1, 16) == 16
    assert suggest(seen(agents=1000), opponents=False).bounds.copies(1000, 16) == 16


@pytest.mark.parametrize("spec", [CHOICES, vector_spec([300], branches=(2,)), spec_of((4, 84, 84))])
@pytest.mark.parametrize("group", [0, 4])
def test_what_most_games_show_is_not_bounded(spec, group):
    facts = seen(spec=spec, agents=16, group=group, largest=0.0)
    trainer = "poca" if group else "ppo"
    one = suggest(facts, copies=2, trainer=trainer, opponents=False)
    hyper = one.settings["hyperparameters"]
    assert not one.bounded and one.settings["time_horizon"] == 64
    assert (hyper["buffer_size"], hyper["batch_size"]) == ((7168, 1024) if group else (1984, 64))
    assert not suggest(facts, trainer="sac", opponents=False).bounded


@pytest.mark.parametrize(
    ("side", "encoder"), [(84, "simple"), (20, "simple"), (5, "match3"), (3, "fully_connected")]
)
def test_the_encoder_reads_images_of_this_size(side, encoder):
    settings = suggest(seen(spec=spec_of((3, side, 90), branches=(2,))), opponents=False).settings
    assert settings["network_settings"]["vis_encode_type"] == encoder


def test_rare_rewards_are_told_of_and_the_remedy_can_be_uncommented():
    text = configuration([suggest(seen(rewarded=False), opponents=False)], [])
    lines = text.splitlines()
    start = next(k for k, line in enumerate(lines) if line.endswith("# rnd:"))
    for k in (start, start + 1):
        lines[k] = lines[k].replace("# ", "", 1)
    memory = next(k for k, line in enumerate(lines) if "# memory:" in line)
    lines[memory] = lines[memory].replace("# ", "", 1)
    settings = RunOptions.from_text("\n".join(lines)).behaviors["Walker"]
    assert list(settings.reward_signals) == ["extrinsic", "rnd"] and settings.network_settings.memory
    assert "rnd" not in configuration([suggest(seen(), opponents=False)], [])


@pytest.mark.slow
@given(st.text(min_size=1, max_size=30), st.text(max_size=30))
def test_no_name_breaks_the_file(name, header):
    try:
        RunOptions.from_dict({"behaviors": {name: {}}})
    except TrainerConfigError:  # no file can hold it
        return
    text = configuration([suggest(seen(name), opponents=False)], [header])
    assert list(RunOptions.from_text(text).behaviors) == [name]


def test_all_of_a_message_is_seen():
    duel = {behavior_id("Duel", team): spec_of((2,), (3, 8, 8), continuous=1) for team in (0, 1)}
    first = {"Duel?team=0": [Asks(1, 0.5, group=1), Asks(2, 0.5, group=1)], "Duel?team=1": [Asks(3, -7.0)]}
    second = {"Duel?team=0": [Ends(1, group_reward=1.0)], "Duel?team=1": []}
    found = observe(ScriptedEnv([first, second], duel), steps=3)["Duel"]
    assert (found.teams, found.agents, found.group) == ({0, 1}, 3, 2)
    assert found.rewarded and found.largest == 7.0


@pytest.mark.parametrize("rate", [1e3, 1e6])
def test_all_of_the_range_of_continuous_actions_is_tried_where_steps_are_few(rate):
    both = vector_spec([4], continuous=2, branches=(2,))
    settings = suggest(seen(spec=both, rate=rate), trainer="ppo", opponents=False).settings
    few = rate == 1e3
    assert settings["network_settings"].get("action_range") == (1.0 if few else None)
    assert settings["hyperparameters"].get("ratio") == ("joint" if few else None)


def test_the_rate_counts_the_decisions_of_all_agents_and_teams(monkeypatch):
    moments = iter([10.0, 10.5, 11.0, 11.5, 12.0, 12.0])
    monkeypatch.setattr(init_observe.time, "monotonic", lambda: next(moments))
    duel = {behavior_id("Duel", team): spec_of((2,), continuous=1) for team in (0, 1)}
    step = {"Duel?team=0": [Asks(1), Asks(2)], "Duel?team=1": [Asks(3)]}
    assert observe(ScriptedEnv([step] * 5, duel), steps=4)["Duel"].rate == 6.0, "12 in two seconds"


def test_masked_actions_are_never_taken():
    env = ScriptedEnv([[Asks(1, allowed=((2,), (0, 1)))]], {NAME: CHOICES})
    observe(env, steps=50)
    taken = {tuple(acted[1][1]) for acted in env.acted}
    assert taken == {(2, 0), (2, 1)}


def test_a_behavior_without_agents_is_written_with_a_word(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "_opened", lambda *_: ScriptedEnv([[]]))
    assert run(["init", "-o", str(tmp_path / "own.yaml")]) == 0
    assert "No agent of Ball asked for a decision" in capsys.readouterr().err
