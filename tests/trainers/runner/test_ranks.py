"""Two ranks keep equal weights, follow rank 0's lessons, resume exactly, and end together."""

import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from console_runs import YAML as ENGINE_YAML
from console_runs import end, learn, left_behind, start, until, weights_are_finite
from crowd import write_demonstration
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.runner.controller import TrainerController
from lanista.trainers.runner.ranks import first_rank, joined_ranks, with_launched_ranks
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.trainer.checkpointing import LearnerCheckpointer
from lanista.trainers.trainer.distributed import rank_state
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from lanista.trainers.utils import distributed
from lanista.trainers.utils.distributed import rank
from lanista.trainers.utils.errors import TrainerError
from line_runs import Runs
from reliability.resume import differences
from scripted_engine import executable
from specs import spec_of_shapes
from two_ranks import launch, together

pytestmark = pytest.mark.slow

YAML = """\
behaviors:
  Tiny:
    trainer_type: {trainer}
    hyperparameters: {{{hyper}}}
    network_settings: {{normalize: true, hidden_units: 8, num_layers: 1{memory}}}
    checkpoint_interval: 600
    max_steps: 1400
    time_horizon: 8
    summary_freq: 200
    worker_statistics: true
{more}\
torch_settings: {{num_threads: 1}}
"""
ON_POLICY = "batch_size: 30, buffer_size: 120, num_epoch: 2"
OFF_POLICY = "batch_size: 30, buffer_size: 600, buffer_init_steps: 100, steps_per_update: 20"
LSTM = ", memory: {memory_size: 4, sequence_length: 5}"
SIGNALS = """\
    reward_signals:
      extrinsic: {}
      rnd: {strength: 0.1, network_settings: {hidden_units: 8, num_layers: 1, normalize: true}}
      curiosity: {strength: 0.1, network_settings: {hidden_units: 8, num_layers: 1}}
      gail: {demo_path: expert.demo, use_vail: true, network_settings: {hidden_units: 8, num_layers: 1}}
    behavioral_cloning: {demo_path: expert.demo, steps: 2000, num_epoch: 1, samples_per_update: 32}
"""
PLAY = "    self_play: {save_steps: 100, team_change: 300, swap_steps: 50, window: 3}\n"
BOTH = PLAY.replace("}", ", learn_from_both_sides: true, opponent_sampling: prioritized}")
LESSONS = """\
environment_parameters:
  max_len:
    curriculum:
      - name: short
        value: 5
        completion_criteria:
          {behavior: Tiny, measure: progress, threshold: 0.3, require_reset: true}
      - {name: long, value: 9}
"""
TEAMS = {"behaviors": ["Tiny?team=0", "Tiny?team=1"]}
CHOICES = {"groups": True, "cont": 0, "disc": (3,), "max_len": 13}
RICH = "save_replay_buffer: true, n_step: 2, prioritized_replay: true, normalize_rewards: true"
CASES = {
    "ppo, threaded": ("ppo", ON_POLICY, "", {}, "    threaded: true\n"),
    "ppo with a memory, signals and cloning": (
        "ppo",
        f"{ON_POLICY}, normalize_rewards: true",
        LSTM,
        {},
        SIGNALS,
    ),
    "ppo with absorbing states": (
        "ppo",
        f"{ON_POLICY}, normalize_rewards: true",
        "",
        {},
        SIGNALS.replace("use_vail: true", "absorbing_states: true"),
    ),
    "ppo with self-play": ("ppo", ON_POLICY, "", TEAMS, PLAY),
    "ppo with self-play from both sides": ("ppo", ON_POLICY, LSTM, {**TEAMS, "unique_ids": True}, BOTH),
    "ppo with lessons": ("ppo", ON_POLICY, "", {}, LESSONS),
    "poca with a memory": ("poca", ON_POLICY, LSTM, {"groups": True, "max_len": 13}, ""),
    "mappo": (
        "mappo",
        f"{ON_POLICY}, normalize_values: true, normalize_rewards: true",
        "",
        {"groups": True, "max_len": 13},
        "",
    ),
    "coma": ("coma", f"{ON_POLICY}, max_num_agents: 4", "", CHOICES, ""),
    "coma as published": ("coma", f"{ON_POLICY}, max_num_agents: 4, clip: false", LSTM, CHOICES, ""),
    "sac with signals and cloning": ("sac", OFF_POLICY, "", {}, SIGNALS),
    "sac by simba's recipe": ("sac", f"{OFF_POLICY}, recipe: simba", "", {}, ""),
    "dqn with a memory": ("dqn", OFF_POLICY, LSTM, {"cont": 0, "disc": (3,)}, ""),
    "ddpg": ("ddpg", OFF_POLICY, "", {}, ""),
    "td3": ("td3", f"{OFF_POLICY}, {RICH}", "", {}, ""),
    "sac with demonstrations": (
        "sac",
        f"{OFF_POLICY}, {RICH}",
        "",
        {},
        "    demonstrations: {demo_path: expert.demo, share: 0.3}\n",
    ),
}
"""By name: trainer, hyperparameters, memory, rules of the game, and further settings."""


