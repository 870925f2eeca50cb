"""Runs with two learners: they learn, end well with Ctrl-C, and say in a line which learner was lost."""

import os
import re
import signal
import sys
from pathlib import Path

import psutil
import pytest
from console_runs import YAML, end, learn, left_behind, start, until, weights_are_finite
from lanista.trainers.checkpoints.manager import load_checkpoint
from scripted_engine import executable

if sys.platform == "win32":
    pytest.skip("signals are sent to processes", allow_module_level=True)

ENDLESS = YAML.replace("max_steps: 400", "max_steps: -1").replace(
    "buffer_size: 64", "buffer_size: 64, learning_rate_schedule: constant"
)
BASIC = Path(__file__).parents[3] / "config" / "ppo" / "basic.yaml"


def further_learner(trainer: int) -> psutil.Process:
    """The process of the learner 1 of this trainer."""
    found = [
        child
        for child in psutil.Process(trainer).children()
        if "lanista.trainers.trainer.distributed" in child.cmdline()
    ]
    assert len(found) == 1, found
    return found[0]


def begun(folder: Path, *arguments: str):
    """A run without an end, that has saved its first checkpoint."""
    process = start(folder, "--env", executable(folder, "greet(); steps(10**9)"), *arguments, yaml=ENDLESS)
    assert until(lambda: any(folder.rglob("*.onnx"))), process.communicate()
    return process


def test_a_scene_is_learnt(tmp_path):
    sped_up = ("learning_rate=0.003", "hyperparameters"), ("stop_at_reward=0.9", ""), ("max_steps=20000", "")
    given = [f"--set=behaviors.Basic.{'.'.join(filter(None, [place, key]))}" for key, place in sped_up]
    ended = learn(
        tmp_path,
        "--env",
        "scene:basic",
        "--num-areas",
        "8",
        "--learners",
        "2",
        *given,
        yaml=BASIC.read_text(),
    )
    assert ended.good and "has reached stop_at_reward (0.9)" in ended.out
    assert "2 learners update the policies together" in ended.out
    assert not ended.files("learner-*.log"), "nothing was wrong"


def test_a_learner_that_is_killed_ends_the_run_in_one_line_and_the_run_can_go_on_alone(tmp_path):
    process = begun(tmp_path, "--learners", "2")
    victim = further_learner(process.pid)
    victim.kill()
    ended = end(process, tmp_path)
    told = rf"The learner 1 of 2 \(process {victim.pid}, cpu\) .*ended by signal 9 \(SIGKILL\).*--resume"
    assert re.search(told, ended.error) and len(ended.error.strip().splitlines()) == 1, ended.error
    assert ended.files("Ball.onnx") and weights_are_finite(ended.files("*.pt"))
    step = load_checkpoint(tmp_path / "results" / "r" / "Ball" / "checkpoint.pt")["step"]
    last = f"max_steps: {step + 100}"
    again = learn(
        tmp_path,
        "--env",
        executable(tmp_path, "greet(); steps(10**9)"),
        "--resume",
        yaml=ENDLESS.replace("max_steps: -1", last),
    )
    assert again.good and f"resuming training from step {step}" in again.out


def test_ctrl_c_saves_and_ends_all(tmp_path):
    process = begun(tmp_path, "--learners", "2")
    process.send_signal(signal.SIGINT)
    ended = end(process, tmp_path)
    assert ended.good and ended.files("Ball.onnx")


def test_nothing_outlives_a_trainer_that_is_killed(tmp_path):
    process = begun(tmp_path, "--learners", "2", "--set", "behaviors.Ball.threaded=true")
    os.kill(further_learner(process.pid).pid, signal.SIGSTOP)  # it cannot even see that the pipe is closed
    process.kill()
    process.communicate()
    assert until(lambda: not left_behind(tmp_path)), left_behind(tmp_path)
