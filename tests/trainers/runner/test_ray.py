"""The settings of a Ray cluster: which exclude each other, and where they are used."""

from pathlib import Path

import pytest
from console_runs import learn
from lanista.envs.ray.cluster import Cluster
from lanista.trainers.runner import environments
from lanista.trainers.runner.environments import check_environment, make_env_manager, number_of_environments
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.utils.distributed import seed_of
from mlagents_envs.exception import UnityEnvironmentException
from scripted_engine import free_port


def options(**env):
    return RunOptions.from_dict({"env_settings": env})


@pytest.mark.parametrize(
    ("env", "place", "reason"),
    [
        ({"ray": "auto"}, "env_settings.ray", "no env_path (--env) says which"),
        (
            {"ray": "auto", "env_path": "Game", "listen": "10.0.0.1"},
            "env_settings.listen",
            "ray_listen (--ray-listen) names",
        ),
        ({"ray": "auto", "env_path": "godot:"}, "env_settings.ray", "no env_path (--env) says which"),
        ({"ray": "auto", "listen": "10.0.0.1:5004"}, "env_settings.ray", "no env_path"),
        (
            {"ray": "auto", "env_path": "Game", "allow": ["10.0.0.0/8"]},
            "env_settings.allow",
            "127.0.0.1 alone",
        ),
        ({"env_path": "Game", "ray_cpus": 2}, "env_settings.ray_cpus", "no `ray` (--ray)"),
        ({"env_path": "Game", "ray_listen": "10.0.0.1"}, "env_settings.ray_listen", "no `ray` (--ray)"),
        ({"ray": "auto", "env_path": "Game", "ray_cpus": 0}, "env_settings.ray_cpus", "above 0"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(env, place, reason):
    with pytest.raises(TrainerConfigError) as caught:
        options(**env)
    assert place in str(caught.value) and reason in str(caught.value)


def test_an_in_process_environment_runs_on_no_node():
    with pytest.raises(TrainerConfigError, match="is stepped in the trainer's own process"):
        check_environment(options(ray="auto", env_path="gymnasium:CartPole-v1"))


def test_what_a_godot_games_name_says_is_read_before_the_cluster_is_joined():
    check_environment(options(ray="auto", env_path="godot:/builds/Game.x86_64?speedup=2"))
    with pytest.raises(UnityEnvironmentException, match="speedup is 0"):
        check_environment(options(ray="auto", env_path="godot:/builds/Game.x86_64?speedup=0"))


def test_an_executable_need_not_be_on_this_machine():
    check_environment(options(ray="auto", env_path="/builds/Game.x86_64"))


def test_evaluations_have_an_environment_of_their_own():
    assert number_of_environments(options(env_path="Game", num_envs=3)) == 3
    tested = {"test_frequency": 1000}
    made = RunOptions.from_dict(
        {"env_settings": {"env_path": "Game", "num_envs": 3}, "default_settings": tested}
    )
    assert number_of_environments(made) == 4


@pytest.mark.parametrize("game", ["Game", "godot:Game?scene=res://a.tscn"])
def test_a_node_receives_the_launch_arguments(monkeypatch, game):
    heard = {}

    class Launcher:
        connected = Cluster.connected

        def connect(self, order, on_exit):
            heard.update(order=order)

    class Manager:
        def __init__(self, make_env, *others, **settings):
            make_env(2)

    monkeypatch.setattr(environments, "open_environment", lambda options: options.connect(print))
    monkeypatch.setattr(environments, "EnvManager", Manager)
    env = {"ray": "auto", "num_envs": 3, "env_path": game, "env_args": ["--level", "2"], "timeout_wait": 17}
    env["allow"] = ["127.0.0.1"]
    engine = {"no_graphics": True, "time_scale": 1}
    made = RunOptions.from_dict({"env_settings": env, "engine_settings": engine})
    make_env_manager(made, 5, Path("logs"), Launcher())
    order = heard["order"]
    assert (order.name, order.path, order.worker_id) == ("environment 2", game, 2)
    assert (order.timeout_wait, order.windowless, order.log_folder) == (17.0, True, Path("logs"))
    assert order.additional_args == ("--level", "2")
    assert (order.seed, order.real_time) == (seed_of(5, 2), True)
    assert order.allow == ("127.0.0.1",)


def test_an_unreachable_head_is_reported_before_anything_is_written(tmp_path):
    pytest.importorskip("ray")
    address = f"127.0.0.1:{free_port()}"
    error = learn(tmp_path, "--env", "scene:basic", "--ray", address).error
    assert error.startswith(f"No Ray head answers at {address} (--ray): ") and error.count("\n") == 1
    assert not (tmp_path / "results").exists()
