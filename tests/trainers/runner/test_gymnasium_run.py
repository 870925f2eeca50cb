"""Whole runs of the command in Gymnasium environments, to an exported brain that plays."""

import csv
import json

import numpy as np
import pytest
from console_runs import lanista, learn

pytest.importorskip("gymnasium")

YAML = """\
behaviors:
  {name}:
    trainer_type: ppo
    hyperparameters: {{batch_size: 32, buffer_size: 128}}
    network_settings: {{hidden_units: 8, num_layers: 1}}
    max_steps: 400
    time_horizon: 32
    summary_freq: 200
    worker_statistics: true
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "limit", "rewards"), [("CartPole-v1", 20, (8, 20)), ("Pendulum-v1", 10, (-170, 0))]
)
def test_a_run_learns_and_exports_a_brain_that_plays(tmp_path, name, limit, rewards):
    env = f"gymnasium:{name}?max_episode_steps={limit}"
    flags = ("--num-envs", "2", "--num-areas", "2", "--set", "stats_writers=[csv]")
    ended = learn(tmp_path, "--env", env, *flags, yaml=YAML.format(name=name))
    assert ended.good
    results = ended.folder / "results" / "r"
    (summaries,) = results.rglob("*.csv")
    rows = list(csv.DictReader(summaries.open()))
    for worker in (0, 1):
        told = [float(row[f"Environment/Worker {worker}/Cumulative Reward"]) for row in rows]
        assert told and all(rewards[0] <= each <= rewards[1] for each in told)
        lengths = [float(row[f"Environment/Worker {worker}/Episode Length"]) for row in rows]
        assert all(1 < each <= limit for each in lengths)
    flags = ["--env", env, "--json", "--episodes", "3", "--num-areas", "2"]
    report = json.loads(lanista(tmp_path, "play", results / f"{name}.onnx", *flags))
    assert np.isfinite(report["behaviors"][f"{name}?team=0"]["mean_reward"])


def test_a_missing_environment_ends_the_run_before_it_starts(tmp_path):
    ended = learn(tmp_path, "--env", "gymnasium:CartPol-v1", yaml=YAML.format(name="CartPole"))
    assert "Did you mean: `CartPole`" in ended.error
    assert not (ended.folder / "results" / "r").exists()
