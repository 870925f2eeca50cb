"""Folders of runs, for the tests of what is read of them."""

import json

import yaml
from lanista.trainers.cli.runs.record import REWARD
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.tensorboard import TensorBoardWriter


def make_run(results, name, *, seed=0, rewards=(1.0, 2.0), rate=0.1, behavior="Ball", timers=None):
    """A run with a summary every 100 steps."""
    folder = results / name
    (folder / "run_logs").mkdir(parents=True)
    settings = {
        "behaviors": {behavior: {"trainer_type": "ppo", "hyperparameters": {"learning_rate": rate}}},
        "env_settings": {"env_path": "scene:<b>", "seed": seed, "base_port": 5005 + seed},
        "checkpoint_settings": {"run_id": name},
    }
    (folder / "configuration.yaml").write_text(yaml.safe_dump(settings))
    write(folder, behavior, {(k + 1) * 100: value for k, value in enumerate(rewards)})
    if timers is not None:
        (folder / "run_logs" / "timers.json").write_text(json.dumps(timers))
    return folder


def make_finished_run(
    results, name="first", rewards=(0.5, 2.0, 1.0), steps=100, max_steps=300, writer=TensorBoardWriter
):
    """A run of the behavior Ball with a summary every `steps` and a final model at the last one."""
    folder = results / name
    (folder / "run_logs").mkdir(parents=True)
    settings = {"trainer_type": "sac", "max_steps": max_steps, "hyperparameters": {"batch_size": 8}}
    (folder / "configuration.yaml").write_text(
        yaml.safe_dump(
            {"behaviors": {"Ball": settings}, "env_settings": {"env_path": "scene:ball3d", "seed": 4}}
        )
    )
    written = writer(folder)
    for number, reward in enumerate(rewards, 1):
        written.write_stats("Ball", {REWARD: StatsSummary([reward])}, number * steps)
    written.close()
    final = {"Ball": {"final_checkpoint": {"steps": len(rewards) * steps}}} if rewards else {}
    (folder / "run_logs" / "training_status.json").write_text(json.dumps({**final, "metadata": {}}))
    return folder


def write(folder, behavior, rewards):
    writer = TensorBoardWriter(folder)
    for step, value in rewards.items():
        writer.write_stats(
            behavior, {REWARD: StatsSummary([value]), "Losses/Value Loss": StatsSummary([0.5])}, step
        )
    writer.close()
