"""How the environments of a run are opened, as its settings describe them."""

from __future__ import annotations

from ...envs.engines.engine_errors import EngineErrors
from ...envs.engines.options import EngineOptions
from ...envs.engines.ports import FIRST_PORT
from ...envs.engines.terms import UNKNOWN, Terms
from ...envs.opening import terms_for
from ...envs.side_channels import EngineConfig
from ..settings.models.algorithms import reads_offered_state
from ..settings.models.run import EngineSettings, EnvironmentSettings
from ..settings.options import RunOptions


def engine_options(options: RunOptions, errors: EngineErrors | None = None) -> EngineOptions:
    """What the environments of a run have in common; seed, worker ID and log folder are each one's own.

    Args:
        options: Of the run.
        errors: Where the errors go that its engines print; None: each environment has a place of its own.
    """
    env, engine = options.env_settings, options.engine_settings
    return EngineOptions.of(
        path=env.env_path,
        additional_args=env.env_args,
        base_port=base_port(env),
        seed=env.seed,
        num_areas=env.num_areas,
        timeout_wait=env.timeout_wait,
        no_graphics=engine.no_graphics,
        no_graphics_monitor=engine.no_graphics_monitor,
        configuration=configuration(engine),
        listen=env.listen,
        allow=env.allow,
        transport=env.transport,
        non_finite=None,  # EnvManager checks the numbers of all environments
        images="uint8",
        hosted=bool(env.env_workers),
        with_state=takes_state(options),
        self_play=uses_self_play(options),
        errors=errors,
    )


def terms_of_run(options: RunOptions) -> Terms:
    """The words for the environments of a run, before these are open."""
    env = options.env_settings
    return UNKNOWN if env.attaches else terms_for(env.env_path)


def base_port(env: EnvironmentSettings) -> int | None:
    """The port of the first environment, if the user has chosen it; the Editor has its own.

    Every recorded configuration names the default, which is not a choice: then any free port will do.
    """
    return env.base_port if env.env_path is not None and env.base_port != FIRST_PORT else None


def configuration(engine: EngineSettings) -> EngineConfig:
    """What an engine is told of its screen, quality and clocks."""
    return EngineConfig(**{key: getattr(engine, key) for key in EngineConfig._fields})


def takes_state(options: RunOptions) -> bool:
    """Whether in all behaviors only the critics would read the global state, if there is one.

    Otherwise some agents would act on it, and could not where it is unavailable.
    """
    settings = list(options.behaviors.values())
    if options.default_settings is not None:
        settings.append(options.default_settings)
    return bool(settings) and all(reads_offered_state(each.hyperparameters) for each in settings)


def uses_self_play(options: RunOptions) -> bool:
    """Whether any behavior uses self-play, or would if an environment showed it."""
    settings = [*options.behaviors.values(), options.default_settings]
    return any(one is not None and one.self_play is not None for one in settings)
