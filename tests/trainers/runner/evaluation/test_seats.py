"""Runs whose behaviors have several seats, and what a run does with their evaluations."""

import json
import re

import pytest
from lanista.trainers.learn import run
from line_runs import Restored
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

MODULE = """
from scripted_turns import Move, ScriptedGame


def env():
    game = ScriptedGame([[Move([0, 0], {}, 1), Move([0, 0], {}, 0), Move([1, -1], {}, 1)]], 2)
    game.possible_agents = ["p_1", "p_2"]
    return game
"""
YAML = """\
behaviors:
  p:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 250
    summary_freq: 100
    test_frequency: 100
"""
PLAY = "    self_play: {save_steps: 40, team_change: 100, swap_steps: 30}\n"


@pytest.fixture
def train(tmp_path, monkeypatch):
    pytest.importorskip("pettingzoo")
    (tmp_path / "seats_game.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def start(text, *more):
        (tmp_path / "c.yaml").write_text(text)
        with Restored():
            game = "pettingzoo:seats_game?self_play=true"
            return run(["c.yaml", "--env", game, "--run-id", "r", "--seed", "1", *more])

    return start


@pytest.mark.parametrize("areas", [1, 4, 16])
def test_whoever_moves_first_is_not_counted_more_often(train, tmp_path, capsys, areas):
    """The first mover always wins: counting the episodes that start first gave 0.0, 0.2, 1.0."""
    assert train(YAML, "--num-areas", str(areas)) == 0
    lines = re.findall(r"p\. Test at Step.*", capsys.readouterr().out)
    assert len(lines) >= 2
    for line in lines:
        assert "Mean Reward: 0.000. Std of Reward: 1.000. Episodes: 10. Took" in line
        assert line.endswith("Seats: p_1 1.000, p_2 -1.000.")
    events = EventAccumulator(str(tmp_path / "results" / "r" / "p"))
    events.Reload()
    for tag, value in {
        "p_1/Cumulative Reward": 1,
        "p_2/Cumulative Reward": -1,
        "Cumulative Reward": 0,
    }.items():
        assert [event.value for event in events.Scalars(f"Evaluation/{tag}")] == [value] * len(lines)
    lengths = {event.value for event in events.Scalars("Evaluation/Turns/Length of p_1")}
    assert lengths == {2.0}


@pytest.mark.parametrize("summary_freq", [100, 225, 250])
def test_whoever_is_counted_first_does_not_end_the_training(train, tmp_path, capsys, summary_freq):
    """All games end in the same step; those of the first mover are counted first, with a mean of 1."""
    text = YAML.replace("250", "1500").replace("    test_frequency: 100\n", "    keep_best: 3\n")
    text = text.replace("summary_freq: 100", f"summary_freq: {summary_freq}")
    assert train(text + "    stop_at_reward: 0.5\n", "--num-areas", "128") == 0
    assert "has reached stop_at_reward" not in capsys.readouterr().out
    status = json.loads((tmp_path / "results" / "r" / "run_logs" / "training_status.json").read_text())
    assert {kept["reward"] for kept in status["p"]["best_checkpoints"]} == {0.0}
    assert train(text + "    stop_at_reward: -0.5\n", "--num-areas", "128", "--force") == 0
    reached = "last 100 episodes of each team, 0.000, has reached stop_at_reward (-0.5)"
    assert reached in capsys.readouterr().out


def test_in_self_play_the_rating_decides(train, tmp_path, capsys):
    """With the newest policy on both sides the rewards of an evaluation cancel out."""
    callback = "callbacks: [{stop_at_reward: {reward: 1190, evaluation: true}}]\n"
    assert train(YAML + PLAY + callback) == 0
    assert "in a test is 1" in (out := capsys.readouterr().out), "the rating is its score"
    assert len(re.findall(r"p\. Test at Step", out)) == 1, "the final policy is the one that was tested"


def test_a_rating_ends_the_training(train, capsys):
    text = YAML.replace("250", "100000").replace("test_frequency: 100", "stop_at_reward: 1200.01") + PLAY
    assert train(text) == 0
    assert re.search(r"p: the rating, \d+\.\d+, has reached stop_at_reward \(1200", capsys.readouterr().out)


def test_a_reward_where_a_rating_is_expected_is_refused(train, capsys):
    assert train(YAML + "    stop_at_reward: 0.9\n" + PLAY) == 1
    error = capsys.readouterr().err
    assert "p.stop_at_reward: found 0.9; in self-play it is a rating" in error and "(1200)" in error
