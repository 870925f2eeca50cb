"""The Ray cluster of a run, as its settings describe it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...envs.engines.environment import Connect
from ...envs.godot import is_godot
from ...envs.python import in_process
from ...envs.ray.spec import ClusterSettings, EngineSpec
from ...envs.unity.launch import HOSTED
from ..settings.errors import Problem, TrainerConfigError
from ..settings.options import RunOptions
from .python_environments import hosted_source

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
def joined_cluster(options: RunOptions, number: int) -> Iterator[Cluster | None]:
    """The cluster of a run, if it has one; joined before anything is written, and left after the run.

    Args:
        options: of the run.
        number: of environments.

    Raises:
        ClusterError: it cannot be joined, or cannot run the engines.
    """
    env = options.env_settings
    if env.ray is None:
        yield None
        return
    from ...envs.ray.cluster import Cluster

    settings = ClusterSettings(env.ray, env.ray_cpus, env.ray_listen, env.ray_wait)
    with closing(Cluster(settings, _engine_spec(options, 0, None), number)) as cluster:
        yield cluster


def connect_by(
    cluster: Cluster, options: RunOptions, worker_id: int, log_folder: Path, name: str, seed: int
) -> Connect:
    """The `connect` of an environment whose engine runs on a node of the cluster."""
    return lambda on_exit: cluster.connect(_engine_spec(options, worker_id, log_folder, seed), name, on_exit)


def _engine_spec(options: RunOptions, worker_id: int, log_folder: Path | None, seed: int = 0) -> EngineSpec:
    env, engine = options.env_settings, options.engine_settings
    name, arguments = str(env.env_path), list(env.env_args or ())
    if env.env_workers:
        source = hosted_source(options)
        name, arguments = HOSTED + source.path, source.options()
    return EngineSpec(
        file_name=name,
        worker_id=worker_id,
        timeout=float(env.timeout_wait),
        windowless=engine.no_graphics or (engine.no_graphics_monitor and worker_id != 0),
        additional_args=tuple(arguments),
        log_folder=log_folder,
        seed=seed,
        real_time=engine.time_scale == 1,
    )
