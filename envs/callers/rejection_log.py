"""What is logged of clients that are turned away."""

import logging
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

MAX_LINES = 100
"""Log lines per period."""
PERIOD_SECONDS = 3600.0


class RejectionLog:
    """Logs each reason once per address, and counts the rest, so that no client can fill the log."""

    def __init__(self, place: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """Log for one place.

        Args:
            place: Of where clients are turned away, such as ` from port 5005`; nothing if there is but one.
            clock: Seconds, monotonic.
        """
        self._place = place
        self._clock = clock
        self._logged: set[tuple[str, str]] = set()
        self._started = clock()
        self._suppressed = 0
        self.last = ""
        """Why the last client was rejected; empty if there was none."""

    def log(self, host: str, where: str, reason: str, details: Callable[[], str] = lambda: "") -> None:
        """Log that a client was rejected.

        Args:
            host: The address without the port, so that a machine that keeps trying is logged once.
            where: The client in the message.
            reason: Why; the part after a semicolon may differ without being logged again.
            details: What is appended if it is logged, and takes time to find out.
        """
        if self._clock() - self._started > PERIOD_SECONDS:
            self.finish_period()
        self.last = reason
        key = host, reason.partition(";")[0]
        if key in self._logged or len(self._logged) >= MAX_LINES:
            self._suppressed += 1
            logger.debug("Turned away %s%s: %s.", where, self._place, reason)
            return
        self._logged.add(key)
        logger.warning("Turned away %s%s: %s%s.", where, self._place, reason, details())
        if len(self._logged) == MAX_LINES:
            logger.warning("Further rejections within this hour are only counted.")

    def finish_period(self) -> None:
        """Log how many were not logged, and start a new period."""
        if self._suppressed:
            logger.warning(
                "%d more connections were turned away%s, for the same reasons or beyond the limit of the "
                "log.",
                self._suppressed,
                self._place,
            )
        self._logged.clear()
        self._suppressed = 0
        self._started = self._clock()
