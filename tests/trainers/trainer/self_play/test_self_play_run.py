"""Whole runs with self-play: files, resuming, several behaviours, and what cannot work."""

import json

import pytest
from lanista.trainers.checkpoints.file import load_checkpoint
from reliability.resume import differences, numbers
from self_play_runs import EVERY, LSTM, OF_GROUPS, TEAMS, configure


@pytest.fixture
def runs(runs):
    runs.rules["behaviors"] = TEAMS
    return runs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "memory", "teams"),
    [("ppo", LSTM, 2), ("ppo", "", 3), ("poca", "", 2)],
    ids=["ppo with a memory", "three teams", "poca"],
)
def test_a_killed_run_goes_on_against_the_same_opponents_bit_for_bit(
    runs, tmp_path, monkeypatch, capsys, trainer, memory, teams
):
    configure(tmp_path, trainer, ", num_epoch: 1", memory=memory)
    runs.rules["behaviors"] = [f"Tiny?team={k}" for k in range(teams)]
    runs.rules |= {"groups": trainer == "poca", "cont": 0, "disc": [3]}  # by which more games are decided
    runs.killed_and_resumed(monkeypatch, 1 if trainer == "poca" else 30)
    saved = runs.at_the_kill[0]["self_play"]
    assert len(saved["slots"]) == 3 and saved["rotation"]["changes"] >= 1
    unkilled, killed = runs.state("unkilled"), runs.state("killed")
    assert unkilled["step"] > 700 and numbers(unkilled["self_play"]["weights"]) > 100
    assert unkilled["self_play"]["rotation"]["changes"] > saved["rotation"]["changes"]
    assert not differences(unkilled["self_play"], killed["self_play"])
    found = {text.partition(":")[0]: text for text in differences(unkilled, killed)}
    rows = {".buffer.numbers", ".buffer.mates", ".buffer.next_mates", ".buffer.other_numbers"}
    assert found.keys() <= (rows if trainer == "poca" else set()), found
    elo = [runs.status(run)["Tiny"] for run in ("unkilled", "killed")]
    assert elo[0]["elo"] == elo[1]["elo"] == unkilled["self_play"]["ratings"][-1]
    assert trainer == "poca" or elo[0]["elo"] != 1200.0  # there all games are broken off


@pytest.mark.slow
@pytest.mark.parametrize("trainer", EVERY)
def test_every_trainer_plays_against_itself(runs, tmp_path, capsys, trainer):
    hyper, discrete, continuous = EVERY[trainer]
    configure(tmp_path, trainer, hyper)
    runs.rules |= {"disc": discrete, "cont": continuous, "groups": trainer in OF_GROUPS}
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    out = capsys.readouterr().out
    assert "Training. ELO: " in out or trainer in OF_GROUPS, out
    state = runs.state()["self_play"]
    assert state["rotation"]["changes"] >= 3 and len(state["slots"]) == 3
    # As many steps of the opponents as of the learner, which alone count.
    assert state["steps"][0] == pytest.approx(runs.state()["step"], rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("threaded", ["false", "true"])
def test_behaviors_against_each_other_learn_in_turn(runs, tmp_path, threaded):
    configure(tmp_path, names=("Goalie", "Striker"))
    runs.rules["behaviors"] = ["Goalie?team=0", "Striker?team=1"]
    arguments = [
        text for name in ("Goalie", "Striker") for text in ("--set", f"behaviors.{name}.threaded={threaded}")
    ]
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *arguments) == 0
    goalie, striker = (runs.state("r", name) for name in ("Goalie", "Striker"))
    assert goalie["step"] > 700 and striker["step"] > 700
    assert goalie["self_play"]["teams"] == [0] and striker["self_play"]["teams"] == [1]
    assert min(part["self_play"]["rotation"]["changes"] for part in (goalie, striker)) >= 6


@pytest.mark.parametrize("tested", [False, True])
def test_the_best_are_those_of_the_highest_rating(runs, tmp_path, tested):
    """Rewards stay around 0 where both sides get better: by them the first policies would be the best."""
    configure(tmp_path)
    best = ["--set", "behaviors.Tiny.keep_best=2"]
    tests = ["--env", "scene:basic", "--set", "behaviors.Tiny.test_frequency=150"]
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *best, *(tests if tested else [])) == 0
    folder = tmp_path / "results" / "r"
    entries = runs.status()["Tiny"]["best_checkpoints"]
    assert len(entries) == 2 and entries[0]["reward"] >= entries[1]["reward"]
    for entry in entries:
        state = load_checkpoint(folder / "Tiny" / f"Tiny-{entry['steps']}.pt")
        assert entry["reward"] == state["judged"] == state["self_play"]["ratings"][-1]


def test_one_team_alone_is_refused_with_what_to_do(runs, tmp_path, capsys):
    configure(tmp_path)
    runs.rules["behaviors"] = ["Tiny?team=0"]
    assert runs("c.yaml", "--run-id", "r") == 1
    error = capsys.readouterr().err
    assert "shown only one team, Tiny?team=0" in error and "remove behaviors.Tiny.self_play" in error


@pytest.mark.slow
def test_a_resumed_run_waits_for_its_second_team(runs, tmp_path, capsys):
    """A thread may advance between the two: the first look at a resumed run's step proves nothing."""
    configure(tmp_path, "sac", EVERY["sac"][0])
    runs.rules |= {"disc": EVERY["sac"][1], "cont": EVERY["sac"][2]}
    arguments = ["--run-id", "r", "--seed", "1", "--set", "behaviors.Tiny.threaded=true"]
    assert runs("c.yaml", *arguments) == 0
    assert runs("c.yaml", *arguments, "--resume", "--set", "behaviors.Tiny.max_steps=900") == 0
    assert runs.state()["step"] >= 900 and runs.state()["self_play"]["teams"] == [0, 1]


@pytest.mark.slow
def test_a_rating_alone_is_taken_over(runs, tmp_path, capsys):
    configure(tmp_path)
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    folder = tmp_path / "results" / "r"
    # What remains is what ML-Agents saves.
    import torch

    for path in (folder / "Tiny").glob("*.pt"):
        state = load_checkpoint(path)
        del state["self_play"]
        torch.save(state, path)
    status = folder / "run_logs" / "training_status.json"
    tree = json.loads(status.read_text())
    tree["Tiny"]["elo"] = 1333.0
    status.write_text(json.dumps(tree))
    assert runs("c.yaml", "--run-id", "r", "--resume", "--set", "behaviors.Tiny.max_steps=900") == 0
    assert runs.state()["self_play"]["ratings"][-1] == pytest.approx(1333.0, abs=30)


def test_without_self_play_teams_learn_together_and_that_is_said(runs, tmp_path, capsys):
    configure(tmp_path)
    text = (tmp_path / "c.yaml").read_text()
    (tmp_path / "c.yaml").write_text(text.replace(text.splitlines()[-1] + "\n", ""))
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    assert "doesn't support adversarial games" in capsys.readouterr().out
    assert runs("c.yaml", "--run-id", "s", "--set", "behaviors.Tiny.self_play=null") == 0
    assert "adversarial" not in capsys.readouterr().out
