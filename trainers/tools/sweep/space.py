"""The search space of a sweep: its parameters' values, as Optuna and as the runs represent them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .commands import as_text
from .settings import Parameter

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from ...settings.errors import Path
    from ...settings.options import RunOptions

Choice = str | int | float | bool | None
"""What Optuna accepts as a categorical value."""


@dataclass(frozen=True)
class Dimension:
    """A parameter, with the type of value that its key holds."""

    key: str
    parameter: Parameter
    whole: bool
    """Whether the key holds an integer."""

    @property
    def ends(self) -> list[Any]:
        """The values that are validated before the first trial: the ends of a range, or all values."""
        if self.parameter.values is not None:
            return self.parameter.values
        assert self.parameter.min is not None and self.parameter.max is not None
        return [self._number(self.parameter.min), self._number(self.parameter.max)]

    @property
    def step(self) -> float | None:
        """The distance between values; None for a continuous range or a list."""
        if self.parameter.values is not None:
            return None
        if self.whole and not self.parameter.log:
            return self.parameter.step or 1
        return self.parameter.step

    @property
    def all(self) -> list[Any] | None:
        """Every value; None for a continuous or logarithmic range."""
        if self.parameter.values is not None:
            return self.parameter.values
        if self.step is None:
            return None
        low, high = self.ends
        count = round((high - low) / self.step)
        return [self._number(round(low + k * self.step, 12)) for k in range(count + 1)]

    def distribution(self) -> BaseDistribution:
        """Optuna's distribution."""
        from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

        if self.parameter.values is not None:
            return CategoricalDistribution([_choice(value) for value in self.parameter.values])
        low, high = self.ends
        if self.whole:
            return IntDistribution(low, high, log=self.parameter.log, step=int(self.step or 1))
        return FloatDistribution(low, high, log=self.parameter.log, step=self.step)

    def value(self, drawn: Choice) -> Any:
        """The value for a run, of what Optuna sampled."""
        for value in self.parameter.values or ():
            choice = _choice(value)
            if choice == drawn and type(choice) is type(drawn):
                return value
        return drawn

    def drawn(self, value: Any) -> Choice:
        """The inverse of `value`."""
        return _choice(value) if self.parameter.values is not None else value

    def _number(self, value: float) -> float:
        return int(value) if self.whole else value


def values_of(space: Sequence[Dimension], drawn: Mapping[str, Choice]) -> dict[str, Any]:
    """The values for a run, of all that Optuna sampled; keys that were not sampled are missing."""
    return {one.key: one.value(drawn[one.key]) for one in space if one.key in drawn}


def grid(space: Sequence[Dimension]) -> list[dict[str, Choice]]:
    """Every combination, in Optuna's representation. Each dimension must have `all` its values."""
    alls = [[one.drawn(value) for value in one.all or ()] for one in space]
    return [dict(zip((one.key for one in space), drawn)) for drawn in itertools.product(*alls)]


def holds_whole_number(options: RunOptions, path: Path) -> bool | None:
    """Whether the key at `path` of valid options holds an integer; None if its value is not a number."""
    here: Any = options
    for part in path:
        if isinstance(here, Mapping):
            here = here.get(part)
        elif isinstance(here, (list, tuple)):
            here = here[int(part)]
        else:
            here = getattr(here, str(part), None)
    if isinstance(here, bool) or not isinstance(here, (int, float)):
        return None
    return isinstance(here, int)


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """The shortest suffix of each key that distinguishes it from the others."""
    from ...settings.command_line import split_path

    paths = {key: [str(part) for part in split_path(key)] for key in keys}
    short: dict[str, str] = {}
    for key, path in paths.items():
        for length in range(1, len(path) + 1):
            tail = path[-length:]
            if sum(other[-length:] == tail for other in paths.values()) == 1:
                break
        short[key] = ".".join(tail)
    return short


def shown(value: Any) -> str:
    """A value as text for tables and plots."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else as_text(value)


def _choice(value: Any) -> Choice:
    """A list or a mapping as text, since Optuna only stores these types."""
    return value if value is None or isinstance(value, (str, int, float, bool)) else as_text(value)
