"""Teams and behaviors that appear after the first update, and those that fall silent."""

import re
import threading
from pathlib import Path

import pytest
from lanista.trainers.checkpoints.file import load_checkpoint, save_checkpoint
from lanista.trainers.trainer.self_play.manager import SelfPlayManager
from lanista.trainers.trainer.thread import LearnerThread
from self_play_runs import EVERY, configure

THREADED = ("--set", "behaviors.Tiny.threaded=true")
ONLY_ONE = "shown only one team so far, Tiny?team=0"


@pytest.fixture
def runs(runs, monkeypatch):
    """A look at who is silent falls due after a few steps."""
    monkeypatch.setattr("lanista.trainers.runner.awaited.SILENT_STEPS", 50)
    runs.rules["behaviors"] = ["Tiny?team=0", "Tiny?team=1"]
    return runs


# Teams that appear late -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trainer", "flags"), [("ppo", ()), ("ppo", THREADED), ("sac", THREADED)], ids=["", "process", "thread"]
)
def test_a_team_that_appears_after_the_first_update_is_taken(runs, tmp_path, capsys, trainer, flags):
    hyper, discrete, continuous = EVERY[trainer]
    configure(tmp_path, trainer, hyper)
    runs.rules |= {"disc": discrete, "cont": continuous, "late": {"Tiny?team=1": 35}}
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *flags) == 0
    out = capsys.readouterr().out
    assert out.count(ONLY_ONE) == 1, out
    state = runs.state()
    assert state["step"] > 700 and state["self_play"]["teams"] == [0, 1]
    assert state["self_play"]["rotation"]["changes"] >= 3


def test_a_late_team_gets_weights_as_they_are_between_two_updates(runs, tmp_path, monkeypatch):
    hyper, discrete, continuous = EVERY["sac"]
    configure(tmp_path, "sac", hyper)
    runs.rules |= {"disc": discrete, "cont": continuous, "late": {"Tiny?team=1": 35}}
    join, learning = SelfPlayManager.join, []

    def joined(self, team):
        learners = [thread for thread in threading.enumerate() if isinstance(thread, LearnerThread)]
        learning.extend(not thread._is_paused.is_set() for thread in learners)
        join(self, team)

    monkeypatch.setattr(SelfPlayManager, "join", joined)
    assert runs("c.yaml", "--run-id", "r", *THREADED) == 0
    assert learning == [False], "there was one thread when the second team joined"


def test_one_team_alone_is_refused_when_it_has_no_opponent_to_hand_over_to(runs, tmp_path, capsys):
    configure(tmp_path)
    runs.rules["behaviors"] = ["Tiny?team=0"]
    assert runs("c.yaml", "--run-id", "r") == 1
    said = capsys.readouterr()
    assert "shown only one team, Tiny?team=0" in said.err and "remove behaviors.Tiny.self_play" in said.err
    assert said.out.count(ONLY_ONE) == 1 and "self_play.team_change: 150" in said.out
    state = runs.state()
    assert 150 < state["step"] < 300, "what was learned until then is saved"
    assert state["self_play"]["ratings"][-1] == 1200.0, "nobody was beaten, and nobody has won"


def test_without_a_change_of_teams_one_team_alone_is_only_warned_of(runs, tmp_path, capsys):
    configure(tmp_path)
    runs.rules["behaviors"] = ["Tiny?team=0"]
    assert runs("c.yaml", "--run-id", "r", "--set", "behaviors.Tiny.self_play.team_change=5000") == 0
    assert capsys.readouterr().out.count(ONLY_ONE) == 1 and runs.state()["step"] > 700


def test_an_opponent_of_another_behavior_may_appear_late_and_on_resume_too(runs, tmp_path, capsys):
    configure(tmp_path, names=("Goalie", "Striker"))
    runs.rules |= {"behaviors": ["Goalie?team=0", "Striker?team=1"], "late": {"Striker?team=1": 30}}
    both = ("--set", "behaviors.Goalie.self_play.learn_from_both_sides=true")
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *both) == 0
    first = capsys.readouterr().out
    assert "Goalie has a section self_play, and the environment has shown only one team so far" in first
    assert first.count("learn_from_both_sides has no effect") == 1
    longer = [f"behaviors.{name}.max_steps=1200" for name in ("Goalie", "Striker")]
    flags = [text for one in longer for text in ("--set", one)]
    assert runs("c.yaml", "--run-id", "r", "--resume", *flags) == 0
    assert "only one team" not in capsys.readouterr().out, "this run has met the other one before"
    for name in ("Goalie", "Striker"):
        state = runs.state("r", name)
        assert state["step"] > 1200 and state["self_play"]["rotation"]["changes"] >= 8


# Behaviors that appear late -------------------------------------------------------------------------------

LATE = """\
default_settings: &all
  trainer_type: ppo
  hyperparameters: {batch_size: 16, buffer_size: 64, num_epoch: 1}
  network_settings: {hidden_units: 8, num_layers: 1}
  checkpoint_interval: 200
  max_steps: 600
  time_horizon: 8
  summary_freq: 100
"""
LESSONS = """\
environment_parameters:
  max_len:
    curriculum:
      - name: short
        value: 5
        completion_criteria: {behavior: Goal, measure: progress, threshold: 0.3, require_reset: true}
      - {name: long, value: 9}
"""
CASES = {
    "plain": "",
    "threaded": "  threaded: true\n",
    "tested": "  test_frequency: 200\n  test_episodes: 4\n",
    "lessons": LESSONS,
}


@pytest.fixture
def late(runs):
    runs.rules |= {"behaviors": ["Ball?team=0", "Goal?team=0"], "late": {"Goal?team=0": 60}}
    return runs


