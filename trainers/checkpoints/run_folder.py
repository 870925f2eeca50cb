"""The folder of a run: claiming it, what happens to an older run of the same name, and folder-safe names."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from typing import Any

import yaml

from ...envs.engines.terms import UNKNOWN, Terms
from ...envs.utils.bounded_yaml import load_yaml
from ...envs.utils.file_names import refused_by_windows, without_case
from ...envs.utils.process_lock import LockingNotSupportedError, ProcessLock, lock_beside
from ...envs.utils.regular_files import links_out, read_text, refuse_pipe, require_within
from ..settings.errors import TrainerConfigError
from ..settings.models.run import CheckpointSettings
from ..settings.options import RunOptions
from ..settings.yaml_source import UNREADABLE_YAML, read_file
from ..utils.atomic_files import atomic_write_text, is_partial
from ..utils.errors import TrainerError, nearest

logger = logging.getLogger(__name__)

MAX_PATH = 248
"""The characters of a folder's path on Windows, with the zero at its end, unless long paths are on."""
_LONGEST_NAME = 70
"""The characters that names of a run's files may have: those of events files, and of models being written."""


@contextmanager
def claimed_run_folder(settings: CheckpointSettings) -> Iterator[Path]:
    """The run's folder, created or found as the settings ask, and locked while the context is open.

    Raises:
        TrainerError: there is an older run and neither resume nor force; or resume without one; or another
            process is using it.
    """
    folder = Path(settings.write_path)
    with ExitStack() as claimed:
        try:
            if not folder.parent.is_dir():
                require_usable(folder, settings)  # before anything is made
                folder.parent.mkdir(parents=True, exist_ok=True)
            claimed.callback(_lock(folder).release)
            require_usable(folder, settings)
            if not settings.resume and _is_older_run(folder):
                logger.info("The old run was set aside as %s.", set_aside(folder))
            require_no_linked_folder(folder)
            (folder / "run_logs").mkdir(parents=True, exist_ok=True)
            long = folder / "run_logs" / "tries-the-longest-path".ljust(_LONGEST_NAME, "-")
            long.mkdir(exist_ok=True)  # refused here, and not as the first checkpoint is written
            with suppress(OSError):  # a virus scanner may be reading it
                long.rmdir()
        except OSError as error:
            raise TrainerError(
                f"The run's folder {folder} cannot be made: {error.strerror}. {remedy(folder)}"
            ) from error
        yield folder


def remedy(folder: Path, windows: bool = os.name == "nt") -> str:
    """What to do about a run's folder that the system does not make."""
    length = len(str(folder.absolute())) + len("/run_logs/") + _LONGEST_NAME
    if windows and length >= MAX_PATH:
        return (
            f"Paths in it have up to {length} characters, and Windows ends them at {MAX_PATH} unless long "
            "paths are on: choose a shorter --run-id, or a --results-dir near the drive."
        )
    # Windows renames no folder in which a file is open.
    close = "Close what has its files open (TensorBoard, an editor), or choose" if windows else "Choose"
    return f"{close} another place with --results-dir."


def _lock(folder: Path) -> ProcessLock:
    """The lock of a run, which --force may give another name.

    Raises:
        TrainerError: another process has it.
    """
    lock = ProcessLock(lock_beside(folder))
    try:
        if not lock.acquire():
            raise TrainerError(
                f"The run {folder} is under way ({lock.holder() or 'in another process'}), and two would "
                "write over each other's files. Stop that one or wait for its end, or give this run another "
                f"--run-id. (With --initialize-from {folder.name} it may begin with the weights so far.)"
            )
    except LockingNotSupportedError as error:
        logger.warning(
            "%s cannot be locked (%s): take care that no other process carries on this run.", folder, error
        )
    return lock


def require_usable(folder: Path, settings: CheckpointSettings) -> None:
    """Refuse to resume a run that does not exist, and to overwrite one that does.

    Raises:
        TrainerError: says which of them, and what to do.
    """
    if settings.resume and not folder.is_dir():
        close = nearest(folder.name, (run.name for run in runs_in(folder.parent)))
        hint = f" Did you mean --run-id {close}?" if close else ""
        raise TrainerError(
            f"Previous data from this run ID was not found: there is no folder {folder}.{hint} Train a new "
            "run by removing the --resume flag, or give the --run-id and --results-dir of the run to resume."
        )
    if not settings.resume and not settings.force and _is_older_run(folder):
        raise TrainerError(
            f"Previous data from this run ID was found in {folder}. Either specify a new run ID with "
            "--run-id, use --resume to resume this run, or --force to start anew (the old run is then "
            "set aside, not deleted)."
        )


