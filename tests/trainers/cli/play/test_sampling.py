"""A line says when the likeliest actions earn clearly less than training did."""

import json

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.cli.models import find_models
from lanista.trainers.cli.play.sampling import clearly_less, trained_reward
from lanista.trainers.networks.actor import Actor
from lanista.trainers.policies.onnx.export import export_brain
from lanista.trainers.settings.models.networks import NetworkSettings
from specs import vector_spec

WALKS = [-70.0, -66.0, -68.0, -68.2, -68.3, -68.1]


@pytest.mark.parametrize(
    ("rewards", "trained", "less"),
    [
        (WALKS, 24.0, True),
        (WALKS, -70.0, False),
        (WALKS[:4], 24.0, False),
        ([0.93] * 6, 0.94, False),
        ([0.93] * 6, 1.2, True),
        ([-1.0, 1.0] * 10, 0.3, False),
        ([-1.0, 1.0] * 1000, 0.3, True),
        ([100.0, 1.0] * 10000, 52.0, False),
    ],
    ids=[
        "clearly",
        "more",
        "few episodes",
        "a trifle",
        "always the same",
        "chance",
        "no chance",
        "of a range",
    ],
)
def test_what_is_clearly_less(rewards, trained, less):
    assert clearly_less(rewards, trained) == less


def brain(folder, reward=None):
    """A model of `basic` that stands still."""
    network = Actor(vector_spec([20], 0, [3]), NetworkSettings(hidden_units=8, num_layers=1))
    export_brain(network, folder / "Basic.onnx", behavior="Basic", reward=reward)
    return folder / "Basic.onnx"


def status(folder, text):
    """A run's folder with this status of its behavior."""
    (folder / "run_logs").mkdir()
    (folder / "run_logs" / "training_status.json").write_text(
        json.dumps({"Basic": text, "metadata": {"stats_format_version": "0.3.0"}})
    )


@pytest.mark.parametrize(
    ("reward", "told", "found"),
    [
        (0.75, None, 0.75),
        (0.75, {"final_checkpoint": {"reward": 0.5}}, 0.75),
        (None, {"final_checkpoint": {"reward": 0.5}}, 0.5),
        (None, {"final_checkpoint": {"reward": None}}, None),
        (None, {"final_checkpoint": [1]}, None),
        (None, {"final_checkpoint": {"reward": int("9" * 400)}}, None),
        (None, None, None),
        (float("nan"), None, None),
    ],
)
def test_what_a_model_earned_in_training(tmp_path, reward, told, found):
    brain(tmp_path, reward)
    (tmp_path / "Basic").mkdir()
    (tmp_path / "Basic.onnx").rename(tmp_path / "Basic" / "Basic-7.onnx")
    if told is not None:
        status(tmp_path, told)
    (model,) = find_models([str(tmp_path)], tmp_path)
    assert trained_reward(model) == found


@pytest.mark.parametrize(
    ("flags", "told"), [([], True), (["--sampled"], False), (["--episodes", "3"], False)], ids=str
)
def test_a_line_says_that_the_likeliest_actions_earn_less(tmp_path, capsys, flags, told):
    words = ["--env", "scene:basic", "--episodes", "6", "--max-decisions", "20", "--json", *flags]
    assert run(["play", str(brain(tmp_path, 24.0)), *words]) == 0
    said = capsys.readouterr()
    mean = json.loads(said.out)["mean_reward"]
    line = (
        "Basic trained to a mean reward of 24.0 with sampled actions; the likeliest ones earn "
        f"{mean:.3f} here. --sampled plays as in training."
    )
    assert (line in said.err) == told
