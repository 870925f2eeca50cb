"""`lanista demo show` shows the contents of demonstrations; `lanista play --record-demos` writes some."""

import json
from pathlib import Path

import pytest
from lanista.trainers.cli.main import run

REAL = Path(__file__).parents[2] / "real"


def show(capsys, *arguments):
    assert run(["demo", "show", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_json_has_all_facts_of_a_demonstration(capsys):
    (facts,) = show(capsys, REAL / "demos" / "Realhybrid.demo")
    assert (facts["name"], facts["behavior"], facts["steps"]) == ("Realhybrid", "Hybrid?team=0", 200)
    assert (facts["episodes"], facts["finished_episodes"], facts["note"]) == (12, 11, None)
    assert facts["announced"] == {"steps": 200, "episodes": 12, "mean_reward": pytest.approx(4.64499)}
    assert facts["actions"] == {"continuous": 2, "discrete_branches": [3, 2]}
    shapes = {each["name"]: each["shape"] for each in facts["observations"]}
    assert shapes["Pix"] == [3, 12, 20] and shapes["Buf"] == [6, 5]
    assert [each["type"] for each in facts["observations"]].count("GOAL_SIGNAL") == 1


def test_the_default_output_is_lines_of_text(capsys):
    assert run(["demo", "show", str(REAL / "demos" / "ExpertPyramid.demo")]) == 0
    out = capsys.readouterr().out
    for part in ("Pyramids?team=0", "1751", "10 (1 unfinished)", "(56,)", "of 5 actions"):
        assert part in out


def test_a_folder_is_shown_file_by_file_in_order(capsys):
    names = [Path(facts["file"]).name for facts in show(capsys, REAL / "demos")]
    assert names == sorted(path.name for path in (REAL / "demos").glob("*.demo"))


def test_an_invalid_demonstration_is_one_line_with_the_byte(tmp_path, capsys):
    file = tmp_path / "a.demo"
    file.write_bytes((REAL / "onnx" / "Basic.onnx").read_bytes())
    assert run(["demo", "show", str(file)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("lanista demo: error: The demonstration ") and ": byte " in error
    assert error.count("\n") == 1


def test_files_are_shown_one_by_one_although_one_of_them_is_cut_off(tmp_path, capsys):
    good, cut = REAL / "demos" / "Real3dball.demo", tmp_path / "cut.demo"
    cut.write_bytes(good.read_bytes()[:5000])
    files = [str(good), str(cut), str(tmp_path / "none.demo"), str(good)]
    assert run(["demo", "show", *files]) == 1
    shown = capsys.readouterr()
    assert shown.out.count("3DBall") > 1 and shown.err.count("lanista demo: error: The demonstration") == 2
    assert run(["demo", "show", *files, "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert [each["file"] for each in facts] == files and ["error" in each for each in facts] == [0, 1, 1, 0]
    (facts,) = show(capsys, cut, "--partial")
    assert 0 < facts["steps"] < 200 and "it is cut off" in facts["note"]


def test_an_expert_s_episodes_are_recorded(tmp_path, capsys):
    brain, demos = REAL / "onnx" / "3DBall.onnx", tmp_path / "demos"
    arguments = ["--env", "scene:ball3d", "--episodes", "3", "--max-decisions", "20", "--json"]
    assert run(["play", str(brain), *arguments, "--record-demos", str(demos)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["demonstrations"] == [str(demos / "3DBall.demo")]
    (facts,) = show(capsys, demos)
    assert (facts["episodes"], facts["finished_episodes"]) == (3, 3)
    assert facts["steps"] == 3 * (20 + 1)
    assert facts["mean_reward"] == pytest.approx(report["mean_reward"], rel=1e-5)


def test_a_folder_that_cannot_be_created_is_reported(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    arguments = ["--env", "scene:ball3d", "--episodes", "1", "--max-decisions", "3", "--record-demos"]
    assert run(["play", str(REAL / "onnx" / "3DBall.onnx"), *arguments, str(tmp_path / "file")]) == 1
    assert "The demonstrations could not be written" in capsys.readouterr().err


def test_the_table_of_a_game_shows_its_headings_whole_in_narrow_terminals(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "70")
    arguments = ["--env", "scene:ball3d", "--episodes", "2", "--max-decisions", "5"]
    assert run(["play", str(REAL / "onnx" / "3DBall.onnx"), *arguments]) == 0
    headings = "behavior episodes mean reward std min max decisions"
    assert headings in [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