def require_no_linked_folder(folder: Path) -> None:
    """Refuse to write into a run that somebody else may have made, and whose folders lead out of it.

    Links in place of files are harmless: a run writes new files, and removes the link of one that it extends.

    Raises:
        TrainerError: there is such a folder.
    """
    for path in links_out(folder):
        target = f"{path} leads to {os.path.realpath(path)}"
        if path.is_dir():
            raise TrainerError(
                f"The run {folder} cannot be written to: {target}, outside of its folder, where files would "
                "be replaced. Put a folder there, a copy of what it leads to; or, to keep a run on another "
                "disk, move the run's folder as a whole and link that."
            )
        if not path.suffix and not path.exists():  # in the place of a folder: files of runs have suffixes
            raise TrainerError(
                f"The run {folder} cannot be written to: {target}, and there is nothing. Put the folder "
                "there that it led to, or remove the link."
            )


def runs_in(results: Path) -> list[Path]:
    """The folders of runs in a results folder, the newest first; those of ML-Agents too."""
    if not results.is_dir():
        return []
    found = [path for path in results.iterdir() if (path / "run_logs").is_dir()]
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def write_configuration(folder: Path, options: RunOptions) -> None:
    """Write the run's settings to `configuration.yaml`.

    Raises:
        TrainerError: the file cannot be written.
    """
    path = folder / "configuration.yaml"
    try:
        atomic_write_text(path, yaml.safe_dump(options.as_dict(), sort_keys=False))
    except OSError as error:
        with suppress(OSError):  # a run that has not started leaves nothing behind, unless it is not empty
            (folder / "run_logs").rmdir()
            folder.rmdir()
        raise TrainerError(
            f"{path} cannot be written: {error.strerror}. The run has not started: free some space, or "
            "choose another place with --results-dir."
        ) from error


def remove_empty_run(folder: Path) -> None:
    """Remove the event files of a new run that ended before any of its behaviors had a learner.

    They are empty, and the corrected command would find an older run in the folder.
    """
    for path in folder.glob("*/events.out.tfevents.*"):
        with suppress(OSError):  # Windows keeps a file that TensorBoard shows
            path.unlink()
    for inner in folder.iterdir():
        if inner.name != "run_logs":
            with suppress(OSError):  # no folder, or a plug-in's writer has put something there
                inner.rmdir()


def recorded_seed(folder: Path) -> int | None:
    """The seed with which the run in `folder` started; None, after a warning, if it is unknown.

    ML-Agents does not record a seed that it has chosen at random.
    """
    path = folder / "configuration.yaml"
    try:
        require_within(path, folder)
        refuse_pipe(path)
        seed = read_file(path).data["env_settings"]["seed"]
        if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0:
            return seed
        cause = f"env_settings.seed is {seed!r} in {path}"
    except TrainerConfigError as error:
        cause = str(error.problems[0]) if path.exists() else f"{path} is not there"
    except OSError as error:
        cause = f"{path} cannot be read: {error.strerror}"
    except (KeyError, TypeError):
        cause = f"{path} has no env_settings.seed"
    logger.warning("The seed of the run is not known, and a new one is drawn: %s.", cause.rstrip("."))
    return None


def recorded_behaviors(folder: Path) -> dict[str | None, Any]:
    """The settings with which the run in `folder` trains its behaviors, by name, as far as they are known.

    None stands for the names of all others.
    """
    try:
        settings = load_yaml(_recorded(folder))
        return {None: settings.get("default_settings"), **(settings["behaviors"] or {})}
    except (OSError, *UNREADABLE_YAML):
        return {}


def recorded_start(folder: Path) -> str | None:
    """The `initialize_from` of the run in `folder`, while it has not saved any weights yet.

    None if there is nothing to initialize from again; also if the record is unreadable, which the warning
    about the seed reports.
    """
    if next(folder.glob("*/*.pt"), None) is not None:
        return None
    try:
        settings = load_yaml(_recorded(folder))
        start = settings["checkpoint_settings"]["initialize_from"]
    except (OSError, *UNREADABLE_YAML):
        return None
    return start if isinstance(start, str) else None


