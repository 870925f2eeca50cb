"""The environments of a run, as its settings describe them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from ...envs.engines.environment import Connect
from ...envs.engines.ports import FIRST_PORT, LAST_PORT
from ...envs.godot import is_godot
from ...envs.manager.manager import EnvManager
from ...envs.manager.restarts import RestartLimits
from ...envs.python import in_process
from ...envs.python.sources import check_source
from ...envs.registry.registry import resolve_registered
from ...envs.remote.handshake import AttachedEngine
from ...envs.remote.source import AttachSource
from ...envs.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannel,
    StatsSideChannel,
)
from ...envs.unity.environment import UnityEnvironment
from ...envs.unity.executables import check_executable
from ...envs.unity.launch import SCENE, listen, resolve
from ...envs.unreal import is_unreal
from ...envs.validation import NonFinitePolicy
from ..settings.errors import Problem, TrainerConfigError
from ..settings.models.behavior import TrainerSettings
from ..settings.models.run import EnvironmentSettings
from ..settings.options import RunOptions
from ..utils import distributed
from ..utils.distributed import seed_of
from .attach import NewBehaviors, check_attaching, make_attach_server
from .evaluation.environment import EVALUATION_SEED, EvaluationEnvironment
from .python_environments import make_hosted, make_stepped
from .ray import check_cluster, connect_by
from .scenes import check_scene

if TYPE_CHECKING:
    from ...envs.ray.cluster import Cluster

logger = logging.getLogger(__name__)


def check_environment(options: RunOptions) -> None:
    """Refuse an environment that cannot be launched, before anything is written or loaded for it.

    Raises:
        UnityEnvironmentException: There is no such executable, scene, option of a scene, or module; the
            executable cannot be started; or the port or address cannot be used.
        PortInUseError: The port is taken.
        TrainerConfigError: There are environment parameters, and the environment takes none; or evaluations
            are configured, and the environment is the Editor.
    """
    _refuse_tests_in_the_editor(options)
    env = options.env_settings
    if env.ray is not None:
        check_cluster(options)
        check_scene(options)
        if in_process(env.env_path):
            _refuse_parameters(options)
        return
    if env.env_path is not None and in_process(env.env_path):
        check_source(env.env_path, env.env_args)
        _refuse_parameters(options)
        if env.env_workers:
            _check_ports(options)
        return
    if env.attaches:
        check_attaching(options)
        return
    if is_godot(env.env_path):
        _check_godot(options)
        return
    if not env.editor:
        _check_program(env)
        check_scene(options)
    if is_unreal(env.env_path) and options.environment_parameters:
        logger.warning(
            "UnrealMLAgents 1.0 reads no side channels, so that its games do not see environment_parameters "
            "(%s). A plug-in that was extended may.",
            ", ".join(options.environment_parameters),
        )
    _check_ports(options)


def _refuse_tests_in_the_editor(options: RunOptions) -> None:
    """Evaluations need another environment, but there is one Editor, and engines that connect all train."""
    attaches = options.env_settings.attaches
    if not (attaches or options.env_settings.editor) or options.checkpoint_settings.inference:
        return
    why = "engines that connect by themselves are all trained with" if attaches else "there is one Editor"
    settings: dict[tuple[str, ...], TrainerSettings] = {
        ("behaviors", name): one for name, one in options.behaviors.items()
    }
    if options.default_settings is not None:
        settings["default_settings",] = options.default_settings
    problems = [
        Problem(
            (*place, "test_frequency"),
            f"found {one.test_frequency}; tests take place in an environment of their own, and {why}: name "
            "an executable or a scene with --env, or remove this key",
        )
        for place, one in settings.items()
        if one.tested
    ]
    if problems:
        raise TrainerConfigError(problems)


def _refuse_parameters(options: RunOptions) -> None:
    if options.environment_parameters:
        names = ", ".join(options.environment_parameters)
        message = (
            f"found {names}; {options.env_settings.env_path} takes no parameters during a run: remove this "
            "section, and give the environment's own arguments after --env-args"
        )
        raise TrainerConfigError([Problem(("environment_parameters",), message)])


def _check_godot(options: RunOptions) -> None:
    from ...envs.godot.launch import FIRST_PORT, GodotName, listen, resolve

    env = options.env_settings
    name = GodotName.parse(str(env.env_path))
    if name.path:
        resolve(name)
    port = _base_port(env)
    number = _number_with_ports(options, port or FIRST_PORT)
    for worker_id in range(1 if env.editor else 0 if port is None else number):
        listen(worker_id, port, env.listen, editor=env.editor).close()


def _check_program(env: EnvironmentSettings) -> None:
    name = str(env.env_path).strip()
    file_name, _ = resolve_registered(name, env.env_args)
    try:
        command = resolve(file_name)
    except UnityEnvironmentException as error:
        from ...envs.scenes.registry import SCENES

        if name.partition("?")[0] not in SCENES:
            raise
        raise UnityEnvironmentException(f"{error} The scene is named --env scene:{name}.") from error
    check_executable(command[0])
    if not is_unreal(file_name) and Path(command[0]).with_name("Engine").joinpath("Binaries").is_dir():
        logger.warning(
            "%s lies beside Unreal's folder Engine. If it is a game of Unreal, name it --env unreal:%s.",
            *(command[0], file_name),
        )


def _check_ports(options: RunOptions) -> None:
    """Listen as launching the environments will, and stop at once."""
    env = options.env_settings
    port = _base_port(env)
    number = _number_with_ports(options, port or FIRST_PORT)
    # A search for a free port finds a different one each time.
    for worker_id in range(1 if port is None else number):
        listen(worker_id, port, env.listen, file_name=env.env_path).close()


def _number_with_ports(options: RunOptions, first: int) -> int:
    """How many environments may run at once, if there are as many ports from `first` on.

    Raises:
        TrainerConfigError: There are not.
    """
    env, number = options.env_settings, number_of_environments(options)
    most = LAST_PORT + 1 - first
    if number > most:
        key = "env_workers" if env.env_workers else "num_envs"
        message = (
            f"found {env.environments}; environment k calls on the port {first} + k, and ports end at "
            f"{LAST_PORT}: give at most {most - tested(options)}"
            f"{', or a lower base_port' if _base_port(env) else ''}"
        )
        place = options.place(("env_settings", key))
        raise TrainerConfigError([Problem(("env_settings", key), message, place)])
    return number


def _base_port(env: EnvironmentSettings) -> int | None:
    """The port of the first environment, if the user has chosen it; the Editor has its own.

    Every recorded configuration names the default, which is not a choice: then any free port will do.
    """
    return env.base_port if env.env_path is not None and env.base_port != FIRST_PORT else None


def number_of_environments(options: RunOptions) -> int:
    """How many may run at once: those of the training, and one for evaluations."""
    return options.env_settings.environments + tested(options)


def make_env_manager(
    options: RunOptions, seed: int, log_folder: Path, cluster: Cluster | None = None
) -> EnvManager:
    """The environments of a run, not yet started; on the nodes of a cluster, if there is one."""
    env = options.env_settings
    if env.attaches:
        return _make_attached(options, seed)
    limits = RestartLimits(
        env.max_lifetime_restarts, env.restarts_rate_limit_n, env.restarts_rate_limit_period_s
    )
    own = distributed.share(env.environments)

    def make(index: int) -> BaseEnv:
        worker_id = own[index]
        return make_environment(options, seed_of(seed, worker_id), log_folder, worker_id, cluster)

    return EnvManager(
        make,
        len(own),
        limits,
        ordered=options.repeatable,
        non_finite=NonFinitePolicy(env.non_finite),
        spin=_may_spin(options),
        editor=env.editor,
        in_threads=not _steps_here(options),
    )


def _steps_here(options: RunOptions) -> bool:
    """Whether this process steps the environments."""
    env = options.env_settings
    return env.env_path is not None and in_process(env.env_path) and not env.env_workers


@contextmanager
def launched_early(options: RunOptions, folder: Path, cluster: Cluster | None) -> Iterator[EnvManager | None]:
    """The environments of a run on their way while torch is loaded, closed in the end; None where they wait.

    Those of this process wait, for they may import torch themselves, and those of several learners, of whom
    each has to know its own first.
    """
    env = options.env_settings
    several = options.torch_settings.learners > 1 or distributed.launched_ranks() is not None
    if _steps_here(options) or several:
        yield None
        return
    envs = make_env_manager(options, env.seed, folder / "run_logs", cluster)
    try:
        envs.launch()
        yield envs
    except BaseException:
        envs.close(at_once=True)
        raise
    envs.close()


def _make_attached(options: RunOptions, seed: int) -> EnvManager:
    """Engines that run already and connect by themselves."""
    env = options.env_settings

    def make(index: int, engine: AttachedEngine) -> BaseEnv:
        name = f"environment {index} ({engine.where})"
        return UnityEnvironment(
            engine.file_name,
            seed=seed_of(seed, index),
            timeout_wait=env.timeout_wait,
            side_channels=_side_channels(options),
            num_areas=env.num_areas,
            non_finite=None,
            engine_name=name,
            images="uint8",
            connect=lambda _: engine.connection(name, float(env.timeout_wait)),
        )

    return EnvManager(
        None,
        env.num_envs,
        source=AttachSource(partial(make_attach_server, env), make, NewBehaviors(options).refusal),
        non_finite=NonFinitePolicy(env.non_finite),
        spin=_may_spin(options),
    )


def make_evaluation_environment(
    options: RunOptions, log_folder: Path, cluster: Cluster | None = None
) -> EvaluationEnvironment:
    """The environment of evaluations, with the first worker id after those of the training."""
    worker_id = options.env_settings.environments

    def make(drawn: bool) -> BaseEnv:
        path = options.env_settings.env_path or ""
        if drawn and path.startswith(SCENE):
            from ...envs.scenes.in_process import make_in_process

            return make_in_process(path, EVALUATION_SEED, options.env_settings.env_args)
        return make_environment(options, EVALUATION_SEED, log_folder, worker_id, cluster, drawn=drawn)

    return EvaluationEnvironment(make, NonFinitePolicy(options.env_settings.non_finite))


def tested(options: RunOptions) -> bool:
    """Whether any behavior is evaluated in training, or would be if an environment showed it."""
    settings = [*options.behaviors.values(), options.default_settings or TrainerSettings()]
    return not options.checkpoint_settings.inference and any(one.tested for one in settings)


def make_environment(
    options: RunOptions,
    seed: int,
    log_folder: Path,
    worker_id: int,
    cluster: Cluster | None = None,
    *,
    drawn: bool = False,
) -> BaseEnv:
    """One environment of a run, started.

    Args:
        options: The run's.
        seed: The environment's own.
        log_folder: Where its engine's log goes.
        worker_id: Its index.
        cluster: Where it is started; None: on this machine.
        drawn: It must be able to draw itself.

    Raises:
        UnityException: It cannot be started, or did not answer in time.
    """
    env, engine = options.env_settings, options.engine_settings
    name = f"environment {worker_id}"
    connect = None if cluster is None else connect_by(cluster, options, worker_id, log_folder, name, seed)
    if env.env_workers and not drawn:
        return make_hosted(options, seed, log_folder, worker_id, _base_port(env), connect)
    if env.env_path is not None and in_process(env.env_path):
        return make_stepped(options, env.env_path, seed, drawn=drawn)
    if is_godot(env.env_path):
        return _make_godot(options, seed, log_folder, worker_id, name, connect)
    file_name, arguments = env.env_path, env.env_args
    if file_name is not None and connect is None:
        file_name, arguments = resolve_registered(file_name, arguments)
    return UnityEnvironment(
        file_name,
        worker_id,
        _base_port(env),
        seed=seed,
        no_graphics=engine.no_graphics,
        no_graphics_monitor=engine.no_graphics_monitor,
        timeout_wait=env.timeout_wait,
        additional_args=arguments,
        side_channels=_side_channels(options),
        log_folder=log_folder,
        num_areas=env.num_areas,
        listen=env.listen,
        allow=env.allow or (),
        non_finite=None,
        engine_name=name,
        images="uint8",
        connect=connect,
        transport=env.transport,
    )


def _make_godot(
    options: RunOptions, seed: int, log_folder: Path, worker_id: int, name: str, connect: Connect | None
) -> BaseEnv:
    from ...envs.godot.environment import GodotEnvironment

    env, engine = options.env_settings, options.engine_settings
    return GodotEnvironment(
        str(env.env_path),
        worker_id,
        _base_port(env),
        seed,
        engine.no_graphics or (engine.no_graphics_monitor and worker_id != 0),
        real_time=engine.time_scale == 1,
        timeout_wait=env.timeout_wait,
        additional_args=env.env_args,
        log_folder=log_folder,
        listen=env.listen,
        allow=env.allow or (),
        non_finite=None,
        engine_name=name,
        images="uint8",
        connect=connect,
    )


def _side_channels(options: RunOptions) -> list[SideChannel]:
    """What is exchanged with an engine in addition to actions and observations."""
    engine = options.engine_settings
    configuration = EngineConfigurationChannel()
    configuration.set_configuration_parameters(
        width=engine.width,
        height=engine.height,
        quality_level=engine.quality_level,
        time_scale=engine.time_scale,
        target_frame_rate=engine.target_frame_rate,
        capture_frame_rate=engine.capture_frame_rate,
    )
    return [EnvironmentParametersChannel(), configuration, StatsSideChannel()]


def _may_spin(options: RunOptions) -> bool:
    return not any(settings.threaded for settings in options.behaviors.values())
