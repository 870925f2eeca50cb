"""What the folder of a run tells, read without torch and without decoding its curves."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....envs.utils.bounded_yaml import FastLoader, load_json, load_yaml
from ....envs.utils.process_lock import LockingNotSupportedError, ProcessLock, lock_beside
from ....envs.utils.regular_files import read_text
from ...checkpoints.engine_errors import ErrorRecord, errors_files
from ...settings.yaml_source import UNREADABLE_YAML
from ...stats.earned import GROUP_REWARD, REWARD, earned
from ...stats.event_files import FILE_NAME, PATTERN, read_extent
from ...utils.plugins import cause
from ...utils.text import words

STATES = ("running", "finished", "stopped", "unfinished", "empty", "damaged")
CARD = "README.md"
"""The model card in a folder of models, where model hubs look for it."""
DEPTH = 4
"""The depth of folders to which runs are looked for: those of a sweep are `<sweep>/trial-000/seed-1`."""
_MODULES = {"/trainers/cli/main.py": "lanista", "/trainers/learn.py": "lanista-learn"}
"""The console scripts whose modules can be run by `python -m`, as `lanista learn --seeds` does."""
_INNER = re.compile(r"^ {6}(?!(?:method|gradient_steps):).*\n", re.MULTILINE)
"""Lines of a configuration.yaml that belong to the parts of a behavior's settings, but for a clone's."""
_END_OF_TIME = 253402300800.0
"""The year 10000, in seconds since 1970: no calendar shows it."""
_METADATA = re.compile(r'^    "metadata": (\{[^{}]*\})', re.MULTILINE)


@dataclass
class BehaviorRecord:
    """How far one behavior has come. Rewards are means over the episodes of a summary."""

    name: str
    trainer: str | None = None
    steps: int = 0
    """The trainer's steps; gradient steps where the behavior is cloned."""
    max_steps: int | None = None
    """The steps with which the training ends; None if unknown, or if it ends only when it is stopped."""
    cloned: str | None = None
    """The method by which `lanista clone` learned the behavior; None for training."""
    last_reward: float | None = None
    best_reward: float | None = None
    final_step: int | None = None
    """The step of the last model that was written at the end of a process; None without one."""
    updated: float = 0.0
    """The time of the behavior's last summary, in seconds since 1970; 0 without one."""


@dataclass
class RunRecord:
    """A run as its folder shows it."""

    name: str
    """The run ID: the folder's path below the results folder."""
    path: Path
    state: str = "empty"
    """One of `STATES`."""
    environment: str | None = None
    """The environment; None for the engine's editor, and where the settings are unknown."""
    seed: int | None = None
    behaviors: list[BehaviorRecord] = field(default_factory=list)
    """The behaviors, the one with the most steps first."""
    program: str | None = None
    """The program that trained the run, with its version; known once a process of the run has ended."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The contents of the run's configuration.yaml."""
    status: dict[str, Any] = field(default_factory=dict)
    """The contents of the run's training_status.json."""
    timers: dict[str, Any] = field(default_factory=dict)
    """The contents of the run's timers.json, of the last process that has ended."""
    engine_errors: ErrorRecord = field(default_factory=ErrorRecord)
    """The errors that the run's engines have printed."""
    updated: float = 0.0
    """When the run last changed, in seconds since 1970."""
    size: int = 0
    """The size of the run's files, in bytes."""
    problems: list[str] = field(default_factory=list)
    """What is damaged in the folder."""

    @property
    def first(self) -> BehaviorRecord:
        """The behavior with the most steps."""
        return self.behaviors[0] if self.behaviors else BehaviorRecord("")

    @property
    def trainers(self) -> list[str]:
        """The trainers of the run's behaviors, each once."""
        return sorted({behavior.trainer for behavior in self.behaviors if behavior.trainer})

    @property
    def metadata(self) -> dict[str, Any]:
        """What the last process that has ended says of itself: versions, times, the command line."""
        return _mapping(self.timers.get("metadata"))

    @property
    def command(self) -> list[str]:
        """The command line of the last process that ended, word by word; empty if it is not known."""
        text = self.metadata.get("command_line_arguments")
        if not isinstance(text, str) or not text.strip():
            return []
        program, *arguments = _words(text)
        path = program.replace("\\", "/")
        name = next((name for end, name in _MODULES.items() if path.endswith(end)), path.rpartition("/")[2])
        return [name, *arguments]


