"""The Ray cluster of a run, as its settings describe it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ...envs.godot import is_godot
from ...envs.hosting.source import hosted
from ...envs.python import in_process
from ...envs.ray.nodes import ClusterSettings
from ..runner.engine_options import engine_options
from ..settings.errors import Problem, TrainerConfigError
from ..settings.options import RunOptions

if TYPE_CHECKING:
    from ...envs.ray.cluster import Cluster


def check_cluster(options: RunOptions) -> None:
    """Refuse what a cluster cannot do, before anything is written.

    Raises:
        TrainerConfigError: The environment is stepped in the trainer's process.
        UnityEnvironmentException: A Godot game's name cannot be read.
    """
    env = options.env_settings
    if is_godot(env.env_path):
        from ...envs.godot.launch import GodotName

        GodotName.parse(str(env.env_path))
    if in_process(env.env_path) and not env.env_workers:
        message = (
            f"found {env.ray}; the nodes of a cluster start engines, and {env.env_path} is stepped in the "
            "trainer's own process: have it hosted (env_workers, --env-workers 2), give an executable or a "
            "scene, or leave this out"
        )
        raise TrainerConfigError([Problem(("env_settings", "ray"), message)])


@contextmanager
def joined_cluster(options: RunOptions, number: int) -> Iterator[Cluster]:
    """The cluster of a run; joined before anything is written, and left after the run.

    Args:
        options: of the run.
        number: of environments.

    Raises:
        ClusterError: it cannot be joined, or cannot run the engines.
    """
    from ...envs.ray.cluster import Cluster

    env = options.env_settings
    settings = ClusterSettings(str(env.ray), env.ray_cpus, env.ray_listen, env.ray_wait)
    example = engine_options(options)
    with closing(Cluster(settings, hosted(example) if example.hosted else example, number)) as cluster:
        yield cluster
