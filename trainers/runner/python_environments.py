"""A run's environments in Python: stepped in its own process, or hosted in others."""

from __future__ import annotations

from pathlib import Path

from mlagents_envs.base_env import BaseEnv

from ...envs.engines.environment import Connect
from ...envs.hosting.environment import HostedEnvironment
from ...envs.hosting.source import HostedSource
from ...envs.python.sources import make_source
from ..settings.models.algorithms import reads_offered_state
from ..settings.options import RunOptions


def takes_state(options: RunOptions) -> bool:
    """Whether in all behaviors only the critics would read the global state, if there is one.

    Otherwise some agents would act on it, and could not where it is unavailable.
    """
    settings = list(options.behaviors.values())
    if options.default_settings is not None:
        settings.append(options.default_settings)
    return bool(settings) and all(reads_offered_state(each.hyperparameters) for each in settings)


def make_stepped(options: RunOptions, path: str, seed: int, *, drawn: bool) -> BaseEnv:
    """An environment that is stepped in this process. Raises as `make_source`."""
    env = options.env_settings
    # A rendered image shows the first copy; the best episode may be another's.
    arguments = [*(env.env_args or ()), "--areas", "1"] if drawn else env.env_args
    return make_source(
        *(path, seed, arguments, 1 if drawn else env.num_areas),
        with_state=takes_state(options),
        self_play=uses_self_play(options),
        images="uint8",
        drawn=drawn,
    )


def make_hosted(
    options: RunOptions,
    seed: int,
    log_folder: Path,
    worker_id: int,
    base_port: int | None,
    connect: Connect | None = None,
) -> BaseEnv:
    """An environment in its own process, launched here unless `connect` does that. Raises as `make_env`."""
    env = options.env_settings
    return HostedEnvironment(
        hosted_source(options),
        worker_id,
        base_port,
        seed=seed,
        timeout_wait=env.timeout_wait,
        log_folder=log_folder,
        num_areas=env.num_areas,
        listen=env.listen,
        allow=env.allow or (),
        images="uint8",
        connect=connect,
        transport=env.transport,
    )


def hosted_source(options: RunOptions) -> HostedSource:
    """The arguments of its process."""
    env = options.env_settings
    return HostedSource(
        str(env.env_path).strip(),
        tuple(env.env_args or ()),
        with_state=takes_state(options),
        self_play=uses_self_play(options),
    )


def uses_self_play(options: RunOptions) -> bool:
    """Whether any behavior uses self-play, or would if an environment showed it."""
    settings = [*options.behaviors.values(), options.default_settings]
    return any(one is not None and one.self_play is not None for one in settings)