class Trainings:
    """Trains with two ranks, and keeps the state of each at its last save."""

    def __init__(self, monkeypatch, folder):
        self.folder, self.runs, self.patch = folder, Runs(monkeypatch), monkeypatch
        self.runs.rules["max_len"] = 9
        self.of_rank = ({}, {})
        """Rules that differ."""
        monkeypatch.chdir(folder)

    def configure(self, trainer, hyper, memory, rules, more):
        self.runs.rules |= rules
        write_demonstration(
            self.folder / "expert.demo", spec_of_shapes([[2]], continuous=1), [9, 14, 6], rewarded=True
        )
        text = YAML.format(trainer=trainer, hyper=hyper, memory=memory, more=more)
        (self.folder / "c.yaml").write_text(text)

    def __call__(self, *arguments, stop_at=None):
        """The states of both ranks at their last save; with `stop_at` the run is killed after that step."""
        save, work = LearnerCheckpointer.save, TrainerController._reset_if_due

        def train(rank):
            last = {}
            self.runs.rules |= self.of_rank[rank]

            def saved(files, *rest, **keys):
                last.update(files._state(None), lessons=files.run.curriculum.numbers)
                return save(files, *rest, **keys)

            def killed(controller, answers):
                steps = work(controller, answers)
                if stop_at and any(one.trainer.step > stop_at for one in controller.learners.values()):
                    os._exit(7)
                return steps

            self.patch.setattr(LearnerCheckpointer, "save", saved)
            self.patch.setattr(TrainerController, "_reset_if_due", killed)
            flags = ["--num-envs", "3", "--env", "scene:basic", "--seed", "3", "--deterministic"]
            self.runs.restarting_at_checkpoints("c.yaml", *flags, *arguments)
            return last

        return launch(self.folder, train, (7, 7) if stop_at else (0, 0))

    def curve(self, run, tag):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(self.folder / "results" / run / "Tiny"))
        events.Reload()
        return [point.value for point in events.Scalars(tag)] if tag in events.Tags()["scalars"] else []


