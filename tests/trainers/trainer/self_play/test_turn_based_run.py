"""Runs in a game of turns: one policy for all seats under self-play, or a trainer for each seat."""

import pytest
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.learn import run
from line_runs import Restored

MODULE = """
from scripted_turns import Move, ScriptedGame


def env():
    won = [Move([0, 0], {}, 1), Move([0, 0], {}, 0), Move([1, -1], {}, 1)]
    lost = [Move([0, 0], {}, 1), Move([-1, 1], {}, 0)]
    return ScriptedGame([won, won, lost], 2)
"""
BEHAVIOR = """\
  {name}:
    trainer_type: ppo
    hyperparameters: {{batch_size: 16, buffer_size: 64}}
    network_settings: {{hidden_units: 8, num_layers: 1}}
    max_steps: 300
    summary_freq: 100
"""
PLAY = "    self_play: {save_steps: 40, team_change: 100, swap_steps: 30}\n"


def train(tmp_path, monkeypatch, names, play):
    pytest.importorskip("pettingzoo")
    (tmp_path / "turn_run_game.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    text = "behaviors:\n" + "".join(BEHAVIOR.format(name=name) + play for name in names)
    (tmp_path / "c.yaml").write_text(text)
    with Restored():
        arguments = ["--env", "pettingzoo:turn_run_game", "--run-id", "r", "--seed", "1"]
        assert run(["c.yaml", *arguments, "--num-areas", "2"]) == 0
    return [load_checkpoint(tmp_path / "results" / "r" / name / "checkpoint.pt") for name in names]


def test_one_policy_plays_all_seats_and_is_rated(tmp_path, monkeypatch, capsys):
    (state,) = train(tmp_path, monkeypatch, ["player"], PLAY)
    assert state["step"] > 300 and state["self_play"]["teams"] == [0, 1]
    assert state["self_play"]["rotation"]["changes"] >= 2
    assert "Training. ELO: " in capsys.readouterr().out


def test_both_seats_are_learned_from(tmp_path, monkeypatch, capsys):
    (state,) = train(tmp_path, monkeypatch, ["player"], PLAY.replace("}", ", learn_from_both_sides: true}"))
    # One seat has two turns in two of three games, the other one always one.
    assert state["step"] > 300 and state["self_play"]["steps"][0] < 0.85 * state["step"]


@pytest.mark.slow
def test_without_self_play_every_seat_has_a_trainer(tmp_path, monkeypatch, capsys):
    states = train(tmp_path, monkeypatch, ["player_0", "player_1"], "")
    assert all(state["step"] > 300 and "self_play" not in state for state in states)
    # The first seat has two turns in two of three games, the second always one.
    assert states[0]["step"] / states[1]["step"] == pytest.approx(5 / 3, rel=0.2)
    out = capsys.readouterr().out
    assert "player_0. Step: 300." in out and "adversarial" not in out
