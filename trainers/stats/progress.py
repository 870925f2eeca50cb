"""How far each behaviour has come and how fast it goes: what a display shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from .curve import History
from .summary import StatsSummary

REWARD = "Environment/Cumulative Reward"
GROUP_REWARD = "Environment/Group Cumulative Reward"

_WINDOW = 15.0
"""Seconds over which the rate is measured: long enough to even out collecting and learning."""


class BehaviorProgress:
    """The state of one behaviour's training, for a display. Times are seconds of any steady clock."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.step: int = 0
        self.max_steps: int | None = None
        """Steps at which training ends; None where it is not known, or goes on until it is stopped."""
        self.checkpoint: int | None = None
        """The step of the newest checkpoint."""
        self.rewards = History()
        self.reward: float | None = None
        """Mean reward of the latest summary in which an episode ended."""
        self.reward_std: float | None = None
        self.figures: dict[str, float] = {}
        """The latest value of every other statistic."""
        self._samples: deque[tuple[float, int]] = deque()

    def take(self, values: Mapping[str, StatsSummary]) -> None:
        """Take in a summary."""
        self.figures.update({key: summary.aggregated_value for key, summary in values.items()})
        rewards = values.get(GROUP_REWARD) or values.get(REWARD)
        if rewards is not None and rewards.num:
            self.reward, self.reward_std = rewards.mean, rewards.std
            self.rewards.add(self.reward)

    def sample(self, now: float) -> None:
        """Note where the behaviour stands; the rate is that between such notes."""
        self._samples.append((now, self.step))
        while len(self._samples) > 2 and self._samples[1][0] <= now - _WINDOW:
            self._samples.popleft()

    @property
    def rate(self) -> float | None:
        """Agent-steps per second of late; None before it can be told."""
        if len(self._samples) < 2:
            return None
        (first, start), (last, end) = self._samples[0], self._samples[-1]
        return (end - start) / (last - first) if last > first else None

    @property
    def fraction(self) -> float:
        """How much of `max_steps` is done, between 0 and 1."""
        return min(self.step / self.max_steps, 1.0) if self.max_steps else 0.0

    @property
    def time_left(self) -> float | None:
        """Seconds until `max_steps` at the present rate; None where nobody can tell."""
        rate = self.rate
        if not rate or self.max_steps is None or rate < 0:
            return None
        return max(self.max_steps - self.step, 0) / rate


def clock_text(seconds: float | None) -> str:
    """`1:02:03`, `2:03`; a dash for None."""
    if seconds is None:
        return "—"
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def count_text(number: float | None) -> str:
    """`12,345`; a dash for None."""
    return "—" if number is None else f"{number:,.0f}"


def figure_text(number: float | None, like: float | None = None) -> str:
    """About four significant digits, as many decimals as `like` would get; a dash for None and NaN."""
    if number is None or number != number:
        return "—"
    size = abs(number if like is None else like)
    if size >= 1e5 or 0 < size < 1e-3:
        return f"{number:.2e}"
    return f"{number:.{1 if size >= 100 else 2 if size >= 10 else 3}f}"