def _recorded(folder: Path) -> str:
    """The text of a run's configuration.yaml. Raises OSError where there is no such file."""
    return read_text(folder / "configuration.yaml", within=folder)


def _is_older_run(folder: Path) -> bool:
    """Whether something is there that must not be overwritten.

    The settings and logs of a run whose engines did not start do not count.
    """
    if not folder.exists():
        return False
    found = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    names = {name for name in found if not is_partial(name)}
    never_started = "run_logs" in names and names <= {"configuration.yaml", "run_logs"}
    return not never_started or (folder / "run_logs" / "training_status.json").exists()


def set_aside(folder: Path) -> Path:
    """Rename the folder of an older run or sweep; returns its new path."""
    dated = f"{folder.name}.{time.strftime('%Y%m%d-%H%M%S')}"
    names = chain([dated], (f"{dated}-{k}" for k in count(2)))
    aside = next(path for path in map(folder.with_name, names) if not path.exists())
    folder.rename(aside)
    return aside


RESERVED_NAMES = frozenset({"run_logs", "metadata", "configuration.yaml"})
"""Names that a run's folder and its status file already use."""
MAX_NAME_BYTES = 200
"""Bytes; file names have at most 255, and steps and suffixes are added."""

_FORBIDDEN = re.compile(r"[/\x00-\x1f\x7f]")


def require_folder_name(behavior: str, terms: Terms = UNKNOWN, *, windows: bool = os.name == "nt") -> None:
    """Refuse a behavior whose name cannot be the name of a folder.

    Engines allow any text. Nothing may be written outside the run's folder, and a slash would make nested
    folders (ML-Agents fails at the first checkpoint of such a behavior). Names that are invalid only on
    Windows are refused only there: elsewhere such runs have always worked.

    Args:
        behavior: Its name.
        terms: The words for the environment that shows it.
        windows: Whether names must be those of folders on Windows, too.

    Raises:
        TrainerError: says what is wrong with the name.
    """
    cause = _cause(behavior, windows)
    if cause:
        raise TrainerError(
            f"The behavior {_shortened(behavior)!r} cannot be trained: its name is that of its folder in the "
            f"results, and {cause}. Change {terms.behavior_name}, and the name in the configuration."
        )


def require_distinct_folder(
    behavior: str, others: Iterable[str], folder: Path, terms: Terms = UNKNOWN
) -> None:
    """Refuse a behavior whose folder would be that of another one, or of the run itself.

    Windows and macOS ignore the case of letters in the names of folders: `Ball` and `ball` are one.

    Args:
        behavior: Its name.
        others: The names of the run's other behaviors.
        folder: The run's folder.
        terms: The words for the environment that shows it.

    Raises:
        TrainerError: says whose folder it is.
    """
    if not ignores_case(folder):
        return
    for other in (*others, *sorted(RESERVED_NAMES)):
        if other != behavior and without_case(other) == without_case(behavior):
            raise TrainerError(
                f"The behavior {_shortened(behavior)!r} cannot be trained: its name is that of its folder in "
                f"the results, where the case of letters is ignored, so that {other!r} is the same folder. "
                f"Change {terms.behavior_name}, and the name in the configuration."
            )


def ignores_case(folder: Path) -> bool:
    """Whether a folder, which exists, is found by its path in letters of the other case too."""
    try:
        folder = folder.resolve()
        lettered = next(
            (path for path in (folder, *folder.parents) if _swapped(path.name) != path.name), None
        )
        return lettered is not None and lettered.samefile(lettered.with_name(_swapped(lettered.name)))
    except OSError:
        return False


def _swapped(name: str) -> str:
    """A name in letters of the other case; only where both are one letter everywhere, as of ß that is not."""
    return "".join(letter.swapcase() if letter.isascii() else letter for letter in name)


def _shortened(name: str) -> str:
    return name if len(name) <= MAX_NAME_BYTES else name[:40] + "..."


def _cause(name: str, windows: bool) -> str:
    """What is wrong with the name; empty if nothing is."""
    if not name.strip() or name in (".", ".."):
        return "this is not a valid name for a folder"
    if name in RESERVED_NAMES:
        return "the run itself has a file or an entry of that name"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    if found := _FORBIDDEN.search(name):
        return f"a folder's name cannot hold {found[0]!r} there"
    return refused_by_windows(name) if windows else ""
