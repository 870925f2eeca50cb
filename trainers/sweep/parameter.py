"""The values that one parameter of a sweep may have."""

from __future__ import annotations

import math
from typing import Any

from pydantic import model_validator

from ..settings.base import Settings, refuse
from ..settings.values import Flag, Number


class Parameter(Settings):
    """A range, or a list of values."""

    min: Number | None = None
    """The least value."""
    max: Number | None = None
    """The greatest value, itself included."""
    log: Flag = False
    """Drawn by orders of magnitude: as often between 0.001 and 0.01 as between 0.01 and 0.1."""
    step: Number | None = None
    """The distance between values, from min on. Of whole numbers 1 if it is not given."""
    values: list[Any] | None = None
    """The values themselves, of any kind."""

    @model_validator(mode="after")
    def _one_way(self) -> Parameter:
        complaint = self._complaint()
        if complaint is not None:
            raise refuse(type(self).__name__, complaint)
        return self

    def _complaint(self) -> str | None:
        if self.values is not None:
            if self.model_fields_set - {"values"}:
                return "found `values` and a range; give {values: [...]} or {min: ..., max: ...}"
            repeated = [value for k, value in enumerate(self.values) if value in self.values[:k]]
            if len(self.values) < 2 or repeated:
                return f"found {self.values}, expected different values, two or more (`set` takes one)"
            return None
        if self.min is None or self.max is None:
            return "expected {min: ..., max: ...}, with log: true or step: ... if wanted, or {values: [...]}"
        if self.min >= self.max:
            return f"found min {self.min:g} and max {self.max:g}, expected a max above min"
        if self.log and self.min <= 0:
            return f"found min {self.min:g} with log: true, expected a min above 0"
        return None if self.step is None else self._step_complaint(self.min, self.max, self.step)

    def _step_complaint(self, low: float, high: float, step: float) -> str | None:
        if self.log:
            return "found step and log: a logarithmic range has no steps: remove one of them"
        if step <= 0:
            return f"found step {step:g}, expected one above 0"
        count = (high - low) / step
        if not math.isclose(count, round(count), rel_tol=1e-9, abs_tol=1e-9) or round(count) < 1:
            reached = low + math.floor(count) * step
            return (
                f"found step {step:g}, by which max {high:g} is not reached from min {low:g}: the steps end "
                f"at {reached:g}; give such a max, or another step"
            )
        return None
