"""Bounds on clients: how often they may connect, what processor time they take, how many lines of the log."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_address

logger = logging.getLogger(__name__)

_BURST_SECONDS = 0.04
"""The processor seconds for clients at once: what some dozens of engines take that join together and fail."""
_SHARE = 0.05
"""The share for clients of the processor time that the process takes."""
_SECONDS_PER_SECOND = 0.002
"""Processor seconds for clients per second, besides the share: a run that waits takes none to share."""
_LONGEST_WAIT = 0.5
"""Seconds after which it is worth asking again: nobody can say what the run will have taken by then."""


class WorkBudget:
    """Processor time for clients, a share of what the process takes: on a busy machine a run gets little, and
    a client that took as much as ever would take most of it.

    Any thread may use it.

    Args:
        clock: Seconds, monotonic.
        work_clock: Seconds of this process's processor time.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        work_clock: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock, self._work_clock = clock, work_clock
        self._left = _BURST_SECONDS
        self._at, self._worked = clock(), work_clock()
        self._lock = threading.Lock()

    @property
    def wait(self) -> float:
        """Seconds until processor time may be left again; 0 while some is left."""
        with self._lock:
            self._refill()
            if self._left > 0:
                return 0.0
            return min(_LONGEST_WAIT, max(1e-3, -self._left / _SECONDS_PER_SECOND))

    def spend(self, seconds: float) -> None:
        """Record that clients have taken so many seconds of processor time."""
        with self._lock:
            self._refill()
            self._left -= seconds

    def _refill(self) -> None:
        now, worked = self._clock(), self._work_clock()
        earned = (now - self._at) * _SECONDS_PER_SECOND + (worked - self._worked) * _SHARE
        self._left = min(_BURST_SECONDS, self._left + earned)
        self._at, self._worked = now, worked


MAX_LINES = 100
"""The most log lines per period."""
PERIOD_SECONDS = 3600.0


class RejectionLog:
    """Logs each reason once per address, and counts the rest, so that no client can fill the log."""

    def __init__(self, place: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        """Log the rejections of one place.

        Args:
            place: Where clients are turned away, such as ` from port 5005`; nothing if there is but one.
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
        """Log how many rejections were not logged, and start a new period."""
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


_MAX_HOSTS = 4096
"""The number of addresses that are told apart; more displace those that came first."""
_HOST_BITS = 64
"""The number of bits of an IPv6 address that belong to the machine, which may choose them freely."""


class RateLimit:
    """A token bucket.

    Args:
        burst: How many events may happen at once.
        per_second: How many may happen per second after that.
        clock: Seconds, monotonic.
    """

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._left = burst
        self._at = clock()

    @property
    def wait(self) -> float:
        """Seconds until the limited event may happen again; 0 if it may happen now."""
        self._refill()
        return max(0.0, (1.0 - self._left) / self._per_second)

    def take(self) -> None:
        """Record that the event happens."""
        self._refill()
        self._left -= 1.0

    def _refill(self) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now


class LimitPerHost:
    """A token bucket for each address; of IPv6 for each network of 64 bits.

    Args:
        burst: As for `RateLimit`.
        per_second: As for `RateLimit`.
        clock: Seconds, monotonic.
    """

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._make = partial(RateLimit, burst, per_second, clock)
        self._hosts: dict[int, RateLimit] = {}

    def wait(self, host: str) -> float:
        """Seconds until the event may happen again to this address; 0 if it may happen now."""
        limit = self._hosts.get(_network(host))
        return 0.0 if limit is None else limit.wait

    def take(self, host: str) -> None:
        """Record that the event happens to this address."""
        network = _network(host)
        if network not in self._hosts:
            if len(self._hosts) >= _MAX_HOSTS:
                del self._hosts[next(iter(self._hosts))]
            self._hosts[network] = self._make()
        self._hosts[network].take()


def _network(host: str) -> int:
    address = ip_address(host.partition("%")[0])
    if isinstance(address, IPv6Address):
        return int(address.ipv4_mapped or int(address) >> _HOST_BITS)
    return int(address)
