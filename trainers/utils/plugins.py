"""What installed packages register under the entry points that Lanista looks at.

Listing them executes nothing of theirs; only a plug-in that a run uses is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from .errors import TrainerError

STATS_WRITERS = "lanista.stats_writers"
"""Functions of a run's options that give stats writers."""
TRAINERS = "lanista.trainers"
"""`TrainerType`s, or functions that give one; the entry's name is the `trainer_type`."""
REWARD_SIGNALS = "lanista.reward_signals"
"""`RewardSignal`s, or functions that give one; the entry's name is the signal's in `reward_signals`."""
CALLBACKS = "lanista.callbacks"
"""Classes of callbacks; see trainers/callbacks/base.py."""
NETWORKS = "lanista.networks"
"""Classes of encoders and bodies; see trainers/networks/custom.py."""
MLAGENTS_STATS_WRITERS = "mlagents.stats_writer"
"""ML-Agents' group for stats writers: functions of a run's options as well."""
MLAGENTS_TRAINERS = "mlagents.trainer_type"
"""ML-Agents' group for trainers: subclasses of its own trainers, which nothing else can run."""

_OF_MLAGENTS_ITSELF = "default"
"""The entry in its two groups by which ML-Agents registers what it brings."""


USER_ERRORS = (Exception, SystemExit)
"""What a user's code may raise. By `sys.exit()`, as of an argument parser, a run would end in silence."""


class PluginError(Exception):
    """A plug-in cannot be used; the message names it, its package and the cause."""


def plugins(group: str) -> dict[str, EntryPoint]:
    """The plug-ins of a group by name. Of several with one name the first that Python finds."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        if not (group.startswith("mlagents.") and entry.name == _OF_MLAGENTS_ITSELF):
            found.setdefault(entry.name, entry)
    return found


def described(entry: EntryPoint) -> str:
    """The plug-in for messages: `'mine' (my_package:writers, of my-package 1.0)`."""
    owner = f", of {entry.dist.name} {entry.dist.version}" if entry.dist is not None else ""
    return f"{entry.name!r} ({entry.value}{owner})"


def load(entry: EntryPoint) -> Any:
    """What the entry point names, its module imported.

    Raises:
        PluginError: That failed, whatever the reason.
    """
    try:
        return entry.load()
    except USER_ERRORS as error:
        raise PluginError(f"the plug-in {described(entry)} cannot be loaded: {cause(error)}") from error


def cause(error: BaseException) -> str:
    """An exception in one line."""
    first = str(error).strip().splitlines()
    return f"{type(error).__name__}: {first[0]}" if first else type(error).__name__


def imported(what: str, place: str) -> Callable[..., Any]:
    """What a plug-in names as `package.module:name`.

    Raises:
        TrainerError: The module has none of this name, or importing it failed. The message begins with
            `what`.
    """
    module, _, name = place.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), name)
    except USER_ERRORS as error:
        raise TrainerError(
            f"{what}, which is {place!r}, cannot be imported: {cause(error)}. Its plug-in names it as "
            "package.module:name."
        ) from error
    return found
