"""The warning about actions without bounds, which get the policy's values as they are."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .calls import name_of

logger = logging.getLogger(__name__)

_warned: set[str] = set()
"""What this process has warned of: every further environment of a run has the same spaces."""


def warn_of_unbounded(env: object, paths: Sequence[str]) -> None:
    """Warn once of the parts of an environment's action space that lack a bound: `action.throttle`."""
    what = f"{name_of(env)}: values of {', '.join(paths)} lack a bound"
    if not paths or what in _warned or not logger.isEnabledFor(logging.WARNING):
        return
    _warned.add(what)
    logger.warning(
        "%s. They get the policy's actions, within -1 to 1; for a larger range, give the action space "
        "bounds, in its own code or by a wrapper.",
        what,
    )


@contextmanager
def without_warning() -> Iterator[None]:
    """Within, `warn_of_unbounded` is silent: an environment is only tried, and warns when it is used."""
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False
