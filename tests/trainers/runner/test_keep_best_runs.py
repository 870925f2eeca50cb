"""The end of a run, and what it keeps: keep_best, stop_at_reward, --inference-steps, Stop in the Editor."""

import re

import pytest
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.cli.runs.record import read_run

YAML = """\
behaviors:
  Tiny:
    trainer_type: ppo
    hyperparameters: {batch_size: 64, buffer_size: 256, learning_rate: 5.0e-3}
    network_settings: {hidden_units: 16, num_layers: 1}
    keep_checkpoints: 2
    checkpoint_interval: 1000
    max_steps: 4000
    time_horizon: 16
    summary_freq: 500
"""


@pytest.fixture
def runs(runs):
    runs.configure(YAML)
    return runs


def means(out):
    """The mean rewards of the summaries."""
    return [float(text) for text in re.findall(r"Step: \d+\..*Mean Reward: (-?\d+\.\d+)", out)]


def require_the_best(runs, tmp_path, keep):
    folder, status = tmp_path / "results" / "r" / "Tiny", runs.status()["Tiny"]
    best = status["best_checkpoints"]
    rewards = [entry["reward"] for entry in best]
    assert len(best) == keep and rewards == sorted(rewards, reverse=True)
    assert len(status["checkpoints"]) == 2
    kept = {entry["steps"] for entry in (*best, *status["checkpoints"])}
    for ending in ("pt", "onnx"):
        assert {int(p.stem.split("-")[1]) for p in folder.glob(f"Tiny-[0-9]*.{ending}")} == kept
        first = folder / f"Tiny-{best[0]['steps']}.{ending}"
        assert (folder / f"Tiny-best.{ending}").read_bytes() == first.read_bytes()
    assert load_checkpoint(folder / "Tiny-best.pt")["step"] == best[0]["steps"]
    return best


@pytest.mark.slow
def test_the_best_are_kept_beside_the_newest_also_after_a_resume(runs, tmp_path, capsys):
    keep = ["--set", "behaviors.Tiny.keep_best=3"]
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *keep) == 0
    best = require_the_best(runs, tmp_path, 3)
    summaries = means(capsys.readouterr().out)
    assert max(entry["reward"] for entry in best) >= max(summaries) - 5e-4
    assert sum(any(abs(e["reward"] - s) < 1e-3 for s in summaries) for e in best) >= 2
    arguments = [*keep, "--resume", "--set", "behaviors.Tiny.max_steps=6000"]
    assert runs("c.yaml", "--run-id", "r", *arguments) == 0
    later = require_the_best(runs, tmp_path, 3)
    assert later[-1]["reward"] >= best[-1]["reward"] and later[0]["reward"] >= best[0]["reward"]


def test_by_default_no_checkpoint_is_the_best(runs, tmp_path):
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    assert "best_checkpoints" not in runs.status()["Tiny"]
    assert not list((tmp_path / "results").rglob("*best*"))


def test_a_run_ends_once_its_agents_reach_stop_at_reward(runs, tmp_path, capsys):
    goal = ["--set", "behaviors.Tiny.max_steps=1e6", "--set", "behaviors.Tiny.stop_at_reward=0.3"]
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *goal) == 0
    out = capsys.readouterr().out
    mean, step = re.search(
        r"Tiny: the mean reward of the last 100 episodes, (\S+), .* at step (\d+)", out
    ).groups()
    assert 0.3 <= float(mean) < 0.5 and int(step) < 100_000
    assert (tmp_path / "results" / "r" / "Tiny.onnx").exists()
    assert runs.status()["Tiny"]["final_checkpoint"]["steps"] >= int(step)
    # It is over, unless more is wanted.
    assert runs("c.yaml", "--run-id", "r", "--resume", *goal) == 0
    assert "the mean reward of the last" not in capsys.readouterr().out
    higher = [*goal[:2], "--set", "behaviors.Tiny.stop_at_reward=0.5"]
    assert runs("c.yaml", "--run-id", "r", "--resume", *higher) == 0
    assert "has reached stop_at_reward (0.5)" in capsys.readouterr().out


def test_a_team_is_compared_by_what_its_groups_earn(runs, capsys):
    runs.configure(YAML.replace("ppo", "poca"))
    runs.rules["groups"] = True  # the last member that ends earns 0.5 for its group, whatever it did
    goal = ["--set", "behaviors.Tiny.stop_at_reward=0.5", "--set", "behaviors.Tiny.keep_best=1"]
    assert runs("c.yaml", "--run-id", "r", "--seed", "1", *goal) == 0
    assert "of the last 100 episodes, 0.500, has reached" in capsys.readouterr().out
    assert runs.status()["Tiny"]["best_checkpoints"][0]["reward"] == pytest.approx(0.5)


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_an_inference_ends_after_its_steps_and_changes_no_checkpoint(runs, tmp_path, capsys):
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    run = tmp_path / "results" / "r"
    before = files(run)
    capsys.readouterr()
    arguments = [
        "--resume",
        "--inference",
        "--inference-steps",
        "3300",
        "--set",
        "stats_writers=[tensorboard,console,csv]",
    ]
    assert runs("c.yaml", "--run-id", "r", *arguments, "--set", "behaviors.Tiny.keep_checkpoints=1") == 0
    out = capsys.readouterr().out
    assert "Exported" not in out and "Copied" not in out
    steps = [int(n) for n in re.findall(r"Step: (\d+)\..*Not Training", out)]
    assert len(steps) == len(means(out)) >= 6
    assert 7300 <= steps[-1] < 7500, "what came after the last summary is reported too"
    after = files(run)
    assert {path: after[path] for path in before} == before, "nor anything else of the training"
    new = {re.sub(r"(?<=tfevents).*\d", "", path.name) for path in after.keys() - before.keys()}
    assert new == {"events.out.tfevents-inference", "summaries-inference.csv", "timers-inference.json"}


@pytest.mark.slow
def test_an_inference_changes_nothing_of_what_the_run_is_listed_as(runs, tmp_path):
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    run = tmp_path / "results" / "r"
    before = read_run(run)
    assert before.state == "finished"
    assert runs("c.yaml", "--run-id", "r", "--resume", "--inference", "--inference-steps", "3300") == 0
    after = read_run(run)
    assert (after.state, after.behaviors, after.command) == (before.state, before.behaviors, before.command)


def test_an_inference_without_weights_is_warned_of(runs, capsys):
    assert runs("c.yaml", "--run-id", "new", "--inference", "--inference-steps", "100") == 0
    assert "no weights to load" in capsys.readouterr().out


def test_inference_steps_without_inference_are_refused(runs, tmp_path, capsys):
    assert runs("c.yaml", "--run-id", "r", "--inference-steps", "100") == 1
    assert "--inference" in capsys.readouterr().err and not (tmp_path / "results").exists()


def test_stop_in_the_editor_finishes_and_saves(runs, tmp_path, capsys):
    runs.rules["until"] = 300
    assert runs("c.yaml", "--run-id", "r", "--seed", "1") == 0
    out = capsys.readouterr()
    assert "The editor has ended the session" in out.out and "Restarting" not in out.out
    assert (tmp_path / "results" / "r" / "Tiny.onnx").exists()
    # Nearly all of what four agents did in 299 steps is counted.
    assert 1100 < runs.status()["Tiny"]["final_checkpoint"]["steps"] <= 4 * 299
