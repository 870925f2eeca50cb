"""Bounds on how often something may happen: at once a few times, then now and then."""

import time
from collections.abc import Callable
from functools import partial
from ipaddress import IPv6Address, ip_address

_MAX_HOSTS = 4096
"""How many addresses are told apart; more displace those that came first."""
_HOST_BITS = 64
"""Of an IPv6 address belong to the machine, which may choose them freely."""


class RateLimit:
    """A token bucket.

    Args:
        burst: How often at once.
        per_second: How often after that.
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
        """Seconds until it may happen again; 0 for now."""
        self._refill()
        return max(0.0, (1.0 - self._left) / self._per_second)

    def take(self) -> None:
        """It happens."""
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
        """Seconds until it may happen again to this address; 0 for now."""
        limit = self._hosts.get(_network(host))
        return 0.0 if limit is None else limit.wait

    def take(self, host: str) -> None:
        """It happens to this address."""
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
