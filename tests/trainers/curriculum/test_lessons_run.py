"""Runs with lessons: what environments receive, when they are reset, and what a user sees."""

import json
import re

import pytest
from console_runs import learn
from lanista.trainers.checkpoints.file import load_checkpoint, save_checkpoint
from line_game import LineGame
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

BEHAVIOR = """\
behaviors:
  {behavior}:
    trainer_type: ppo
    hyperparameters: {{batch_size: 16, buffer_size: 64, num_epoch: 1}}
    network_settings: {{hidden_units: 8, num_layers: 1}}
    max_steps: 600
    time_horizon: 8
    summary_freq: 100
"""
LESSONS = """\
environment_parameters:
  {parameter}:
    curriculum:
      - name: First
        value: {values[0]}
        completion_criteria:
          {{behavior: {behavior}, measure: progress, threshold: 0.3, require_reset: {reset}}}
      - name: Second
        value: {values[1]}
        completion_criteria: {{behavior: {behavior}, measure: progress, threshold: 0.6}}
      - name: Third
        value: {values[2]}
"""
LINE = r"^\[INFO\] Parameter 'num_tiles' is in lesson '(\w+)' and has value '(.+)'\.$"


def sorter(*values):
    keys = {"behavior": "Sorter", "parameter": "num_tiles", "reset": "true"}
    return (BEHAVIOR + LESSONS).format(values=values, **keys)


@pytest.mark.slow
def test_a_scene_receives_its_lessons_over_the_wire(tmp_path):
    ended = learn(tmp_path, "--env", "scene:sorter?size=small", yaml=sorter(2, 3, 4))
    assert ended.good
    assert re.findall(LINE, ended.out, re.MULTILINE) == [
        ("First", "Float: value=2.0"),
        ("Second", "Float: value=3.0"),
        ("Third", "Float: value=4.0"),
    ]
    (events,) = ended.files("events.out.tfevents.*")
    curve = EventAccumulator(str(events)).Reload().Scalars("Environment/Lesson Number/num_tiles")
    numbers = {each.step: each.value for each in curve}
    assert (numbers[100], numbers[300], numbers[600]) == (0, 1, 2)
    (status,) = ended.files("training_status.json")
    assert json.loads(status.read_text())["num_tiles"] == {"lesson_num": 2}


@pytest.mark.slow
def test_the_scene_applies_the_lessons_that_it_receives(tmp_path):
    """It has no room for so many tiles, and reports it when the second lesson has started."""
    ended = learn(tmp_path, "--env", "scene:sorter?size=small", yaml=sorter(2, 99, 4))
    assert "num_tiles is 99" in ended.error
    assert [name for name, _ in re.findall(LINE, ended.out, re.MULTILINE)] == ["First", "Second"]


class Recorded(LineGame):
    """Records its parameters and resets, in order."""

    log: list

    def set_parameters(self, parameters):
        super().set_parameters(parameters)
        self.log.append(parameters["max_len"].value)

    def reset(self):
        super().reset()
        self.log.append("reset")


@pytest.fixture
def sent(runs, monkeypatch):
    """A run of the line game with these lessons; what its only environment was sent."""
    monkeypatch.setattr("line_runs.LineGame", Recorded)

    def train(*arguments, reset="false", behavior="Tiny", more="", values=(5, 6, 7)):
        Recorded.log = []
        lessons = LESSONS.format(parameter="max_len", behavior=behavior, values=values, reset=reset)
        runs.configure(BEHAVIOR.format(behavior="Tiny") + more + lessons)
        assert runs("c.yaml", "--run-id", "r", "--seed", "3", *arguments) == 0
        return Recorded.log

    return train


@pytest.mark.parametrize(
    ("reset", "log"), [("false", [5.0, "reset", 6.0, 7.0]), ("true", [5.0, "reset", 6.0, "reset", 7.0])]
)
def test_lessons_are_sent_in_order_with_a_reset_if_required(sent, reset, log):
    assert sent(reset=reset) == log


@pytest.mark.slow
def test_the_best_checkpoints_are_those_of_the_last_lesson(sent, tmp_path):
    """No agent arrives in so few steps, and each costs 0.01: by reward alone an early one would be best."""
    keep = ["--set", "behaviors.Tiny.keep_best=1", "--set", "behaviors.Tiny.summary_freq=50"]
    sent(*keep, values=(1, 1, 2))
    status = json.loads((tmp_path / "results" / "r" / "run_logs" / "training_status.json").read_text())
    (best,) = status["Tiny"]["best_checkpoints"]
    assert best["steps"] > 360 and best["reward"] == pytest.approx(-0.02, abs=1e-4)


@pytest.mark.slow
def test_a_resumed_run_continues_in_its_lesson(sent, capsys):
    sent("--set", "behaviors.Tiny.max_steps=300")
    capsys.readouterr()
    assert sent("--resume")[0] == 7.0
    assert "Parameter 'max_len' is in lesson 'Third'" in capsys.readouterr().out


def test_a_lesson_that_was_edited_in_the_status_does_not_count_and_that_is_said(sent, tmp_path, capsys):
    sent("--set", "behaviors.Tiny.max_steps=300")
    file = tmp_path / "results" / "r" / "run_logs" / "training_status.json"
    file.write_text(file.read_text().replace('"lesson_num": 2', '"lesson_num": 0'))
    capsys.readouterr()
    sent("--resume")
    said = capsys.readouterr().out
    assert "Parameter 'max_len' goes on with lesson_num 2, that of" in said and "; the 0 of" in said
    assert "Parameter 'max_len' is in lesson 'Third'" in said


def test_a_lesson_that_depends_on_an_absent_behavior_is_a_warning(sent, capsys):
    sent(behavior="Other", more="  Other: {trainer_type: ppo}\n")
    out = capsys.readouterr().out
    assert "stays in lesson 'First' until the behavior Other is trained" in out and "(shown: Tiny)" in out


def damage_the_lesson_of_the_status(folder):
    file = folder / "results" / "r" / "run_logs" / "training_status.json"
    file.write_text(file.read_text().replace('"lesson_num": 2', '"lesson_num": "two"'))


def test_a_damaged_lesson_ends_the_resumed_run_before_the_engine_starts(sent, tmp_path, capsys):
    sent()
    damage_the_lesson_of_the_status(tmp_path)
    checkpoint = tmp_path / "results" / "r" / "Tiny" / "checkpoint.pt"
    state = load_checkpoint(checkpoint)
    del state["lessons"]  # as those of older releases and of ML-Agents
    save_checkpoint(checkpoint, state)
    with pytest.raises(AssertionError):
        sent("--resume")
    assert "max_len.lesson_num is 'two'" in capsys.readouterr().err


def test_a_damaged_lesson_of_the_status_does_not_matter_beside_that_of_the_checkpoint(sent, tmp_path, capsys):
    sent()
    damage_the_lesson_of_the_status(tmp_path)
    sent("--resume")
    assert "Parameter 'max_len' is in lesson 'Third'" in capsys.readouterr().out.partition("resuming")[2]
