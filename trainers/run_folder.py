"""The folder of a run: may it be used, and what becomes of an older run of the same name."""

from __future__ import annotations

import logging
import time
from itertools import chain, count
from pathlib import Path

import yaml

from .atomic import atomic_write_text
from .errors import TrainerError
from .settings.options import RunOptions
from .settings.run import CheckpointSettings

logger = logging.getLogger(__name__)


def claim_run_folder(settings: CheckpointSettings) -> Path:
    """The run's folder, made or found as the settings ask.

    Raises:
        TrainerError: there is an older run and neither resume nor force; or resume without one; or the run to
            start from does not exist.
    """
    folder = Path(settings.write_path)
    if settings.resume and not folder.is_dir():
        raise TrainerError(
            f"Previous data from this run ID was not found: there is no folder {folder}. Train a new run by "
            "removing the --resume flag, or give the --run-id and --results-dir of the run to resume."
        )
    start = settings.maybe_init_path
    if start is not None and not settings.resume and not Path(start).is_dir():
        raise TrainerError(
            f"Could not initialize from {start}. Make sure models have already been saved with that run ID."
        )
    older = folder.exists() and not settings.resume and not _never_began(folder)
    if older and not settings.force:
        raise TrainerError(
            f"Previous data from this run ID was found in {folder}. Either specify a new run ID with "
            "--run-id, use --resume to resume this run, or --force to start anew (the old run is then "
            "set aside, not deleted)."
        )
    try:
        if older:
            logger.info("The old run was set aside as %s.", _set_aside(folder))
        (folder / "run_logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainerError(
            f"The run's folder {folder} cannot be made: {error.strerror}. Choose another place with "
            "--results-dir."
        ) from error
    return folder


def write_configuration(folder: Path, options: RunOptions) -> None:
    """Write the run's settings to `configuration.yaml`.

    Raises:
        TrainerError: the file cannot be written.
    """
    path = folder / "configuration.yaml"
    try:
        atomic_write_text(path, yaml.safe_dump(options.as_dict(), sort_keys=False))
    except OSError as error:
        raise TrainerError(
            f"{path} cannot be written: {error.strerror}. The run has not begun: free some space, or choose "
            "another place with --results-dir."
        ) from error


def recorded_seed(folder: Path) -> int | None:
    """The seed with which the run in `folder` began; None, after a warning, where that cannot be told.

    ML-Agents does not write a seed that it has drawn.
    """
    path = folder / "configuration.yaml"
    cause = "it is not there"
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        seed = settings["env_settings"]["seed"]
        if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0:
            return seed
        cause = f"env_settings.seed is {seed!r} there"
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError) as error:
        cause = f"{type(error).__name__}: {error}"
    logger.warning("The seed of the run is not known from %s (%s): a new one is drawn.", path, cause)
    return None


def _never_began(folder: Path) -> bool:
    """Whether this is what a run leaves whose engines did not start: settings and logs, nothing learnt."""
    if not folder.is_dir() or {entry.name for entry in folder.iterdir()} != {
        "configuration.yaml",
        "run_logs",
    }:
        return False
    return not (folder / "run_logs" / "training_status.json").exists()


def _set_aside(folder: Path) -> Path:
    """Rename the folder of an older run; its new name."""
    dated = f"{folder.name}.{time.strftime('%Y%m%d-%H%M%S')}"
    names = chain([dated], (f"{dated}-{k}" for k in count(2)))
    aside = next(path for path in map(folder.with_name, names) if not path.exists())
    folder.rename(aside)
    return aside
