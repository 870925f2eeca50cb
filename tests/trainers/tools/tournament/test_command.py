"""`lanista tournament`, from a self-play run to a table and a plot."""

import json

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.learn import run as learn
from line_runs import Restored

YAML = """\
behaviors:
  player:
    trainer_type: ppo
    hyperparameters: {batch_size: 16, buffer_size: 64}
    network_settings: {hidden_units: 8, num_layers: 1}
    checkpoint_interval: 100
    max_steps: 300
    self_play: {save_steps: 60, team_change: 100, swap_steps: 30, window: 3}
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A folder with a run."""
    pytest.importorskip("pettingzoo")
    folder = tmp_path_factory.mktemp("tournament")
    (folder / "c.yaml").write_text(YAML)
    with Restored():
        arguments = ["--env", "pettingzoo:card_game", "--num-areas", "4", "--seed", "1"]
        results = ["--results-dir", str(folder / "results")]
        assert learn([str(folder / "c.yaml"), *arguments, "--run-id", "cards", *results]) == 0
    return folder / "results"


def told(capsys, *arguments):
    capsys.readouterr()
    assert run(["tournament", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_checkpoints_and_snapshots_of_a_run(results, tmp_path, capsys):
    picture = tmp_path / "picture.png"
    common = ["cards", "--results-dir", str(results), "--games", "6", "--num-areas", "3"]
    report = told(capsys, *common, "--checkpoints", "--picture", str(picture))
    assert report["environment"] == "pettingzoo:card_game", "that of the run, where none is given"
    names = {one["name"] for one in report["standings"]}
    assert len(names) >= 3 and all(name.startswith("cards ") for name in names)
    assert all(m["wins"] + m["draws"] + m["losses"] == 6 for m in report["matches"])
    assert picture.read_bytes().startswith(b"\x89PNG")
    report = told(capsys, *common, "--snapshots")
    names = [one["name"] for one in report["standings"]]
    assert sorted(names) == ["cards newest", "cards snapshot 1", "cards snapshot 2", "cards snapshot 3"]
    assert all("training_elo" in one for one in report["standings"])


def test_what_an_environment_prints_stays_out_of_the_json(results, tmp_path, monkeypatch, capsys):
    (tmp_path / "talking_game.py").write_text("from card_game import *\nprint('Hello from the game')\n")
    monkeypatch.syspath_prepend(tmp_path)
    brain = str(results / "cards" / "player.onnx")
    arguments = ["--env", "pettingzoo:talking_game", "--games", "2", "--num-areas", "1", "--json"]
    assert run(["tournament", str(results / "cards"), brain, *arguments]) == 0
    said = capsys.readouterr()
    assert said.err.startswith("Hello from the game") and json.loads(said.out)["games"] == 2


def test_files_and_runs_play_and_the_table_is_printed(results, capsys):
    brain = str(results / "cards" / "player.onnx")
    arguments = ["--env", "pettingzoo:card_game", "--games", "4", "--num-areas", "2"]
    assert run(["tournament", str(results / "cards"), brain, *arguments]) == 0
    out = capsys.readouterr().out
    assert "cards - player: " in out and "rating" in out and "4 games per pair" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nobody"], "no such file or folder, and no run"),
        (["cards"], "at least two participants, but cards is the only one"),
        (["cards", "cards", "--env", "pettingzoo:card_game?cards=3"], "cannot be made"),
    ],
)
def test_a_tournament_that_cannot_be_played_is_explained(results, capsys, arguments, says):
    assert run(["tournament", *arguments, "--results-dir", str(results)]) == 1
    assert says in capsys.readouterr().err