@pytest.mark.parametrize("case", CASES)
def test_a_behavior_that_appears_late_is_trained_as_the_others(late, tmp_path, capsys, case):
    late.configure(LATE + CASES[case])
    assert late("c.yaml", "--env", "scene:basic", "--run-id", "r", "--seed", "1") == 0
    out = capsys.readouterr().out
    assert late.state("r", "Ball")["step"] > 600 and late.state("r", "Goal")["step"] > 600
    assert (tmp_path / "results" / "r" / "Goal.onnx").exists()
    assert "Goal:" in (tmp_path / "results" / "r" / "configuration.yaml").read_text()
    if case == "lessons":
        assert "until the behavior Goal is trained, which the environment has not shown so far" in out
        assert late.status()["max_len"]["lesson_num"] == 1
    if case == "tested":
        assert re.findall(r"Goal\. Test at Step: \d+\. .*Episodes: 4", out)
    assert "asked for no decision" not in out


@pytest.mark.parametrize("until", [40, 100], ids=["before it appears", "after"])
def test_a_run_resumes_with_a_late_behavior(late, capsys, until):
    """With its checkpoint, or without where it had not appeared."""
    late.configure(LATE)
    late.rules["until"] = until
    assert late("c.yaml", "--run-id", "r", "--seed", "1") == 0
    before = late.status()
    assert ("Goal" in before) is (until > 60)
    late.rules["until"] = None
    assert late("c.yaml", "--run-id", "r", "--resume", "--set", "default_settings.max_steps=1200") == 0
    assert late.state("r", "Ball")["step"] > 1200 and late.state("r", "Goal")["step"] > 1200
    assert "has not shown" not in capsys.readouterr().out


def test_a_behavior_that_a_resumed_run_does_not_meet_is_named(late, capsys):
    late.configure(LATE)
    late.rules["until"] = 100
    assert late("c.yaml", "--run-id", "r", "--seed", "1") == 0
    saved = late.state("r", "Goal")["step"]
    assert late("c.yaml", "--run-id", "r", "--resume") == 0, "the other one has few steps left"
    assert "The environment has not shown Goal since the run was resumed" in capsys.readouterr().out
    assert late.state("r", "Goal")["step"] == saved < 600


def test_a_late_behavior_s_old_checkpoint_is_compared_with_the_settings_it_was_saved_with(late, capsys):
    """Release 0.1.0 left them in configuration.yaml alone, which is written again once another resumes."""
    late.configure(LATE)
    late.rules["until"] = 100
    assert late("c.yaml", "--run-id", "r", "--seed", "1") == 0
    for name in ("Ball", "Goal"):
        file = Path("results", "r", name, "checkpoint.pt")
        state = load_checkpoint(file)
        del state["brain"]["settings"]
        save_checkpoint(file, state)
    late.rules["until"] = None
    changed = ("default_settings.max_steps=1200", "behaviors.Goal.hyperparameters.shared_critic=true")
    flags = [text for one in changed for text in ("--set", one)]
    assert late("c.yaml", "--run-id", "r", "--resume", *flags) == 1
    said = capsys.readouterr().err
    assert "Goal: the saved run cannot be resumed: hyperparameters.shared_critic was False, is True" in said


# Behaviors that fall silent -------------------------------------------------------------------------------


def silences(out, name):
    pattern = rf"^\[WARNING\] {re.escape(name)}.* has asked for no decision for .*$"
    return re.findall(pattern, out, re.MULTILINE)


@pytest.mark.parametrize("since", [0, 30])
def test_a_behavior_for_which_alone_the_run_waits_is_named_more_and_more_seldom(late, capsys, since):
    late.configure(LATE)
    late.rules |= {"late": {}, "silent": {"Goal?team=0": since}, "until": 2000}
    assert late("c.yaml", "--run-id", "r", "--seed", "1") == 0
    out = capsys.readouterr().out
    said = silences(out, "Goal")
    assert 3 <= len(said) <= 6, out
    step = late.state("r", "Goal")["step"]
    assert f"Goal is at {step} of 600 steps, and the run waits for it" in said[-1]
    assert "end the run with Ctrl-C, which saves it" in said[0] and "behaviors.Goal.max_steps" in said[0]
    counted = [int(re.search(r"decision for ([\d,]+) steps", line)[1].replace(",", "")) for line in said]
    assert counted == sorted(counted) and counted[0] >= 50 and counted[-1] < 2000
    assert not silences(out, "Ball")


def test_in_inference_what_to_do_is_to_end_the_run(late, capsys):
    late.configure(LATE)
    late.rules |= {"late": {}, "silent": dict.fromkeys(late.rules["behaviors"], 30), "until": 200}
    assert late("c.yaml", "--run-id", "r", "--inference") == 0
    said = silences(capsys.readouterr().out, "Goal")
    assert said and said[0].endswith("If its agents are gone for good, end the run with Ctrl-C.")


def test_a_behavior_that_asks_seldom_or_beside_others_is_not_named(late, capsys):
    late.configure(LATE)
    late.rules |= {"late": {"Goal?team=0": 300}}
    assert late("c.yaml", "--run-id", "r", "--set", "default_settings.max_steps=2000") == 0
    assert "asked for no decision" not in capsys.readouterr().out


def test_a_learning_team_that_has_fallen_silent_is_named(runs, tmp_path, capsys):
    configure(tmp_path)
    runs.rules |= {"silent": {"Tiny?team=1": 20}, "until": 1000}
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    out = capsys.readouterr().out
    step = runs.state()["step"]
    assert silences(out, "Tiny: team 1, which learns now,"), out
    assert f"Tiny is at {step} of 700 steps" in out
