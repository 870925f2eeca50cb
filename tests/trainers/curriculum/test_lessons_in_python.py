"""Runs with lessons in environments in Python: what each episode was given, also after a resumption."""

import ast
import json
import os
import re
from pathlib import Path

import pytest
from console_runs import lanista, learn

pytest.importorskip("gymnasium")

pytestmark = pytest.mark.slow

YAML = """\
behaviors:
  {name}:
    trainer_type: ppo
    hyperparameters: {{batch_size: 16, buffer_size: 64, num_epoch: 1}}
    network_settings: {{hidden_units: 8, num_layers: 1}}
    max_steps: 400
    time_horizon: 8
    summary_freq: 100
    checkpoint_interval: 100
environment_parameters:
  slope: {{sampler_type: uniform, sampler_parameters: {{min_value: 0.25, max_value: 0.75}}}}
  length:
    curriculum:
      - name: Short
        value: 3
        completion_criteria: {{behavior: {name}, measure: progress, threshold: 0.4}}
      - name: Long
        value: {{sampler_type: uniform, sampler_parameters: {{min_value: 5, max_value: 6}}}}
"""


@pytest.fixture
def train(tmp_path, monkeypatch):
    """Train in a corridor, and return the run and what each episode was given, in order."""
    log = tmp_path / "episodes.txt"
    monkeypatch.setenv("CORRIDOR_LOG", str(log))

    def run(kind, *arguments, name):
        log.write_text("")
        ended = learn(tmp_path, "--env", f"python:corridors:{kind}", *arguments, yaml=YAML.format(name=name))
        assert ended.good
        return ended, [ast.literal_eval(line) for line in log.read_text().splitlines()]

    return run


@pytest.fixture(autouse=True)
def corridors_are_found(monkeypatch):
    paths = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))


@pytest.mark.parametrize(
    ("kind", "name", "arguments"),
    [
        ("Corridor", "Corridor", ("--num-areas", "2")),
        ("Told", "Told", ("--env-workers", "1")),
        ("Parallel", "agent", ()),
    ],
)
def test_a_run_moves_through_its_lessons_and_a_resumed_one_continues(train, kind, name, arguments):
    half = ("--set", f"behaviors.{name}.max_steps=300")
    ended, given = train(kind, *arguments, *half, name=name)
    given = [each for each in given if each]  # an environment that is tried before the run gets none
    lengths = [each["length"] for each in given]
    short = lengths.count(3.0)
    assert short > 20 and lengths[:short] == [3.0] * short and len(lengths) > short + 9
    assert all(5 <= length <= 6 for length in lengths[short:])
    slopes = [each["slope"] for each in given]
    assert all(0.25 <= slope <= 0.75 for slope in slopes) and len(set(slopes)) == len(slopes)
    (status,) = ended.files("training_status.json")
    assert json.loads(status.read_text())["length"]["lesson_num"] == 1
    resumed, later = train(kind, *arguments, "--resume", name=name)
    assert "Parameter 'length' is in lesson 'Long'" in resumed.out
    later = [each for each in later if each]
    assert later and all(5 <= each["length"] <= 6 for each in later)
    assert later[0]["slope"] == slopes[0], "as an engine that is started anew"


def test_a_wrong_name_is_refused_before_the_run_and_a_brain_plays_in_its_lesson(train, tmp_path):
    train("Corridor", name="Corridor")
    log = tmp_path / "episodes.txt"
    log.write_text("")
    report = json.loads(lanista(tmp_path, "play", "r", "--episodes", "3", "--json", "--trust-run"))
    assert report["behaviors"]["Corridor?team=0"]["episodes"] == 3
    played = [ast.literal_eval(line) for line in log.read_text().splitlines()]
    assert played and all(5 <= each["length"] <= 6 for each in played if each)
    wrong = YAML.format(name="Corridor").replace("slope:", "slop:")
    refused = learn(tmp_path, "--env", "python:corridors:Corridor", "--force", yaml=wrong)
    assert re.search(r"no environment parameter slop\. Did you mean slope\?", refused.error)
