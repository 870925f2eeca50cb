"""`lanista runs`: what a folder holds is listed for what it is, whatever state it was left in."""

import json
import time

import pytest
from lanista.envs.utils.process_lock import ProcessLock
from lanista.trainers.cli.main import run
from lanista.trainers.cli.runs.record import REWARD, read_run
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.stats.writers import CsvWriter
from made_runs import make_finished_run


def listed(capsys, *arguments):
    """The runs that the command prints as JSON, by name."""
    assert run(["runs", *map(str, arguments), "--json"]) == 0
    return {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize("writer", [TensorBoardWriter, CsvWriter])
def test_a_run_is_listed_with_its_rewards_steps_and_settings(tmp_path, capsys, writer):
    make_finished_run(tmp_path, writer=writer)
    (entry,) = listed(capsys, tmp_path).values()
    expected = {"state": "finished", "trainers": ["sac"], "environment": "scene:ball3d", "seed": 4}
    expected |= {"steps": 300, "last_reward": 1.0, "best_reward": 2.0, "problems": []}
    assert {key: entry[key] for key in expected} == expected
    assert run(["runs", str(tmp_path)]) == 0
    title, row = capsys.readouterr().out.splitlines()
    assert title.split() == ["run", "state", "trainer", "environment", "steps", "last", "best", "age", "size"]
    assert row.split()[:7] == ["first", "finished", "sac", "scene:ball3d", "300", "1", "2"]


def test_states(tmp_path, capsys):
    make_finished_run(tmp_path, "whole")
    make_finished_run(tmp_path, "short", max_steps=500)
    killed = make_finished_run(tmp_path, "killed")
    (killed / "run_logs" / "training_status.json").write_text('{"metadata": {}}')
    make_finished_run(tmp_path, "resumed", rewards=(1.0,), max_steps=500)
    TensorBoardWriter(tmp_path / "resumed").write_stats("Ball", {REWARD: StatsSummary([3.0])}, 200)
    make_finished_run(tmp_path, "new", rewards=())
    (tmp_path / "bare" / "run_logs").mkdir(parents=True)
    make_finished_run(tmp_path, "going")
    (tmp_path / "no run").mkdir()
    lock = ProcessLock(tmp_path / ".going.lock")
    assert lock.acquire()
    try:
        states = {name: entry["state"] for name, entry in listed(capsys, tmp_path).items()}
    finally:
        lock.release()
    assert states == {
        "whole": "finished",
        "short": "stopped",
        "killed": "unfinished",
        "resumed": "unfinished",
        "new": "empty",
        "bare": "empty",
        "going": "running",
    }


@pytest.mark.parametrize(
    ("file", "data", "cause"),
    [
        ("configuration.yaml", b"behaviors: [", "configuration.yaml: while parsing"),
        ("configuration.yaml", b"\xff\xfe", "configuration.yaml: 'utf-8' codec"),
        ("configuration.yaml", b"env_settings: {seed: !!int ''}", "configuration.yaml: "),
        ("configuration.yaml", b"env_settings: {seed: !!bool x}", "configuration.yaml: "),
        ("configuration.yaml", b"- a list", "configuration.yaml: found list, expected a mapping"),
        ("run_logs/training_status.json", b'{"Ball": {', "training_status.json: Expecting"),
        ("run_logs/timers.json", b"", "timers.json: Expecting"),
        ("run_logs/engine_errors.json", b'{"total": 1}', "engine_errors.json: expected an object with"),
        ("run_logs/engine_errors-1.json", b"{", "engine_errors-1.json: Expecting"),
        ("Ball/events.out.tfevents.1", b"nothing of the kind" * 3, "is no record"),
    ],
)
def test_a_damaged_run_is_listed_with_its_cause(tmp_path, capsys, file, data, cause):
    folder = make_finished_run(tmp_path)
    (folder / file).write_bytes(data)
    (entry,) = listed(capsys, tmp_path).values()
    assert entry["state"] == "damaged" and cause in " ".join(entry["problems"])
    assert run(["runs", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "damaged" in said.out and cause in said.err


def test_values_of_other_types_do_no_harm(tmp_path, capsys):
    folder = make_finished_run(tmp_path)
    (folder / "configuration.yaml").write_text(
        "behaviors: {Ball: 3, 7: {trainer_type: [x]}}\nenv_settings: 5\n"
    )
    status = {"Ball": {"final_checkpoint": [1], "checkpoints": {"a": 1}}, "metadata": 3}
    (folder / "run_logs" / "training_status.json").write_text(json.dumps(status))
    (folder / "run_logs" / "timers.json").write_text('{"metadata": []}')
    (entry,) = listed(capsys, tmp_path).values()
    assert entry["steps"] == 300 and entry["trainers"] == []


@pytest.mark.parametrize("order", [("A", "B"), ("B", "A")])
def test_a_run_is_as_old_as_the_behavior_that_learned_last(tmp_path, capsys, order):
    folder = make_finished_run(tmp_path, rewards=())
    for behavior, when in zip(order, (1_000_000_000, 2_000_000_000)):
        (folder / behavior).mkdir()
        (folder / behavior / "summaries.csv").write_text(f"step,time,T\n1,{when}.0,0.5\n")
    (entry,) = listed(capsys, tmp_path).values()
    assert entry["updated"] == "2033-05-18T03:33:20+00:00"


def test_the_program_tells_ml_agents_runs_from_ours(tmp_path, capsys):
    for name, metadata in (("theirs", {}), ("ours", {"lanista_version": "0.0.9"})):
        timers = {"metadata": {"mlagents_version": "1.1.0", **metadata}}
        (make_finished_run(tmp_path, name) / "run_logs" / "timers.json").write_text(
            json.dumps(timers, indent=4)
        )
    programs = {name: entry["program"] for name, entry in listed(capsys, tmp_path).items()}
    assert programs == {"theirs": "ML-Agents 1.1.0", "ours": "Lanista 0.0.9"}


def test_what_keep_best_copied_is_no_behavior(tmp_path, capsys):
    best = make_finished_run(tmp_path) / "best"
    best.mkdir()
    for name in ("Ball-200.pt", "Ball-200.onnx", "best.json"):
        (best / name).touch()
    (entry,) = listed(capsys, tmp_path).values()
    assert "best" not in entry["behaviors"] and len(entry["behaviors"]) == 1


def test_errors_of_engines_of_all_learners_are_listed(tmp_path, capsys):
    folder = make_finished_run(tmp_path)
    kind = {"engine": "Unity", "environment": "environment 0", "text": "Oh\x1b[2J", "place": "", "count": 2}
    other = {
        **kind,
        "text": "Ah",
        "place": "res://a.gd:3",
        "log": "run_logs/Player-1.log",
        "is_warning": True,
    }
    for name, kinds in (("", [kind]), ("-1", [kind, other]), ("-inference", [other])):
        record = {"total": 5, "is_complete": not name, "kinds": kinds}
        (folder / "run_logs" / f"engine_errors{name}.json").write_text(json.dumps(record))
    (entry,) = listed(capsys, tmp_path).values()
    found = entry["engine_errors"]
    assert (
        found["total"] == 10
        and not found["is_complete"]
        and [one["count"] for one in found["kinds"]] == [4, 2]
    )
    assert found["kinds"][1] == other and not found["kinds"][0]["is_warning"]
    assert run(["runs", str(tmp_path)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert (
        last
        == "The engines of first have printed at least 10 errors and warnings: 4 x Oh\\x1b[2J; 2 x Ah (res://a.gd:3)"
    )


def test_names_are_shown_harmless(tmp_path, capsys):
    name = "a\x1b[31m\"<b>'\u202e"
    make_finished_run(tmp_path, name)
    assert list(listed(capsys, tmp_path)) == [name]
    assert run(["runs", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert "a\\x1b[31m\"<b>'\\u202e" in out


def test_a_brief_reading_says_what_a_whole_one_says(tmp_path):
    folder = make_finished_run(tmp_path)
    brief, whole = read_run(folder, brief=True), read_run(folder)
    assert whole.settings["behaviors"]["Ball"].pop("hyperparameters") == {"batch_size": 8}
    brief.settings = whole.settings
    assert brief == whole


def test_filters_and_order(tmp_path, capsys):
    make_finished_run(tmp_path, "sweep/trial-000", rewards=(1.0,))
    make_finished_run(tmp_path, "sweep/trial-001", rewards=(5.0, 4.0))
    assert list(listed(capsys, tmp_path, "--sort", "best")) == ["sweep/trial-001", "sweep/trial-000"]
    assert list(listed(capsys, tmp_path, "--sort", "name")) == ["sweep/trial-000", "sweep/trial-001"]
    assert list(listed(capsys, tmp_path, "--min-reward", "4.5")) == ["sweep/trial-001"]
    assert list(listed(capsys, tmp_path, "--name", "*-000")) == ["sweep/trial-000"]
    assert len(listed(capsys, tmp_path, "--env", "scene:*", "--trainer", "sac", "--newer", "1d")) == 2
    assert listed(capsys, tmp_path, "--env", "godot:*") == {}
    assert listed(capsys, tmp_path, "--state", "running", "empty") == {}
    assert listed(capsys, tmp_path / "sweep" / "trial-001").keys() == {"trial-001"}
    time.sleep(0.01)
    assert listed(capsys, tmp_path, "--newer", "0s") == {}


def test_a_folder_without_runs_is_refused(tmp_path, capsys):
    assert run(["runs", str(tmp_path / "absent")]) == 1
    assert "there is no folder" in capsys.readouterr().err
    assert run(["runs", str(tmp_path)]) == 1
    assert "holds no run" in capsys.readouterr().err
