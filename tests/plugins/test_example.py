"""The example package is installed as a user would, and a run trains with its trainer and its writer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from console_runs import learn

EXAMPLE = Path(__file__).parent / "example"
YAML = """\
behaviors:
  Basic:
    trainer_type: robust_ppo
    hyperparameters: {batch_size: 32, buffer_size: 128, largest_advantage: 0.5}
    network_settings: {hidden_units: 16, num_layers: 1}
    reward_signals: {extrinsic: {}, action_cost: {strength: 0.01, free: 0.5}}
    max_steps: 400
    summary_freq: 200
stats_writers: [console, jsonl]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder into which pip has put the example."""
    folder = tmp_path_factory.mktemp("installed")
    source = tmp_path_factory.mktemp("source")
    for path in EXAMPLE.rglob("*"):  # pip builds beside the sources
        if path.suffix in (".py", ".toml"):
            target = source / path.relative_to(EXAMPLE)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(path.read_bytes())
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(folder), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def on_the_path(installed, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(installed), os.environ.get("PYTHONPATH", "")]))


@pytest.mark.slow
def test_a_run_trains_with_the_example_trainer_and_writer(tmp_path):
    run = learn(tmp_path, "--env", "scene:basic", yaml=YAML)
    assert run.good
    assert "largest_advantage:\t0.5" in run.out
    assert run.files("Basic.onnx")
    lines = [json.loads(line) for line in run.files("summaries.jsonl")[0].read_text().splitlines()]
    assert [(line["behavior"], line["step"]) for line in lines] == [("Basic", 200), ("Basic", 400)]
    assert "Losses/Policy Loss" in lines[-1] and lines[-1]["Policy/Action_cost Reward"] < 0
    assert not run.files("events.out.tfevents*"), "stats_writers names the writers, and no others write"


@pytest.mark.slow
def test_what_it_trained_can_be_resumed(tmp_path):
    learn(tmp_path, "--env", "scene:basic", "--set", "behaviors.Basic.max_steps=200", yaml=YAML)
    run = learn(tmp_path, "--env", "scene:basic", "--resume", yaml=YAML)
    assert run.good and "resuming training from step" in run.out
    steps = [json.loads(line)["step"] for line in run.files("summaries.jsonl")[0].read_text().splitlines()]
    assert steps == [200, 400]


@pytest.mark.parametrize(
    "file",
    [
        "pyproject.toml",
        *(f"lanista_example/{m}.py" for m in ("writer", "trainer", "algorithm", "signal", "action_cost")),
    ],
)
def test_the_documentation_shows_the_example_as_it_is(file):
    page = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
    assert f"\n{(EXAMPLE / file).read_text(encoding='utf-8')}```\n" in page


def ask(code, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_settings_are_read_without_torch_and_without_the_algorithm():
    code = """
import sys
from lanista.trainers.settings import RunOptions
options = RunOptions.from_text(sys.argv[1])
print(options.behaviors["Basic"].hyperparameters.largest_advantage)
heavy = ("torch", "lanista_example.algorithm", "lanista_example.action_cost")
print([name for name in heavy if name in sys.modules])
"""
    assert ask(code, YAML).split("\n")[:2] == ["0.5", "[]"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("trainer_type: robust_pp", "Did you mean robust_ppo?"),
        ("largest_advantage: -1", "expected a number above 0"),
        ("larger_advantage: 1", "Did you mean `largest_advantage`?"),
        ("free: -1", "action_cost.free: found -1.0, expected at least 0"),
        ("action_costs: {", "Did you mean `action_cost`?"),
    ],
)
def test_its_hyperparameters_are_checked_as_ours_are(wrong, says):
    keys = {"trainer_type": "trainer_type: robust_ppo", "free": "free: 0.5", "action_costs": "action_cost: {"}
    key = keys.get(wrong.partition(":")[0], "largest_advantage: 0.5")
    code = """
import sys
from lanista.trainers.settings import RunOptions, TrainerConfigError
try:
    RunOptions.from_text(sys.argv[1])
except TrainerConfigError as error:
    print(error)
"""
    assert says in ask(code, YAML.replace(key, wrong))
