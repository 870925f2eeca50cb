"""A run's environments, as its settings describe them."""

import sys
from pathlib import Path

import numpy as np
import pytest
from lanista.envs.errors import EnvContractError
from lanista.envs.manager.manager import RESTARTABLE
from lanista.trainers.learn import EXPECTED
from lanista.trainers.runner.environments import check_environment, make_env_manager
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from mlagents_envs.exception import UnityEnvironmentException

pytest.importorskip("mpe2")

SPREAD = "pettingzoo:mpe2.simple_spread_v3"
ON_SCENE = ["--env", "scene:basic", "--num-envs"]


def options(tmp_path, *arguments):
    config = tmp_path / "config.yaml"
    config.write_text("behaviors: {agent: {trainer_type: ppo}}")
    return parse_command_line([str(config), *arguments])


def first_observations(run, seed):
    with make_env_manager(run, seed, Path("unused")) as manager:
        manager.start()
        return [step.steps["agent?team=0"][0].obs[0] for step in manager.reset()]


def test_a_pettingzoo_environment_is_made_with_its_arguments_seeds_and_areas(tmp_path):
    arguments = ["--num-envs", "2", "--num-areas", "3", "--env", SPREAD, "--env-args", "--N", "4"]
    run = options(tmp_path, *arguments)
    check_environment(run)
    first, second = first_observations(run, 7)
    assert first.shape == second.shape == (12, 24)
    assert not np.array_equal(first, second)
    again = first_observations(run, 7)
    np.testing.assert_array_equal(first, again[0])
    # Environment k of a run has the seed of the run plus k.
    np.testing.assert_array_equal(second[:4], first_observations(run, 8)[0][:4])


@pytest.mark.parametrize("workers", [(), ("--env-workers", "1")])
def test_environment_parameters_that_the_environment_does_not_take_are_refused_early(tmp_path, workers):
    config = tmp_path / "config.yaml"
    config.write_text("behaviors: {agent: {trainer_type: ppo}}\nenvironment_parameters: {mass: 3.0}")
    refused = parse_command_line([str(config), "--env", "pettingzoo:corridors:Parallel", *workers])
    with pytest.raises(EnvContractError, match=r"no environment parameter mass\. It declares length, slope"):
        check_environment(refused)
    check_environment(parse_command_line([str(config), "--env", SPREAD]))  # its reset has options


def test_a_missing_module_is_refused_early(tmp_path):
    with pytest.raises(UnityEnvironmentException, match="no module 'simple_spreads_v3'"):
        check_environment(options(tmp_path, "--env", "pettingzoo:mpe2.simple_spreads_v3"))


def test_an_environment_that_violates_its_interface_is_explained_and_not_restarted():
    assert issubclass(EnvContractError, EXPECTED)
    assert not issubclass(EnvContractError, RESTARTABLE)


def test_a_recorded_configuration_runs_while_its_ports_are_taken(tmp_path):
    """`configuration.yaml` always names base_port; 5005 is the default."""
    config = tmp_path / "configuration.yaml"
    config.write_text("behaviors: {Basic: {trainer_type: ppo}}\nenv_settings: {base_port: 5005}")
    run = parse_command_line([str(config), "--env", "scene:basic"])
    with make_env_manager(run, 1, tmp_path / "first") as first, make_env_manager(run, 1, tmp_path) as second:
        for manager in (first, second):
            manager.start()
            assert manager.reset()


@pytest.mark.parametrize(
    ("behaviors", "observed"),
    [
        ("{agent: {trainer_type: coma}}", 2),
        ("{agent: {trainer_type: poca}}", 1),
        ("{agent: {trainer_type: coma}, other: {trainer_type: ppo}}", 1),
        ("{agent: {trainer_type: coma, hyperparameters: {state_observation: observation}}}", 1),
    ],
)
def test_the_global_state_is_offered_only_if_just_critics_read_it(tmp_path, behaviors, observed):
    config = tmp_path / "config.yaml"
    config.write_text(f"behaviors: {behaviors}")
    run = parse_command_line([str(config), "--env", SPREAD])
    with make_env_manager(run, 7, Path("unused")) as manager:
        manager.start()
        (step,) = manager.reset()
        assert len(step.steps["agent?team=0"][0].obs) == observed


def test_a_scene_without_its_prefix_is_recognized(tmp_path):
    with pytest.raises(UnityEnvironmentException, match=r"named --env scene:ball3d\?areas=3\."):
        check_environment(options(tmp_path, "--env", "ball3d?areas=3"))


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"listen": "10.0.0.1:5004"}, "listen has a port"),
        ({"env_path": "Game", "ray": "auto"}, "ray is given"),
        ({"env_path": "gymnasium:CartPole-v1"}, "stepped in this process"),
    ],
)
def test_grpcio_is_refused_if_it_cannot_serve(env, reason):
    with pytest.raises(TrainerConfigError, match=rf"env_settings\.transport: found grpcio.*{reason}"):
        RunOptions.from_dict({"env_settings": {**env, "transport": "grpcio"}})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([*ON_SCENE, "100000"], r"num_envs: found 100000; .* at most 60531$"),
        (
            [*ON_SCENE, "100", "--base-port", "65500"],
            r"num_envs: found 100; .*65500 \+ k.* at most 36, or a lower base_port",
        ),
        (["--env", SPREAD, "--env-workers", "70000"], r"--env-workers: .*env_workers: found 70000; "),
        (["--env", f"godot:{sys.executable}", "--num-envs", "60000"], r"num_envs: .*11009 \+ k.* most 54527"),
        (
            [*ON_SCENE, "2", "--base-port", "65534", "--set", "behaviors.agent.test_frequency=10"],
            r"num_envs: found 2; .* at most 1,",
        ),
    ],
)
def test_more_environments_than_there_are_ports_are_refused_early(tmp_path, arguments, says):
    with pytest.raises(TrainerConfigError, match=says):
        check_environment(options(tmp_path, *arguments))


WANDERING = """
import os
import gymnasium

def make():
    os.chdir("assets")
    return gymnasium.make("CartPole-v1")
"""


def test_an_environment_that_changes_the_working_directory_needs_a_process_of_its_own(tmp_path, monkeypatch):
    """The run's files would be written elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "assets").mkdir()
    (tmp_path / "wandering.py").write_text(WANDERING)
    here = options(tmp_path, "--env", "python:wandering:make")
    with pytest.raises(UnityEnvironmentException, match=r"has changed the working directory from .*assets"):
        check_environment(here)
    with (
        make_env_manager(here, 1, tmp_path) as manager,
        pytest.raises(UnityEnvironmentException, match="assets"),
    ):
        manager.start()
    check_environment(options(tmp_path, "--env", "python:wandering:make", "--env-workers", "1"))
    assert Path.cwd() == tmp_path
