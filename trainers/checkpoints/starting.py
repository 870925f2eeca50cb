"""A new run that begins with saved weights: what fits is loaded, and the rest is warned of."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from .compatibility import changed_settings, lost_at_start, refused
from .file import MISFITS, CheckpointError
from .metadata import KEY
from .rules import Resumed
from .shared_weights import load_weights

logger = logging.getLogger(__name__)


class Starter(Protocol):
    """A trainer whose run begins."""

    def load_matching(self, state: Mapping[str, Any]) -> list[str]:
        """Load what fits of another run's `state_dict`; return the mismatches, with the reasons."""


def start_from(path: Path, trainer: Starter, current: Mapping[str, Any]) -> None:
    """Load what fits of a checkpoint, and warn of what does not, and of what means something else now.

    Args:
        path: the checkpoint.
        trainer: the new run's.
        current: the description of its behavior (`describe_behavior`).

    Raises:
        CheckpointError: the checkpoint cannot be used, or nothing of its policy fits.
    """
    from .mlagents.weights import is_mlagents

    name, state = current["behavior"], load_weights(path)
    theirs = is_mlagents(state)
    # The networks of ML-Agents are those of the defaults of Lanista's own keys.
    saved: Any = {"network": {}} if theirs else state.get(KEY)
    since = ""
    try:
        changes = changed_settings(saved, current)
        causes = [] if theirs else refused(changes, ["a part"])
        since = f" Since then {', '.join(map(str, causes))}." if causes else ""
        unfit = trainer.load_matching(state)
        lost = lost_at_start(changes, unfit, saved, current)
    except (CheckpointError, *MISFITS) as error:
        cause = f"an entry is not what it should be ({error})"
        if isinstance(error, CheckpointError):
            cause = f"{error}.{since}" if since else str(error)
        raise CheckpointError(f"{name}: could not initialize from {path}: {cause}") from error
    if unfit:
        message = "%s: not all of %s fits; the rest starts with random weights: %s.%s"
        logger.warning(message, name, path, "; ".join(unfit), since)
    if lost:
        logger.warning(
            "%s: the weights of %s fit, but were learned with other settings, and mean something else with "
            "these: %s. Set that back to start with what was learned.",
            name,
            path,
            ", ".join(map(str, lost)),
        )
    for change in changes:
        if change.rule.resumed is Resumed.UNUSED and change.rule.warned_at_start:
            logger.warning("%s: %s: %s.", name, change, change.rule.why)
