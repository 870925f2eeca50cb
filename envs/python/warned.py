"""Warnings about what an environment could declare better; each is given once."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .calls import name_of

logger = logging.getLogger(__name__)

_warned: set[str] = set()
"""What this process has warned of: every further environment of a run is the same."""


def warn_once(message: str) -> None:
    """Warn, unless this process has done so already, or is within `without_warnings`."""
    if message not in _warned and logger.isEnabledFor(logging.WARNING):
        _warned.add(message)
        logger.warning("%s", message)


def warn_of_unbounded(env: object, paths: Sequence[str]) -> None:
    """Warn once of the parts of an environment's action space that lack a bound: `action.throttle`."""
    if paths:
        warn_once(
            f"{name_of(env)}: values of {', '.join(paths)} lack a bound. They get the policy's actions, "
            "within -1 to 1; for a larger range, give the action space bounds, in its own code or by a "
            "wrapper."
        )


@contextmanager
def without_warnings() -> Iterator[None]:
    """Within, there are none of these: an environment is only tried, and warns when it is used."""
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False
