"""The command line as users see it: help, errors in one sentence, exit statuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lanista.trainers.cli.main import COMMANDS, run

BRAIN = Path(__file__).parents[2] / "real" / "onnx" / "Basic.onnx"


def status_of(argv):
    try:
        return run(argv)
    except SystemExit as end:
        return end.code


def test_without_a_command_the_help_is_shown(capsys):
    assert run([]) == 2
    shown = capsys.readouterr().out
    assert all(name in shown for name in ["learn", *COMMANDS])


@pytest.mark.parametrize("argv", [["--help"], *[[name, "--help"] for name in COMMANDS], ["--version"]])
def test_help_and_version_exit_with_0(argv, capsys):
    assert status_of(argv) == 0
    assert "lanista" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["paint"], ["play"], ["export"], ["play", "a.onnx", "--episodes", "0"]])
def test_wrong_usage_exits_with_2(argv):
    assert status_of(argv) == 2


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        (["repotr"], "there is no command 'repotr'. Did you mean report?"),
        (["train"], "Did you mean learn?"),
        (["trian"], "Did you mean learn?"),
        (["play", "a.onnx", "--episdoes", "3"], "Did you mean --episodes?"),
        (["envs", "lits"], "Did you mean list?"),
        (["runs", "--sort", "bst"], "Did you mean best?"),
    ],
)
def test_a_mistyped_command_or_flag_names_the_nearest_in_one_line(argv, cause, capsys):
    assert status_of(argv) == 2
    said = capsys.readouterr().err
    assert cause in said and len(said.splitlines()) == 1


def test_the_help_of_learn_has_its_own_flags(capsys):
    assert status_of(["learn", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("usage: lanista learn", "--seeds N|A,B,...", "--parallel", "--env"))


@pytest.mark.parametrize(
    ("argv", "cause"),
    [
        (["play", "absent.onnx"], "absent.onnx"),
        (["export", "absent.pt"], "absent.pt cannot be read: No such file"),
        (["scenes", "export", "bal3d", "x"], "Did you mean 'ball3d'?"),
    ],
)
def test_a_failing_command_prints_one_sentence_and_exits_with_1(argv, cause, capsys):
    assert run(argv) == 1
    said = capsys.readouterr().err
    assert cause in said and said.startswith(f"lanista {argv[0]}: error: ")
    assert "Traceback" not in said and len(said.splitlines()) == 1


def test_a_truncated_checkpoint_is_not_exported(tmp_path, capsys):
    (tmp_path / "checkpoint.pt").write_bytes(b"PK\x03\x04half")
    assert run(["export", str(tmp_path / "checkpoint.pt")]) == 1
    assert "checkpoint.pt (8 bytes) cannot be used" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_the_scenes_are_listed(capsys):
    assert run(["scenes"]) == 0
    listed = capsys.readouterr().out
    assert run(["scenes", "list"]) == 0
    assert capsys.readouterr().out == listed
    assert "scene:ball3d" in listed and "scene:basic" in listed


def test_a_scene_is_written_as_an_executable(tmp_path, capsys):
    assert run(["scenes", "export", "scene:basic", str(tmp_path / "Basic")]) == 0
    assert str(tmp_path / "Basic.x86_64") in capsys.readouterr().out
    assert os.access(tmp_path / "Basic.x86_64", os.X_OK)
    (tmp_path / "file").write_text("no folder")
    assert run(["scenes", "export", "basic", str(tmp_path / "file" / "Basic")]) == 1
    assert "could not be written" in capsys.readouterr().err


def test_commands_that_need_no_torch_do_not_load_it():
    code = (
        "import sys; from lanista.trainers.cli.main import run; run(['scenes']); "
        "print([m for m in ('torch', 'pydantic', 'onnx', 'rich') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_a_brain_plays_a_scene_and_the_report_is_json(capsys):
    brain = str(BRAIN)
    assert run(["play", brain, "--env", "scene:basic", "--episodes", "5", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["episodes"] == 5 and report["mean_reward"] > 0.9
    assert list(report["behaviors"]) == ["Basic?team=0"]


def test_warnings_stay_out_of_the_json(capsys):
    assert run(["play", str(BRAIN), "--env", "scene:basic", "--max-decisions", "2", "--json"]) == 0
    said = capsys.readouterr()
    assert "did not end within 2 decisions" in said.err and json.loads(said.out)["episodes"] == 100


@pytest.mark.slow
def test_a_scene_is_filmed(tmp_path, capsys):
    from PIL import Image

    film = tmp_path / "film.gif"
    brain = str(BRAIN)
    arguments = ["--env", "scene:basic", "--episodes", "3", "--render", str(film), "--render-steps", "10"]
    assert run(["play", brain, *arguments]) == 0
    with Image.open(film) as picture:
        assert 2 <= picture.n_frames <= 10 and picture.size == (640, 400)
    assert "Basic?team=0" in capsys.readouterr().out
