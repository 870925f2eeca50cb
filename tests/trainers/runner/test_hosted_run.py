"""Runs whose Python environments are hosted in other processes."""

import re

import psutil
import pytest
from console_runs import learn, left_behind, start, until
from lanista.envs.hosting.source import HostedSource, parse
from lanista.envs.ray.cluster import Cluster
from lanista.trainers.runner.engine_options import engine_options
from lanista.trainers.runner.environments import check_environment, make_env_manager
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.settings.errors import TrainerConfigError

pytestmark = pytest.mark.slow

pytest.importorskip("gymnasium")

YAML = """\
behaviors:
  CartPole-v1:
    trainer_type: ppo
    hyperparameters: {batch_size: 32, buffer_size: 128}
    network_settings: {hidden_units: 8, num_layers: 1}
    max_steps: 400
    time_horizon: 32
    summary_freq: 200
    checkpoint_interval: 100
    worker_statistics: true
"""
POLE = ("--env", "gymnasium:CartPole-v1")


def options(tmp_path, *arguments):
    (tmp_path / "c.yaml").write_text(YAML)
    return parse_command_line([str(tmp_path / "c.yaml"), *arguments])


def first_observations(run, folder):
    with make_env_manager(run, 7, folder) as manager:
        manager.start()
        return [step.steps["CartPole-v1?team=0"][0].obs[0].tolist() for step in manager.reset()]


def test_workers_have_the_seeds_and_copies_of_in_process_environments(tmp_path):
    arguments = (*POLE, "--num-areas", "3")
    hosted = first_observations(options(tmp_path, *arguments, "--env-workers", "2"), tmp_path)
    assert hosted == first_observations(options(tmp_path, *arguments, "--num-envs", "2"), tmp_path)
    assert len(hosted[0]) == 3


def test_a_run_trains_and_evaluates_in_hosted_environments(tmp_path):
    tests = ("--set", "behaviors.CartPole-v1.test_frequency=200", "--set", "stats_writers=[csv, console]")
    ended = learn(tmp_path, *POLE, "--env-workers", "2", *tests, yaml=YAML)
    assert ended.good
    assert ended.out.count("CartPole-v1. Test at Step") == 2
    logs = ["Player-0.log", "Player-1.log", "Player-2.1.log", "Player-2.log"]
    assert [path.name for path in ended.files("Player-*.log")] == logs, "those of both evaluations"
    (summaries,) = ended.files("*.csv")
    assert "Environment/Worker 1/Cumulative Reward" in summaries.read_text()
    assert ended.files("CartPole-v1.onnx")


def test_a_deterministic_run_is_equal_bit_for_bit(tmp_path):
    brains = []
    for way in ("--env-workers", "--num-envs"):
        folder = tmp_path / way
        folder.mkdir()
        ended = learn(folder, *POLE, way, "2", "--num-areas", "2", "--deterministic", yaml=YAML)
        assert ended.good
        (brain,) = ended.files("CartPole-v1.onnx")
        brains.append(brain.read_bytes())
    assert brains[0] == brains[1]


def test_only_the_worker_that_died_is_restarted(tmp_path):
    long = ("--set", "behaviors.CartPole-v1.max_steps=3000")
    process = start(tmp_path, *POLE, "--env-workers", "2", *long, yaml=YAML)
    assert until(lambda: (tmp_path / "results/r/CartPole-v1").is_dir())
    children = psutil.Process(process.pid).children()
    next(each for each in children if "lanista.envs.hosting" in each.cmdline()).kill()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err
    assert len(re.findall(r"Restarting environment \d", out + err)) == 1
    assert until(lambda: not left_behind(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--env", "scene:ball3d"),
            r"--env-workers: .*found 2, and scene:ball3d, which is a process of its own",
        ),
        ((), r"--env-workers: .*found 2, and no env_path \(--env\)\. Hosted are gymnasium:ID"),
        ((*POLE, "--num-envs", "3"), r"--env-workers: .*found 2, and num_envs 3: .*not both"),
    ],
)
def test_workers_need_an_environment_in_python(tmp_path, arguments, message):
    with pytest.raises(TrainerConfigError, match=message):
        options(tmp_path, *arguments, "--env-workers", "2")


def test_a_cluster_node_hosts_the_environment(tmp_path):
    class Launcher:
        def connect(self, order, on_exit):
            return order

    arguments = (*POLE, "--ray", "auto", "--env-workers", "2", "--env-args", "--max_episode_steps", "9")
    run = options(tmp_path, *arguments)
    check_environment(run)
    order = Cluster.connected(Launcher(), engine_options(run)).connect(lambda: None)
    assert order.path == "hosted:gymnasium:CartPole-v1"
    assert parse([POLE[1], "--mlagents-port", "1", *order.additional_args]).source == HostedSource(
        POLE[1], ("--max_episode_steps", "9")
    )
    with pytest.raises(TrainerConfigError, match=r"stepped in the trainer's own process: have it hosted"):
        check_environment(options(tmp_path, *POLE, "--ray", "auto"))