def _words(command: str) -> list[str]:
    """The words of a command line; of a line with odd quotes, which is not ours, what spaces part."""
    try:
        return words(command, windows=True)  # whose paths have backslashes: the run may come from there
    except ValueError:
        return command.split()


def find_runs(results: Path, depth: int = DEPTH, seen: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The folders of runs in and below `results`; no run lies within another one.

    `seen`: the real paths of the folders around `results` that are being looked through.
    """
    try:
        entries = sorted(entry.path for entry in os.scandir(results) if entry.is_dir())
        seen = seen | {os.path.realpath(results)}
    except OSError:
        return
    for entry in entries:
        if is_run(entry):
            yield Path(entry)
        elif depth > 1 and os.path.realpath(entry) not in seen:  # else a link to a folder around it
            yield from find_runs(Path(entry), depth - 1, seen)


def is_run(folder: str | Path) -> bool:
    """Whether the folder is a run's: Lanista and ML-Agents make these two before anything else."""
    run_logs, settings = os.path.join(folder, "run_logs"), os.path.join(folder, "configuration.yaml")
    return os.path.isdir(run_logs) or os.path.isfile(settings)


def run_folder(given: str, results: Path) -> Path:
    """The folder that `given` stands for: a run's ID comes before a folder of the same name."""
    below = results / given
    return below if is_run(below) or not Path(given).is_dir() else Path(given)


def read_run(path: Path, name: str | None = None, *, brief: bool = False) -> RunRecord:
    """Read a run's folder; what cannot be read is listed among its `problems`, whatever somebody put there.

    Args:
        path: the path of the folder.
        name: the run ID; the folder's name if None.
        brief: leave out settings below those of behaviors, and the timers but for their metadata. Reading a
            thousand runs then takes a second in place of two.
    """
    run = RunRecord(path.name if name is None else name, path)
    try:
        _read_into(run, brief=brief)
    except Exception as error:  # one folder must not take the list of the others
        run.state, run.behaviors = "damaged", []
        run.problems.append(f"it cannot be read: {cause(error)}")
    return run


def _read_into(run: RunRecord, *, brief: bool) -> None:
    path = run.path
    run.settings = _read(run, path / "configuration.yaml", _outline if brief else _settings)
    run.status = _read(run, path / "run_logs" / "training_status.json", load_json)
    run.timers = _read(run, path / "run_logs" / "timers.json", _metadata if brief else load_json)
    run.engine_errors = _engine_errors(run)
    environment = _mapping(run.settings.get("env_settings"))
    run.environment = _text(environment.get("env_path"))
    run.seed = _integer(environment.get("seed"))
    folders = _measure(run)
    listed = _mapping(run.settings.get("behaviors"))
    behaviors = [_behavior(run, folder, listed.get(folder.name)) for folder in folders]
    run.updated = max((one.updated for one in behaviors), default=0.0) or run.updated
    behaviors += [
        _from_settings(run, name, listed[name]) for name in listed if name not in folders_of(behaviors)
    ]
    run.behaviors = sorted(behaviors, key=lambda behavior: -behavior.steps)
    run.program = _program(run.metadata)
    run.state = _state(run)


def folders_of(behaviors: list[BehaviorRecord]) -> set[str]:
    """The names of behaviors."""
    return {behavior.name for behavior in behaviors}


def _settings(text: str) -> Any:
    return load_yaml(text, FastLoader)


def _outline(text: str) -> Any:
    """The settings down to `behaviors.NAME.trainer_type`, of a file in the form in which runs write it."""
    try:
        tree = _settings(_INNER.sub("", text))
        if any(_mapping(one).get("trainer_type") for one in _mapping(tree["behaviors"]).values()):
            return tree
    except UNREADABLE_YAML:
        pass
    return _settings(text)


def _metadata(text: str) -> Any:
    """timers.json with nothing but its metadata."""
    found = _METADATA.search(text)
    return {"metadata": load_json(found[1])} if found and text.endswith("}") else load_json(text)


def _read(run: RunRecord, path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """The mapping in a file; empty if there is no such file, or no mapping in it."""
    try:
        tree = parse(read_text(path, within=run.path))
    except FileNotFoundError:
        return {}
    except (OSError, *UNREADABLE_YAML) as error:
        run.problems.append(f"{path.name}: {_cause(error)}")
        return {}
    if not isinstance(tree, dict):
        run.problems.append(f"{path.name}: found {type(tree).__name__}, expected a mapping")
        return {}
    return {str(key): value for key, value in tree.items()}


def _engine_errors(run: RunRecord) -> ErrorRecord:
    """What the engines of all the run's learners have printed."""
    found = ErrorRecord()
    for path in errors_files(run.path):
        try:
            found = found.plus(ErrorRecord.read(path))
        except (OSError, ValueError) as error:
            run.problems.append(f"{path.name}: {_cause(error)}")
    return found


def _cause(error: Exception) -> str:
    """Why a file cannot be read, in one line."""
    return str(error.strerror if isinstance(error, OSError) else " ".join(str(error).split()))


def _measure(run: RunRecord) -> list[Path]:
    """Sum up the run's files; return the folders of behaviors: those with curves or checkpoints."""
    folders = []
    for folder, _, files in os.walk(run.path):
        for file in files:
            try:
                stat = os.lstat(os.path.join(folder, file))
            except OSError:  # a checkpoint that was just removed
                continue
            run.size += stat.st_size
            run.updated = max(run.updated, stat.st_mtime)
        if os.path.dirname(folder) == str(run.path) and any(
            _is_of_behavior(file, os.path.basename(folder)) for file in files
        ):
            folders.append(Path(folder))
    return sorted(folders)


def _is_of_behavior(file: str, name: str) -> bool:
    """Whether a file is a behavior's: curves, or a checkpoint of this name. (`keep_best` copies others.)"""
    return file.startswith((PATTERN[:-1], f"{name}-")) or file in (FILE_NAME, "checkpoint.pt")


def _from_settings(run: RunRecord, name: str, settings: Any) -> BehaviorRecord:
    """What the configuration says of a behavior."""
    settings = _mapping(settings)
    behavior = BehaviorRecord(str(name), _text(settings.get("trainer_type")))
    steps = settings.get("max_steps")
    clone = settings.get("clone")
    if isinstance(clone, dict) and run.command[1:2] == ["clone"]:  # lanista-learn does not read the section
        steps, behavior.cloned = clone.get("gradient_steps"), _text(clone.get("method")) or "bc"
    number = _integer(steps)
    behavior.max_steps = number if number is not None and number >= 0 else None
    return behavior


def _behavior(run: RunRecord, folder: Path, settings: Any) -> BehaviorRecord:
    behavior = _from_settings(run, folder.name, settings or _mapping(run.settings.get("default_settings")))
    extent = read_extent(folder, (REWARD, GROUP_REWARD))
    run.problems += [f"{folder.name}: {problem}" for problem in extent.problems]
    behavior.updated = extent.time if 0 <= extent.time < _END_OF_TIME else 0.0
    own, group = (_finite(extent.values.get(tag, [])) for tag in (REWARD, GROUP_REWARD))
    rewards = earned(own, group)
    if rewards:
        behavior.last_reward, behavior.best_reward = rewards[-1], max(rewards)
    status = _mapping(run.status.get(folder.name))
    final = _mapping(status.get("final_checkpoint"))
    behavior.final_step = _integer(final.get("steps"))
    saved = [_integer(_mapping(entry).get("steps")) or 0 for entry in _list(status.get("checkpoints"))]
    behavior.steps = max([extent.step, behavior.final_step or 0, *saved])
    return behavior


def _state(run: RunRecord) -> str:
    """Which of `STATES` the run is in."""
    if is_locked(run.path):
        return "running"
    if run.problems:
        return "damaged"
    begun = [behavior for behavior in run.behaviors if behavior.steps]
    if not begun:
        return "empty"
    if any(behavior.final_step is None or behavior.final_step < behavior.steps for behavior in begun):
        return "unfinished"
    ended = all(behavior.max_steps is not None and behavior.steps >= behavior.max_steps for behavior in begun)
    return "finished" if ended else "stopped"


def is_locked(folder: Path) -> bool:
    """Whether a process is training the run; the lock's file is there while it is held, or after a kill."""
    path = lock_beside(folder)
    if not path.exists():
        return False
    lock = ProcessLock(path)
    try:
        acquired = lock.acquire()
    except (LockingNotSupportedError, OSError):  # another user's results: it was touched a moment ago
        return time.time() - path.stat().st_mtime < 86400
    lock.release()
    return not acquired


def _program(metadata: Mapping[str, Any]) -> str | None:
    for key, name in (("lanista_version", "Lanista"), ("mlagents_version", "ML-Agents")):
        if isinstance(metadata.get(key), str):
            return f"{name} {metadata[key]}"
    return None


def _finite(values: list[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    """A whole number that a run may have; no other is shown or computed with."""
    return value if type(value) is int and abs(value) < 1 << 63 else None
