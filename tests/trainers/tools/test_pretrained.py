"""`lanista play --pretrained`: models that come with Lanista, with the score that their cards tell."""

import hashlib
import json
import re

import pretrain
import pytest
from lanista.envs.scenes.registry import SCENES
from lanista.trainers.cli.main import run
from lanista.trainers.tools.pretrained import PRETRAINED, find_pretrained, pretrained_names

EVERY = pretrained_names()


def played(capsys, *arguments):
    capsys.readouterr()
    assert run(["play", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_they_are_of_scenes_and_small():
    assert EVERY and set(EVERY) <= set(SCENES)
    files = [path for path in PRETRAINED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 5_000_000
    listed = {path for name in EVERY for path in find_pretrained(name).models}
    assert {path for path in files if path.suffix != ".md"} == listed


@pytest.mark.parametrize("name", EVERY)
def test_the_card_is_of_these_files_and_names_no_machine(name):
    pretrained = find_pretrained(name)
    for model, path in zip(pretrained.facts["models"], pretrained.models):
        data = path.read_bytes()
        assert (model["sha256"], model["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    assert all(one["command"] for one in pretrained.facts["trained_by"])
    text = (PRETRAINED / name / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"[\s'\"](?:/|[A-Z]:\\)\w+", text) == []
    counts = [one.get("groups") or one["episodes"] for one in pretrained.facts["score"]["behaviors"].values()]
    assert sum(counts) >= 100


def test_the_page_has_the_cards_of_today():
    assert pretrain.table() in pretrain.PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("given", ["basic", "scene:basic"])
def test_a_pretrained_model_plays_in_its_scene_as_its_card_says(given, capsys):
    report = played(capsys, "--pretrained", given, "--episodes", "5")
    card = find_pretrained("basic")
    assert report["brain"] == "basic (pretrained)" and report["environment"] == card.environment[0]
    assert report["actions"] == ("sampled" if card.sampled else "deterministic")
    assert list(report["models"].values()) == [str(path) for path in card.models]
    assert report["mean_reward"] > 0.9


def test_it_may_play_elsewhere_and_otherwise(capsys):
    arguments = ["--pretrained", "basic", "--env", "scene:basic?areas=3", "--sampled", "--episodes", "3"]
    report = played(capsys, *arguments)
    assert (report["environment"], report["actions"]) == ("scene:basic?areas=3", "sampled")


def test_it_is_filmed(tmp_path, capsys):
    film = tmp_path / "film.gif"
    words = ["--pretrained", "basic", "--episodes", "1", "--render", str(film), "--render-steps", "3"]
    assert played(capsys, *words)["film"] == str(film)
    assert film.read_bytes().startswith(b"GIF8")


def test_all_are_listed(capsys):
    assert run(["play", "--pretrained"]) == 0
    listed = capsys.readouterr().out
    assert all(f"lanista play --pretrained {name} --watch" in listed for name in EVERY)
    assert f"basic: mean return {find_pretrained('basic').score}" in listed
    assert run(["scenes"]) == 0
    assert "\n    lanista play --pretrained basic\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--pretrained", "bal3d"], "There is no pretrained model bal3d. Did you mean ball3d?"),
        (["--pretrained", "zzz"], "There are: ball3d, basic"),
        (["mine.onnx", "--pretrained", "basic"], "found mine.onnx and --pretrained"),
    ],
)
def test_what_cannot_be_played_is_told(given, says, capsys):
    assert run(["play", *given]) == 1
    assert says in capsys.readouterr().err


def test_without_a_model_the_ways_to_name_one_are_told(capsys):
    assert run(["play", "--episodes", "3"]) == 2
    assert "give the ID or folder of a run, models, or --pretrained NAME" in capsys.readouterr().err
