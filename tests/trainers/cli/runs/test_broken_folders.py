"""One folder that somebody broke, or prepared: it is told of, and the list of the others stays whole."""

import json
import os
import subprocess
import sys

import pytest
from lanista.trainers.cli.main import run
from made_runs import make_finished_run
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter

pytestmark = pytest.mark.slow

PATIENCE = 120
"""Seconds; what hangs would do so for ever."""
CONFIGURATION, STATUS, TIMERS = "configuration.yaml", "run_logs/training_status.json", "run_logs/timers.json"
ERRORS = "run_logs/engine_errors.json"
DEEP = 100_000
DAMAGED = [
    (CONFIGURATION, "[" * DEEP, "nested too deeply"),
    (CONFIGURATION, "{a: " * DEEP, "nested too deeply"),
    (CONFIGURATION, "- " * DEEP, "nested too deeply"),
    (CONFIGURATION, "behaviors: " + "[" * DEEP + "]" * DEEP, "nested too deeply"),
    (CONFIGURATION, f"env_settings: {{seed: {'1:' * DEEP}1}}", "a number of"),
    (CONFIGURATION, f"env_settings: {{seed: 0x{'f' * DEEP}}}", "a number of"),
    (STATUS, "[" * DEEP, "nested too deeply"),
    (STATUS, '{"a":' * DEEP, "nested too deeply"),
    (STATUS, '{"a":' * 500 + "1" + "}" * 500, "nested too deeply"),
    (TIMERS, "[" * DEEP, "nested too deeply"),
    (ERRORS, "[" * DEEP, "nested too deeply"),
    (STATUS, f'{{"Ball": {{"final_checkpoint": {{"steps": {"9" * 5000}}}}}}}', "digits"),
]
ODD = [
    (CONFIGURATION, f"behaviors: {{Ball: {{trainer_type: ppo, max_steps: 0x{'f' * 3000}}}}}"),
    (CONFIGURATION, f"env_settings: {{seed: {'9' * 3000}}}\nbehaviors: {{1: 2, null: 3, 2001-01-01: {{}}}}"),
    (CONFIGURATION, 'behaviors: {"\\uD800": {trainer_type: "\\uD800"}}\nenv_settings: {env_path: "\\e[2J"}'),
    (
        CONFIGURATION,
        "behaviors: [1]\nenv_settings: 3\ndefault_settings: !!set {a, b}\ncallbacks: !!binary AA==",
    ),
    (STATUS, f'{{"Ball": {{"final_checkpoint": {{"steps": {"9" * 4000}}}, "checkpoints": 3}}}}'),
    (STATUS, '{"Ball": {"final_checkpoint": {"steps": Infinity}, "checkpoints": [NaN, {"steps": 1e999}]}}'),
    (TIMERS, '{"total": 1e999, "metadata": {"peak_memory_bytes": "9e9", "lanista_version": "\\ud800"}}'),
    (TIMERS, f'{{"total": NaN, "metadata": {{"peak_memory_bytes": "{"9" * 5000}"}}}}'),
    ("Ball/summaries.csv", "step,time,Environment/Cumulative Reward\n9223372036854775807,1e300,nan\n"),
    ("Ball/summaries.csv", "step,time,Environment/Cumulative Reward\n1,nan,inf\n2,-inf,1e999\n"),
]


def whole(tmp_path):
    """A sound run, and a copy of it for a test to break."""
    make_finished_run(tmp_path, "sound")
    return make_finished_run(tmp_path, "broken")


def told(tmp_path, *words):
    """The exit status and the output of a command in a process of its own, which a signal may end."""
    command = [sys.executable, "-m", "lanista.trainers.cli.main", *map(str, words)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(("file", "text", "why"), DAMAGED, ids=range(len(DAMAGED)))
def test_a_run_that_cannot_be_read_is_listed_with_the_reason(tmp_path, file, text, why):
    (whole(tmp_path) / file).write_text(text)
    status, out, err = told(tmp_path, "runs", ".", "--json")
    assert status == 0, err
    runs = {one["name"]: one for one in json.loads(out)}
    assert (runs["sound"]["state"], runs["broken"]["state"]) == ("finished", "damaged")
    assert any(why in problem and len(problem) < 500 for problem in runs["broken"]["problems"])
    status, out, err = told(tmp_path, "report", ".", "-o", "page.html")
    assert status == 0 and "2 runs" in out, err
    assert why in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(("file", "text"), ODD, ids=range(len(ODD)))
def test_odd_values_are_shown_or_left_out(tmp_path, capsys, file, text, monkeypatch):
    broken = whole(tmp_path)
    if file.endswith(".csv"):
        for path in broken.glob("Ball/events*"):
            path.unlink()
    (broken / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    for words in (["runs", "."], ["runs", ".", "--json"], ["report", ".", "-o", "page.html"]):
        assert run(words) == 0, words
        told = capsys.readouterr().out
        assert "\x1b" not in told and ("sound" in told or "2 runs" in told)


@pytest.mark.parametrize("time", [1e300, float("nan"), float("inf"), -1.0])
def test_an_event_at_no_time_is_listed(tmp_path, capsys, time):
    broken = whole(tmp_path)
    event = Event(wall_time=time, step=7)
    value = event.summary.value.add()
    value.tag, value.simple_value = "Environment/Cumulative Reward", 1.0
    with (broken / "Ball" / "events.out.tfevents.9").open("wb") as file:
        RecordWriter(file).write(event.SerializeToString())
    for words in (["runs", str(tmp_path)], ["runs", str(tmp_path), "--json"]):
        assert run(words) == 0 and "sound" in capsys.readouterr().out
    assert run(["report", str(tmp_path), "-o", str(tmp_path / "page.html")]) == 0


@pytest.mark.posix("named pipes")
@pytest.mark.parametrize(
    "file",
    [
        *(CONFIGURATION, STATUS, TIMERS, "Ball/events.out.tfevents.9", "Ball/videos/1.gif"),
        *("README.md", "run_logs/warnings.log"),
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "nothing"])
def test_a_pipe_a_device_or_a_dead_link_among_its_files_is_not_waited_for(tmp_path, file, kind):
    path = whole(tmp_path) / file
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "nowhere")
    status, out, err = told(tmp_path, "runs", ".", "--json")
    assert status == 0 and {one["name"] for one in json.loads(out)} == {"sound", "broken"}, err
    status, out, err = told(tmp_path, "report", ".", "-o", "page.html")
    assert status == 0 and "2 runs" in out, err
