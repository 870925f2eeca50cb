"""How often an engine that died or hung may be restarted, and the error once it may not."""

from collections import deque
from dataclasses import dataclass

from mlagents_envs.exception import UnityCommunicatorStoppedException, UnityEnvironmentException

UNLIMITED = -1
REMEMBERED = 10
"""The number of failures that a message lists; a run without limits must not grow with them."""


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """How often each environment may be restarted; -1 lifts a limit. Named as in `env_settings`."""

    max_lifetime_restarts: int = 10
    """The number of restarts in the whole run."""
    restarts_rate_limit_n: int = 1
    """The number of restarts within one period."""
    restarts_rate_limit_period_s: float = 60.0

    def __post_init__(self) -> None:
        for name in ("max_lifetime_restarts", "restarts_rate_limit_n"):
            if getattr(self, name) < UNLIMITED:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be -1 (no limit), 0 or more")
        if self.restarts_rate_limit_period_s <= 0:
            raise ValueError(
                f"restarts_rate_limit_period_s is {self.restarts_rate_limit_period_s}; it must be above 0"
            )

    def __str__(self) -> str:
        life = "any number of" if self.max_lifetime_restarts == UNLIMITED else str(self.max_lifetime_restarts)
        rate = "no limit" if self.restarts_rate_limit_n == UNLIMITED else str(self.restarts_rate_limit_n)
        return f"{life} in a run, {rate} within {self.restarts_rate_limit_period_s:g} s"


class RestartLimitError(UnityEnvironmentException):  # type: ignore[misc]
    """An environment failed more often than `RestartLimits` allow; the last failure is its `__cause__`."""


class HostLostError(UnityEnvironmentException):  # type: ignore[misc]
    """The environment's machine is gone: it restarts on another one, which counts against no limit."""


class EngineStopped(UnityCommunicatorStoppedException):  # type: ignore[misc]
    """The game was stopped in the editor: finish the run and save."""


class StopAsked(Exception):  # noqa: N818 (as the one above it is no fault)
    """The user wants the run to end, and environments that are awaited have not answered yet."""


class RestartHistory:
    """One environment's failures and restarts. Times are seconds of one monotonic clock."""

    def __init__(self, limits: RestartLimits, started: float) -> None:
        """Begin an empty history at the time `started`."""
        self.limits = limits
        self.restarts = 0
        self._counted = 0
        """The number of restarts that the limits count."""
        self._excused = False
        """Whether the last failure counts towards no limit."""
        self._started = started
        self._recent: deque[float] = deque()
        self._failures: deque[tuple[float, str]] = deque(maxlen=REMEMBERED)
        self.count = 0
        """The number of failures so far."""

    def failed(self, now: float, cause: BaseException) -> None:
        """Record a failure."""
        self.count += 1
        self._excused = isinstance(cause, HostLostError)
        self._failures.append((now, f"{type(cause).__name__}: {_first_line(cause)}"))

    def allows(self, now: float) -> bool:
        """Whether the limits leave room for a restart at the time `now`."""
        if self._excused:
            return True
        limits = self.limits
        while self._recent and now - self._recent[0] >= limits.restarts_rate_limit_period_s:
            self._recent.popleft()
        lifetime = limits.max_lifetime_restarts
        rate = limits.restarts_rate_limit_n
        return (lifetime == UNLIMITED or self._counted < lifetime) and (
            rate == UNLIMITED or len(self._recent) < rate
        )

    def error(self, name: str, cause: BaseException) -> RestartLimitError:
        """The error to raise when the limits leave no room for another restart.

        Args:
            name: The environment's name in messages.
            cause: The last failure.
        """
        text = str(cause)
        if self.count > 1:
            text = f"Its failures:\n{self}\nThe last one in full: {cause}"
        stopped = isinstance(cause, UnityCommunicatorStoppedException)
        what = "ended the session" if stopped else "failed"
        return RestartLimitError(
            f"{name} {what}, and the limits leave no room for another restart "
            f"({self.limits}; env_settings.max_lifetime_restarts, restarts_rate_limit_n and "
            f"restarts_rate_limit_period_s change them). {text}"
        )

    def restarted(self, now: float) -> None:
        """Count a restart at the time `now`."""
        self.restarts += 1
        if self._excused:
            return
        self._counted += 1
        if self.limits.restarts_rate_limit_n != UNLIMITED:
            self._recent.append(now)

    def __str__(self) -> str:
        lines = [f"  {when - self._started:.1f} s after the start: {cause}" for when, cause in self._failures]
        if self.count > len(lines):
            lines.insert(0, f"  ({self.count - len(lines)} earlier failures are not listed)")
        return "\n".join(lines)


def _first_line(cause: BaseException) -> str:
    """The first line of a message; where it announces a list, with the list's first entry."""
    lines = str(cause).strip().splitlines() or ["no message"]
    return " ".join([lines[0], *(line.strip() for line in lines[1:2] if lines[0].endswith(":"))])
