"""Telling who was turned away, without letting anybody fill the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

MOST = 100
"""Lines within one period."""
PERIOD_SECONDS = 3600.0


class Refusals:
    """Logs each reason once for each address; what is not logged is counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock`: seconds, monotonic."""
        self._clock = clock
        self._told: set[tuple[str, str]] = set()
        self._began = clock()
        self._silent = 0

    def tell(self, host: str, where: str, reason: str) -> None:
        """Somebody was turned away.

        Args:
            host: The address, without the port: a machine that tries again and again is told of once.
            where: How the message calls it.
            reason: Why; what stands behind a semicolon may differ without being told again.
        """
        if self._clock() - self._began > PERIOD_SECONDS:
            self.conclude()
        key = host, reason.partition(";")[0]
        if key in self._told or len(self._told) >= MOST:
            self._silent += 1
            logger.debug("Turned away %s: %s.", where, reason)
            return
        self._told.add(key)
        logger.warning("Turned away %s: %s.", where, reason)
        if len(self._told) == MOST:
            logger.warning("Who else is turned away within this hour is only counted.")

    def conclude(self) -> None:
        """Say how many were not told of, and begin a new period."""
        if self._silent:
            logger.warning(
                "%d more connections were turned away, for the same reasons or beyond what is listed.",
                self._silent,
            )
        self._told.clear()
        self._silent = 0
        self._began = self._clock()