@pytest.fixture
def trainings(monkeypatch, tmp_path):
    return Trainings(monkeypatch, tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_all_ranks_have_the_same_weights(trainings, case):
    trainings.configure(*CASES[case])
    first, second = trainings("--run-id", "r")
    generators = {"shuffler", "sampler", "noise", "smoother"}
    own = [rank_state(state, generators) for state in (first, second)]
    assert own[0].keys() == own[1].keys() and differences(*own), "they sample for themselves"
    allowed = re.compile(r"\.(judged|lessons)|" + "|".join(rf"\.{key}\b" for key in own[0]) + r"|random")
    differing = [text for text in differences(first, second) if not allowed.search(text.split(": ")[0])]
    assert not differing, differing
    assert first["step"] > 1400 and first["Optimizer"]["steps"] >= 6
    files = {path.name for path in (trainings.folder / "results" / "r" / "Tiny").iterdir()}
    assert sum(name.startswith("events.out") for name in files) == 1 and "ranks" in files
    if case == "ppo with lessons":
        assert second["lessons"] == {"max_len": 1}
    if case == "ppo, threaded":
        workers = [trainings.curve("r", f"Environment/Worker {k}/Cumulative Reward") for k in range(4)]
        assert [bool(curve) for curve in workers] == [True, True, True, False]


@pytest.mark.parametrize("steps", [(150, 20), (20, 150)])
def test_a_team_that_one_rank_meets_late_is_known_to_all(trainings, steps):
    trainings.configure(*CASES["ppo with self-play"])
    trainings.of_rank = tuple({"late": {"Tiny?team=1": step}} for step in steps)
    first, second = (state["self_play"] for state in trainings("--run-id", "r"))
    assert first["teams"] == second["teams"] == [0, 1]
    assert first["rotation"] == second["rotation"] and first["rotation"]["changes"] >= 3


def test_a_behavior_that_one_rank_never_meets_is_named(trainings, capfd):
    other = "  Other: {trainer_type: ppo, max_steps: 1400}\n"
    trainings.configure("ppo", ON_POLICY, "", {"behaviors": ["Tiny?team=0", "Other?team=0"]}, other)
    trainings.of_rank = ({}, {"late": {"Other?team=0": 10**9}})
    first, _ = trainings("--run-id", "r")
    assert first["step"] > 1400 and not list(trainings.folder.rglob("Other*.pt"))
    assert capfd.readouterr().out.count("Other was not trained: not every learner's environments") == 1


@pytest.mark.parametrize("case", ["ppo with a memory, signals and cloning", "td3"])
def test_every_rank_resumes_a_killed_run_bit_for_bit(trainings, case):
    trainings.configure(*CASES[case])
    whole = trainings("--run-id", "whole")
    trainings("--run-id", "killed", stop_at=800)
    for file in trainings.folder.glob("returned-*"):
        file.unlink()
    resumed = trainings("--run-id", "killed", "--resume")
    assert [differences(*pair) for pair in zip(whole, resumed)] == [[], []]
    assert whole[1]["step"] > 1400


def test_no_rank_acts_in_a_resumed_run_that_had_ended(trainings):
    trainings.configure(*CASES["td3"])
    ended = trainings("--run-id", "r")
    for file in trainings.folder.glob("returned-*"):
        file.unlink()
    assert [differences(*pair) for pair in zip(ended, trainings("--run-id", "r", "--resume"))] == [[], []]


def test_every_rank_drops_its_steps_of_other_sequences(trainings):
    trainings.configure(*CASES["poca with a memory"])
    trainings("--run-id", "r", stop_at=700)
    yaml = trainings.folder / "c.yaml"
    yaml.write_text(yaml.read_text().replace("sequence_length: 5", "sequence_length: 7"))
    for file in trainings.folder.glob("returned-*"):
        file.unlink()
    dropped, drop = trainings.folder / "dropped", OnPolicyTrainer.drop_unfit_steps

    def noted(own, changed):
        waited, why = drop(own, changed)
        (dropped / str(rank())).write_text(f"{waited} {len(own.buffer)} {why}")
        return waited, why

    dropped.mkdir()
    trainings.patch.setattr(OnPolicyTrainer, "drop_unfit_steps", noted)
    states = trainings("--run-id", "r", "--resume")
    for number, state in enumerate(states):
        waited, left, why = (dropped / str(number)).read_text().split(" ", 2)
        assert int(waited) > 5 and left == "0" and why.endswith("sequence_length was 5, is 7")
        buffer = state["buffer"]
        assert not buffer or len(buffer["advantages"]) == 7 * len(buffer["memory"])
    assert states[0]["step"] > 1400 and not differences(states[0]["Policy"], states[1]["Policy"])


# Real processes -------------------------------------------------------------------------------------------

ENDLESS = ENGINE_YAML.replace("max_steps: 400", "max_steps: -1").replace(
    "buffer_size: 64", "buffer_size: 64, learning_rate_schedule: constant"
)
BASIC = Path(__file__).parents[3] / "config" / "ppo" / "basic.yaml"
TWO = ("--num-envs", "2", "--learners", "2")

posix = pytest.mark.posix("signals are sent to processes")


def further_ranks(trainer):
    """The processes of the other ranks of this trainer."""
    children = psutil.Process(trainer).children()
    return [child for child in children if "lanista.trainers.runner.ranks" in child.cmdline()]


def further_rank(trainer):
    """The process of rank 1 of this trainer."""
    (found,) = further_ranks(trainer)
    return found


def begun(folder, *arguments):
    """A run without an end that has saved its first checkpoint."""
    process = start(folder, "--env", executable(folder, "greet(); steps(10**9)"), *arguments, yaml=ENDLESS)
    assert until(lambda: any(folder.rglob("*.onnx"))), process.communicate()
    return process


def quick_basic():
    sped_up = ("hyperparameters.learning_rate=0.003", "stop_at_reward=0.9", "max_steps=20000")
    return [f"--set=behaviors.Basic.{text}" for text in sped_up]


def test_a_scene_is_learned(tmp_path):
    flags = ["--env", "scene:basic", "--num-areas", "4", *TWO, *quick_basic()]
    ended = learn(tmp_path, *flags, yaml=BASIC.read_text())
    assert ended.good and "has reached stop_at_reward (0.9)" in ended.out
    assert "2 learners train the policies together" in ended.out
    assert not ended.files("learner-*.log"), "nothing was wrong"


def test_torchrun_starts_the_ranks(tmp_path):
    (tmp_path / "c.yaml").write_text(BASIC.read_text())
    flags = ["--env", "scene:basic", "--num-areas", "4", "--num-envs", "2", "--run-id", "r", *quick_basic()]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = subprocess.run(
        [*torchrun, "-m", "lanista.trainers.learn", "c.yaml", *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("has reached stop_at_reward (0.9)") == 1, "one rank speaks"
    assert (tmp_path / "results" / "r" / "Basic.onnx").exists()


@posix
def test_a_killed_rank_ends_the_run_with_one_line_and_its_state_saved(tmp_path):
    process = begun(tmp_path, *TWO)
    victim = further_rank(process.pid)
    victim.kill()
    ended = end(process, tmp_path)
    told = rf"The learner 1 of 2 \(process {victim.pid}, cpu\) .*ended by signal 9 \(SIGKILL\).*--resume"
    assert re.search(told, ended.error) and len(ended.error.strip().splitlines()) == 1, ended.error
    assert ended.files("Ball.onnx") and weights_are_finite(ended.files("Ball*.pt"))
    step = load_checkpoint(tmp_path / "results" / "r" / "Ball" / "checkpoint.pt")["step"]
    more = ENDLESS.replace("max_steps: -1", f"max_steps: {step + 100}")
    again = learn(tmp_path, "--env", executable(tmp_path, "greet(); steps(10**9)"), "--resume", yaml=more)
    assert again.good and f"resuming training from step {step}" in again.out


@posix
def test_a_rank_that_is_killed_while_it_starts_ends_the_run_with_one_line(tmp_path):
    process = start(tmp_path, "--env", executable(tmp_path, "greet(); steps(10**9)"), *TWO, yaml=ENDLESS)
    assert until(lambda: further_ranks(process.pid))
    victim = further_rank(process.pid)
    victim.kill()
    ended = end(process, tmp_path)
    told = rf"The learner 1 of 2 \(process {victim.pid}, cpu\) has ended before the run began: .*SIGKILL"
    assert re.search(told, ended.error) and len(ended.error.strip().splitlines()) == 1, ended.error


DIES_WHEN_READY = """
import os, pathlib, signal
touch = pathlib.Path.touch
def touch_and_die(path, *arguments, **keys):
    touch(path, *arguments, **keys)
    if "-ready-" in path.name:
        os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.touch = touch_and_die
"""


@posix
def test_a_rank_that_is_killed_just_before_it_connects_ends_the_run_with_one_line(tmp_path, monkeypatch):
    """It has said that it is ready, and has no connection that breaks: torch waits half an hour for it."""
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(DIES_WHEN_READY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "early"))
    process = start(tmp_path, "--env", executable(tmp_path, "greet(); steps(10**9)"), *TWO, yaml=ENDLESS)
    ended = end(process, tmp_path)
    told = r"The learner 1 of 2 \(process \d+, cpu\) has ended before the run began: .*SIGKILL"
    assert re.search(told, ended.error) and len(ended.error.strip().splitlines()) == 1, ended.error


@posix
def test_ctrl_c_saves_and_ends_all_ranks(tmp_path):
    process = begun(tmp_path, *TWO)
    process.send_signal(signal.SIGINT)
    ended = end(process, tmp_path)
    assert ended.good and ended.files("Ball.onnx") and ended.files("1.pt")


@posix
def test_engines_that_quit_end_the_run_for_all_ranks(tmp_path):
    engine = executable(tmp_path, "greet(); steps(200)")
    ended = learn(tmp_path, "--env", engine, *TWO, yaml=ENDLESS)
    assert ended.files("Ball.onnx")


@posix
def test_no_process_outlives_a_killed_trainer(tmp_path):
    process = begun(tmp_path, *TWO)
    os.kill(
        further_rank(process.pid).pid, signal.SIGSTOP
    )  # it cannot even see that its connections are closed
    process.kill()
    process.communicate()
    assert until(lambda: not left_behind(tmp_path)), left_behind(tmp_path)


# Refusals -------------------------------------------------------------------------------------------------


def options(learners, **sections):
    sections = {"torch_settings": {"learners": learners}, "behaviors": {"B": {}}, **sections}
    return RunOptions.from_dict(sections)


@pytest.mark.parametrize("there", [0, 3])
def test_more_ranks_than_gpus_are_refused(monkeypatch, tmp_path, there):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: there)
    message = rf"torch_settings\.learners \(--learners\): found 4, and this machine has {there} GPUs"
    on_gpus = options(4, torch_settings={"learners": 4, "device": "cuda"})
    with (
        pytest.raises(TrainerError, match=message),
        first_rank(on_gpus, tmp_path, restart_engines_at_checkpoints=False),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_inference_starts_no_ranks(tmp_path):
    acting = options(4, checkpoint_settings={"inference": True})
    with first_rank(acting, tmp_path, restart_engines_at_checkpoints=False):
        assert not list(tmp_path.iterdir())


def test_the_number_of_torchrun_processes_is_the_number_of_learners(monkeypatch):
    for name, text in {"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "here", "MASTER_PORT": "3"}.items():
        monkeypatch.setenv(name, text)
    assert with_launched_ranks(options(1)).torch_settings.learners == 3
    with pytest.raises(TrainerError, match=r"found 2, and torchrun has started 3 processes \(WORLD_SIZE\)"):
        with_launched_ranks(options(2))
    with pytest.raises(TrainerError, match=r"--inference takes one process, and torchrun has started 3"):
        with_launched_ranks(options(1, checkpoint_settings={"inference": True}))
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert with_launched_ranks(options(2)).torch_settings.learners == 2


def test_a_first_rank_of_torchrun_says_that_no_other_one_comes(tmp_path):
    told = tmp_path / "told"

    def join(rank):
        if rank:
            assert until(told.exists)
        else:
            handler = logging.FileHandler(tmp_path / "log")
            handler.emit = lambda record: told.write_text(record.getMessage())
            logging.getLogger("lanista").addHandler(handler)
        with joined_ranks(rank, 2, "cpu", None if rank else 0.1):
            return distributed.sums(1.0)

    assert launch(tmp_path, join) == [[2.0], [2.0]]
    assert re.match(r"The other learners have not come to 127\.0\.0\.1:\d+ \(MASTER_ADDR,", told.read_text())


def test_a_rank_of_torchrun_has_the_numbers_of_its_machine_and_others_their_own(monkeypatch, tmp_path):
    def numbers(rank):
        os.environ |= {"LOCAL_RANK": str(1 - rank), "LOCAL_WORLD_SIZE": "2"}
        return distributed.local_rank(), distributed.local_size()

    def joined(rank):
        os.environ |= {"LOCAL_RANK": str(1 - rank)}
        with distributed.process_group(rank, 2, "cpu"):
            return numbers(rank)

    assert together(tmp_path, numbers) == [(0, 2), (1, 2)]
    assert launch(tmp_path, joined) == [(1, 2), (0, 2)]
    assert (distributed.local_rank(), distributed.local_size()) == (0, 1)
