"""The environments of a run, as its settings describe them."""

from __future__ import annotations

import faulthandler
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from mlagents_envs.base_env import BaseEnv
from mlagents_envs.exception import UnityEnvironmentException

from ..._tools import provided
from ...envs.engines.engine_errors import EngineErrors
from ...envs.engines.interfaces import EngineSession
from ...envs.engines.options import EngineOptions
from ...envs.engines.ports import FIRST_PORT, LAST_PORT
from ...envs.godot import is_godot
from ...envs.manager.manager import EnvManager
from ...envs.manager.restarts import RestartLimits
from ...envs.opening import open_environment, resolve_registered, terms_for
from ...envs.python import in_process
from ...envs.python.sources import check_source
from ...envs.unity.executables import check_executable
from ...envs.unity.launch import listen, resolve
from ...envs.unity.names import is_unreal
from ...envs.validation import NonFinitePolicy
from ..settings.errors import Problem, TrainerConfigError
from ..settings.models.behavior import TrainerSettings
from ..settings.options import RunOptions
from ..utils import distributed
from ..utils.distributed import seed_of
from ..utils.torchrun import launched_rank
from .engine_options import base_port, engine_options
from .evaluation.environment import EVALUATION_SEED, EvaluationEnvironment
from .scenes import check_scene

logger = logging.getLogger(__name__)


class NodeLauncher(Protocol):
    """Launches engines on other machines."""

    def connected(self, options: EngineOptions) -> EngineOptions:
        """The options of an environment whose engine is launched there."""


def check_environment(options: RunOptions) -> None:
    """Refuse an environment that cannot be launched, before anything is written or loaded for it.

    Raises:
        UnityEnvironmentException: There is no such executable, scene, option of a scene, or module; the
            executable cannot be started; or the port or address cannot be used; or an environment in Python
            does not take the environment parameters.
        PortInUseError: The port is taken.
        TrainerConfigError: Evaluations are configured, and the environment is an editor.
    """
    _refuse_tests_in_the_editor(options)
    env = options.env_settings
    if env.ray is not None:
        _tool_for("ray").check_cluster(options)
        check_scene(options)
        return
    if env.env_path is not None and in_process(env.env_path):
        parameters = options.environment_parameters or {}
        check_source(env.env_path, env.env_args, hosted=bool(env.env_workers), parameters=parameters)
        if env.env_workers:
            _check_ports(options)
        return
    if env.attaches:
        _tool_for("listen").check_attaching(options)
        return
    if is_godot(env.env_path):
        _check_godot(options)
        return
    if not env.editor:
        _check_program(options)
        check_scene(options)
    if is_unreal(env.env_path) and options.environment_parameters:
        logger.warning(
            "UnrealMLAgents 1.0 reads no side channels, so that its games do not see environment_parameters "
            "(%s). A plug-in that was extended may.",
            ", ".join(options.environment_parameters),
        )
    _check_ports(options)


def _tool_for(setting: str) -> Any:
    """The tool that an environment setting needs.

    Raises:
        TrainerConfigError: This installation was made without it.
    """
    tool = provided(setting)
    if tool is None:
        message = "this installation lacks the tool for it: install Lanista whole, or leave this out"
        raise TrainerConfigError([Problem(("env_settings", setting), message)])
    return tool


def _refuse_tests_in_the_editor(options: RunOptions) -> None:
    """Evaluations need another environment, but there is one editor, and engines that connect all train."""
    attaches = options.env_settings.attaches
    if not (attaches or options.env_settings.editor) or options.checkpoint_settings.inference:
        return
    why = "engines that connect by themselves are all trained with" if attaches else "there is one editor"
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


def _check_godot(options: RunOptions) -> None:
    from ...envs.godot import launch

    name = launch.GodotName.parse(str(options.env_settings.env_path))
    if name.path:
        launch.resolve(name)
    _check_ports(options, launch.listen, launch.FIRST_PORT)


def _check_program(options: RunOptions) -> None:
    path = str(resolve_registered(engine_options(options)).path)
    try:
        command = resolve(path)
    except UnityEnvironmentException as error:
        from ...envs.scenes.registry import SCENES

        name = path.strip()
        if name.partition("?")[0] not in SCENES:
            raise
        raise UnityEnvironmentException(f"{error} The scene is named --env scene:{name}.") from error
    check_executable(command[0], terms=terms_for(path))
    if not is_unreal(path) and Path(command[0]).with_name("Engine").joinpath("Binaries").is_dir():
        logger.warning(
            "%s lies beside Unreal's folder Engine. If it is a game of Unreal, name it --env unreal:%s.",
            command[0],
            path,
        )


