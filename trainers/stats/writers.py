"""The stats writers of a run: built-in ones and those of plug-ins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from ..settings.models.outputs import BUILT_IN, CSV, TENSORBOARD, writes_to
from ..settings.options import RunOptions
from ..utils.plugins import (
    MLAGENTS_STATS_WRITERS,
    STATS_WRITERS,
    PluginError,
    cause,
    described,
    load,
    plugins,
)
from .csv_writer import CsvWriter
from .event_files import OF_INFERENCE
from .mlagents_writer import adapted
from .tensorboard import TensorBoardWriter
from .writer import StatsWriter

logger = logging.getLogger(__name__)

_MAKERS: dict[str, Callable[..., StatsWriter]] = {TENSORBOARD: TensorBoardWriter, CSV: CsvWriter}


def make_writers(options: RunOptions, folder: Path) -> list[StatsWriter]:
    """The writers in `stats_writers`, except the console, which is the display's.

    A plug-in that cannot be used is skipped with a warning.
    """
    suffix = OF_INFERENCE if options.checkpoint_settings.inference else ""
    writers = [
        make(folder, suffix=suffix)
        for name, make in _MAKERS.items()
        if writes_to(options.stats_writers, name)
    ]
    for entry in _chosen(options.stats_writers):
        try:
            writers += _of_plugin(entry, options)
        except PluginError as error:
            logger.warning("This stats writer is skipped: %s", error)
    return writers


def _chosen(names: list[str] | None) -> list[EntryPoint]:
    """The plug-ins that are named; without the setting, all that ML-Agents would have called."""
    theirs = plugins(MLAGENTS_STATS_WRITERS)
    if names is None:
        return list(theirs.values())
    known = {**theirs, **plugins(STATS_WRITERS)} if not set(names) <= set(BUILT_IN) else {}
    return [known[name] for name in names if name in known and name not in BUILT_IN]


def _of_plugin(entry: EntryPoint, options: RunOptions) -> list[StatsWriter]:
    """The writers that a plug-in makes for this run.

    Raises:
        PluginError: It cannot be loaded, fails, or returns something else.
    """
    make: Any = _loaded(entry)
    try:
        made = make(options)
        several = isinstance(made, Iterable) and not hasattr(made, "write_stats")
        return [adapted(writer) for writer in (made if several else [made])]
    except (Exception, SystemExit) as error:
        raise PluginError(f"the plug-in {described(entry)} failed: {cause(error)}") from error


def _loaded(entry: EntryPoint) -> Any:
    try:
        return load(entry)
    except PluginError as error:
        missing = getattr(error.__cause__, "name", None) or ""
        if entry.group == MLAGENTS_STATS_WRITERS and missing.partition(".")[0] == "mlagents":
            raise PluginError(
                f"the plug-in {described(entry)} was written for ML-Agents' classes and needs the module "
                f"{missing}, which is not installed. Under the entry point {STATS_WRITERS} and with "
                "lanista.trainers.stats.writer.StatsWriter it works here (docs/extending.md)."
            ) from error
        raise


def close_writers(writers: Iterable[StatsWriter]) -> None:
    """Close all of them; one that fails costs a warning."""
    for writer in writers:
        try:
            writer.close()
        except Exception as error:
            logger.warning("%s could not be closed: %s", writer.name, cause(error))
