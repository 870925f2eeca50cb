"""The environments of a run, as its settings describe them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mlagents_envs.base_env import BaseEnv

from ..envs.finite import NonFinite
from ..envs.launch import check_executable, resolve
from ..envs.manager import EnvManager
from ..envs.ports import FIRST_PORT
from ..envs.restarts import RestartLimits
from ..envs.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    StatsSideChannel,
)
from ..envs.sources import check_source, in_process, make_source
from ..envs.unity import UnityEnvironment
from .coma.settings import reads_offered_state
from .settings.errors import Problem, TrainerConfigError
from .settings.options import RunOptions


def check_environment(options: RunOptions) -> None:
    """Refuse an environment that cannot be launched, before anything is written or loaded for it.

    Raises:
        UnityEnvironmentException: The executable is missing or may not be executed; no such module.
        TrainerConfigError: There are environment parameters, and the environment takes none.
    """
    path = options.env_settings.env_path
    if path is not None and in_process(path):
        check_source(path)
        if options.environment_parameters:
            names = ", ".join(options.environment_parameters)
            message = (
                f"found {names}; {path} takes no parameters during a run: remove this section, and give the "
                "environment's own arguments after --env-args"
            )
            raise TrainerConfigError([Problem("environment_parameters", message)])
    elif path is not None:
        check_executable(resolve(path)[0])


def make_env_manager(options: RunOptions, seed: int, log_folder: Path) -> EnvManager:
    """The environments of a run, not yet started."""
    env = options.env_settings
    limits = RestartLimits(
        env.max_lifetime_restarts, env.restarts_rate_limit_n, env.restarts_rate_limit_period_s
    )
    return EnvManager(
        partial(_make_env, options, seed, log_folder),
        env.num_envs,
        limits,
        ordered=options.repeatable,
        non_finite=NonFinite(env.non_finite),
        awake=not any(settings.threaded for settings in options.behaviors.values()),
        editor=env.env_path is None,
    )


def takes_state(options: RunOptions) -> bool:
    """Whether all behaviours would have the global state read by their critics alone, if there is one.

    Otherwise the agents of some would act by it, and could not where it is not to be had.
    """
    settings = list(options.behaviors.values())
    if options.default_settings is not None:
        settings.append(options.default_settings)
    return bool(settings) and all(reads_offered_state(each.hyperparameters) for each in settings)


def _make_env(options: RunOptions, seed: int, log_folder: Path, worker_id: int) -> BaseEnv:
    env, engine = options.env_settings, options.engine_settings
    if env.env_path is not None and in_process(env.env_path):
        return make_source(
            *(env.env_path, seed + worker_id, env.env_args, env.num_areas), with_state=takes_state(options)
        )
    configuration = EngineConfigurationChannel()
    configuration.set_configuration_parameters(
        width=engine.width,
        height=engine.height,
        quality_level=engine.quality_level,
        time_scale=engine.time_scale,
        target_frame_rate=engine.target_frame_rate,
        capture_frame_rate=engine.capture_frame_rate,
    )
    # Every recorded configuration names the default, which nobody chose: then any free port will do.
    explicit_port = env.env_path is not None and env.base_port != FIRST_PORT
    return UnityEnvironment(
        env.env_path,
        worker_id,
        env.base_port if explicit_port else None,
        seed=seed + worker_id,
        no_graphics=engine.no_graphics,
        no_graphics_monitor=engine.no_graphics_monitor,
        timeout_wait=env.timeout_wait,
        additional_args=env.env_args,
        side_channels=[EnvironmentParametersChannel(), configuration, StatsSideChannel()],
        log_folder=log_folder,
        num_areas=env.num_areas,
        listen=env.listen,
        non_finite=None,
    )
