"""Training from Python: `lanista.train`."""

from __future__ import annotations

import importlib
import itertools
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from mlagents_envs.base_env import BaseEnv

from ..envs.utils.bounded_yaml import load_json
from ..envs.utils.regular_files import read_text
from .callbacks.base import Callback
from .learn import run_training
from .runner.banner import PASSED_ENV
from .settings.command_line import assign, settle_start, split_path, warn_if_unlisted
from .settings.options import RunOptions
from .settings.yaml_source import Source, preset_names, read_file, read_preset
from .utils.logging import PACKAGE

Config: TypeAlias = "str | os.PathLike[str] | Mapping[str, Any] | RunOptions"
"""A configuration file, a preset's name, the tree of a configuration, or options that are read already."""

EnvSource: TypeAlias = "str | BaseEnv | Callable[..., Any]"
"""What `--env` takes, an environment, or a function that makes environments."""

_PLACE = "lanista.train"
"""How messages call the place where a value was given that stands in no file."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class TrainingResult:
    """The outcome of a run, as its folder holds it."""

    folder: Path
    """`<results_dir>/<run_id>`: configuration, checkpoints, statistics, models."""
    brains: Mapping[str, Path]
    """Behavior name to its exported ONNX file; `<behavior>-place<k>` where each slot of a team has its own.
    Empty where a network cannot be exported."""
    rewards: Mapping[str, float | None]
    """Behavior name to the mean return of its last episodes, from 10 to 100 of each team: of groups where
    these earn rewards, else of agents. None if fewer have ended."""
    steps: Mapping[str, int]
    """Behavior name to the agent-steps that it was trained for."""

    @classmethod
    def from_folder(cls, folder: Path) -> TrainingResult:
        """Read the run in `folder`.

        Raises:
            OSError: It is no run's.
        """
        path = folder / "run_logs" / "training_status.json"
        # A run that saved nothing, as in inference, has no status.
        has_status = path.exists() or not path.parent.is_dir()
        status = load_json(read_text(path, within=folder)) if has_status else {}
        final = {
            name: entry["final_checkpoint"] for name, entry in status.items() if "final_checkpoint" in entry
        }
        return cls(
            folder=folder,
            brains={path.stem: path for path in sorted(folder.glob("*.onnx"))},
            rewards={name: checkpoint["reward"] for name, checkpoint in final.items()},
            steps={name: checkpoint["steps"] for name, checkpoint in final.items()},
        )


def train(
    config: Config,
    *,
    env: EnvSource | None = None,
    run_id: str | None = None,
    overrides: Mapping[str, Any] | None = None,
    resume: bool = False,
    force: bool = False,
    deterministic: bool = False,
    callbacks: Sequence[Callback] = (),
) -> TrainingResult:
    """Train as `lanista-learn` does, in this process, and return what came of it.

    It works in any thread, and in a notebook; Ctrl-C ends the run in good order in the main thread only. One
    run at a time: torch's number of threads and the package's log belong to the process; both are restored.

    Args:
        config: A configuration file, a preset's name (`"ppo/ball3d"`), a dict of that form, or RunOptions.
        env: What `--env` takes (`"scene:ball3d"`, a path, `"gymnasium:CartPole-v1"`); a BaseEnv, which is not
            closed; or a function that makes a BaseEnv, a Gymnasium or a PettingZoo environment. The function
            gets a `seed` if it has such a parameter, and is called once more before the run, as a check.
            None: `env_settings.env_path` of the configuration, or else the Unity Editor.
        run_id: The name of the run's folder in `checkpoint_settings.results_dir`.
        overrides: Values by their dotted paths, as `--set` takes them: `{"behaviors.Basic.max_steps": 8000}`.
        resume: Continue the run of this id.
        force: Overwrite the run of this id.
        deterministic: As `--deterministic`: with a seed, a run is repeatable bit for bit.
        callbacks: Called as the run goes on, after those that the configuration names.

    Raises:
        TrainerConfigError: Something in the configuration is wrong.
        TrainerError, UnityException: The run cannot start, or ended with an error; what could be saved is.
        ValueError: A path among `overrides` cannot be read; or `env` is a single environment and several are
            asked for; or it exists in this process only, and other processes are to make it.
    """
    with _env_path(env) as path:
        given = {
            "env_settings.env_path": path,
            "checkpoint_settings.run_id": run_id,
            "checkpoint_settings.resume": resume or None,
            "checkpoint_settings.force": force or None,
        }
        given = {key: value for key, value in given.items() if value is not None}
        options = _options(config, {**given, **(overrides or {})})
        if deterministic or (isinstance(config, RunOptions) and config.repeatable):
            options.act_deterministically()
        elsewhere = options.env_settings.env_workers or options.torch_settings.learners > 1
        if elsewhere and (path or "").startswith(f"python:{PASSED_ENV}"):
            raise ValueError(
                "env exists in this process only, and other processes would have to make it "
                "(env_settings.env_workers, torch_settings.learners): give a function of a module that they "
                "can import."
            )
        if isinstance(env, BaseEnv) and options.env_settings.environments > 1:
            raise ValueError(
                f"env is one environment, and {options.env_settings.environments} are asked for "
                "(env_settings.num_envs): give a function that makes them."
            )
        with _process_as_before():
            run_training(options, callbacks=callbacks)
        settings = options.checkpoint_settings
        return TrainingResult.from_folder(Path(settings.results_dir) / settings.run_id)


def _options(config: Config, overrides: Mapping[str, Any]) -> RunOptions:
    source = _source(config)
    paths = {split_path(text): value for text, value in overrides.items()}
    for path, value in paths.items():
        warn_if_unlisted(source, path, "overrides")
        assign(source, path, value, _PLACE)
    options = RunOptions.from_source(source)
    settle_start(options.checkpoint_settings, set(paths))
    return options


def _source(config: Config) -> Source:
    if isinstance(config, RunOptions):
        written = config.behaviors or config.default_settings
        return config.as_source(config.file or (_PLACE if written else ""))
    if isinstance(config, Mapping):
        return Source(dict(config), _PLACE)
    name = os.fspath(config)
    if Path(name).exists():
        return read_file(name)
    is_preset = name.replace("\\", "/").removesuffix(".yaml") in preset_names()
    return read_file(name) if name.endswith((".yaml", ".yml")) and not is_preset else read_preset(name)


@contextmanager
def _env_path(env: EnvSource | None) -> Iterator[str | None]:
    """What `env_settings.env_path` calls the environment while the run lasts."""
    if env is None or isinstance(env, str):
        yield env
    elif isinstance(env, BaseEnv):
        with _kept_open(env), _importable(lambda: env, type(env).__name__) as path:
            yield path
    elif callable(env):
        module, name = getattr(env, "__module__", ""), getattr(env, "__qualname__", "")
        if module != "__main__" and name and getattr(sys.modules.get(module), name, None) is env:
            yield f"python:{module}:{name}"
            return
        with _importable(env, getattr(env, "__name__", type(env).__name__)) as path:
            yield path
    else:
        raise TypeError(
            f"env is {env!r}. Expected what --env takes, a BaseEnv, or a function that makes an environment; "
            "for an environment of Gymnasium or PettingZoo give the function that makes it."
        )


@contextmanager
def _importable(make: Callable[..., Any], name: str) -> Iterator[str]:
    """Name a function `python:module:function` that no module has (a lambda, one of a notebook)."""
    module = ModuleType(f"{PASSED_ENV}{next(_numbers)}")
    name = name if name.isidentifier() else "make"
    setattr(module, name, make)
    sys.modules[module.__name__] = module
    try:
        yield f"python:{module.__name__}:{name}"
    finally:
        del sys.modules[module.__name__]


@contextmanager
def _kept_open(env: BaseEnv) -> Iterator[None]:
    """The run closes the environments that it steps; this one is the caller's."""
    own = vars(env).get("close")
    env.close = lambda timeout=None: _end_turn(env)
    try:
        yield
    finally:
        del env.close
        if own is not None:
            env.close = own


def _end_turn(env: BaseEnv) -> None:
    """Take the answer to a run's last request, if an engine is still to give it: it is the caller's turn."""
    if getattr(env, "awaits_answer", False):
        env.receive()


@contextmanager
def _process_as_before() -> Iterator[None]:
    """A run sets up the package's log and torch's threads; afterwards they are the caller's again."""
    logger = logging.getLogger(PACKAGE)
    before = logger.level, logger.propagate, logger.handlers[:]
    torch = importlib.import_module("torch")
    threads = torch.get_num_threads()
    try:
        yield
    finally:
        logger.setLevel(before[0])
        logger.propagate, logger.handlers[:] = before[1:]
        torch.set_num_threads(threads)