def _check_ports(
    options: RunOptions, listen: Callable[[EngineOptions], EngineSession] = listen, first: int = FIRST_PORT
) -> None:
    """Listen as launching the environments will, and stop at once."""
    given = engine_options(options)
    number = _number_with_ports(options, given.base_port or first)
    # A search for a free port finds a different one each time.
    for worker_id in range(1 if given.base_port is None else number):
        listen(replace(given, worker_id=worker_id)).close()


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
            f"{', or a lower base_port' if base_port(env) else ''}"
        )
        place = options.place(("env_settings", key))
        raise TrainerConfigError([Problem(("env_settings", key), message, place)])
    return number


def joined_cluster(options: RunOptions) -> AbstractContextManager[NodeLauncher | None]:
    """The cluster of a run, if it has one; joined before anything is written, and left after the run.

    Raises:
        ClusterError: It cannot be joined, or cannot run the engines.
    """
    if options.env_settings.ray is None:
        return nullcontext()
    cluster: AbstractContextManager[NodeLauncher] = _tool_for("ray").joined_cluster(
        options, number_of_environments(options)
    )
    return cluster


def number_of_environments(options: RunOptions) -> int:
    """How many may run at once: those of the training, and one for evaluations."""
    return options.env_settings.environments + tested(options)


def make_env_manager(
    options: RunOptions,
    seed: int,
    log_folder: Path,
    cluster: NodeLauncher | None = None,
    errors: EngineErrors | None = None,
) -> EnvManager:
    """The environments of a run, not yet started; on the nodes of a cluster, if there is one.

    Args:
        options: The run's.
        seed: The first environment's.
        log_folder: Where the engines' logs go.
        cluster: Where the engines are started; None: on this machine.
        errors: Where the errors go that the engines print.
    """
    env = options.env_settings
    if env.attaches:
        spin = _may_spin(options)
        manager: EnvManager = _tool_for("listen").make_attached(options, seed, spin=spin, errors=errors)
        return manager
    limits = RestartLimits(
        env.max_lifetime_restarts, env.restarts_rate_limit_n, env.restarts_rate_limit_period_s
    )
    own = distributed.shard(env.environments)
    if _steps_here(options):
        _name_crashes()

    def make(index: int) -> BaseEnv:
        worker_id = own[index]
        its = replace(
            engine_options(options, errors),
            seed=seed_of(seed, worker_id),
            log_folder=log_folder,
            worker_id=worker_id,
        )
        return open_environment(its if cluster is None else cluster.connected(its))

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


def _name_crashes() -> None:
    """Let a crash in an environment's native code, which ends this process too, print the line it was on."""
    if not faulthandler.is_enabled():
        with suppress(Exception):  # standard error may be missing, or no file, as in a notebook
            faulthandler.enable()


@contextmanager
def launched_early(
    options: RunOptions, folder: Path, cluster: NodeLauncher | None, errors: EngineErrors
) -> Iterator[EnvManager | None]:
    """The environments of a run on their way while torch is loaded, closed in the end; None where they wait.

    Those of this process wait, for they may import torch themselves, and those of several learners, of whom
    each has to know its own first.
    """
    env = options.env_settings
    several = options.torch_settings.learners > 1 or launched_rank() is not None
    if _steps_here(options) or several:
        yield None
        return
    envs = make_env_manager(options, env.seed, folder / "run_logs", cluster, errors)
    try:
        envs.launch()
        yield envs
    except BaseException:
        envs.close(at_once=True)
        raise
    envs.close()


def make_evaluation_environment(
    options: RunOptions,
    log_folder: Path,
    cluster: NodeLauncher | None = None,
    errors: EngineErrors | None = None,
) -> EvaluationEnvironment:
    """The environment of evaluations, with the first worker id after those of the training."""
    env = options.env_settings
    given = replace(
        engine_options(options, errors),
        worker_id=env.environments,
        seed=EVALUATION_SEED,
        log_folder=log_folder,
    )
    # A rendered image shows the first copy; the best episode may be another's.
    one_copy = ("--areas", "1") if in_process(env.env_path) else ()
    drawn = replace(given, drawn=True, num_areas=1, additional_args=(*given.additional_args, *one_copy))
    can_be_drawn = given.is_scene or in_process(env.env_path)

    def make(rendered: bool) -> BaseEnv:
        if rendered and can_be_drawn:
            return open_environment(drawn)
        return open_environment(given if cluster is None else cluster.connected(given))

    return EvaluationEnvironment(make, NonFinitePolicy(env.non_finite))


def tested(options: RunOptions) -> bool:
    """Whether any behavior is evaluated in training, or would be if an environment showed it."""
    settings = [*options.behaviors.values(), options.default_settings or TrainerSettings()]
    return not options.checkpoint_settings.inference and any(one.tested for one in settings)


def _may_spin(options: RunOptions) -> bool:
    """Whether the main thread may wait for engines without falling asleep: no thread learns beside it."""
    return not any(settings.threaded for settings in options.behaviors.values())
