"""The settings of a sweep, and the ranges of its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from ...settings.base import (
    Arguments,
    Flag,
    Integer,
    Number,
    Settings,
    Text,
    found,
    refuse,
    wrong,
)
from ...settings.command_line import assign, split_path
from ...settings.errors import Problem
from ...settings.models.run import CheckpointSettings
from ...settings.problems import config_error
from ...settings.yaml_source import read_file


class Parameter(Settings):
    """A range, or a list of values."""

    min: Number | None = None
    """The smallest value."""
    max: Number | None = None
    """The largest value (inclusive)."""
    log: Flag = False
    """Sample on a logarithmic scale: as often between 0.001 and 0.01 as between 0.01 and 0.1."""
    step: Number | None = None
    """The distance between values, starting at min. Default for integers: 1."""
    values: list[Any] | None = None
    """The values themselves, of any type."""

    @model_validator(mode="after")
    def _one_way(self) -> Parameter:
        problem = self._problem()
        if problem is not None:
            raise refuse(type(self).__name__, Problem((), problem))
        return self

    def _problem(self) -> str | None:
        if self.values is not None:
            if self.model_fields_set - {"values"}:
                return "found `values` and a range; give {values: [...]} or {min: ..., max: ...}"
            repeated = [value for k, value in enumerate(self.values) if value in self.values[:k]]
            if len(self.values) < 2 or repeated:
                return (
                    f"found {self.values}, expected two or more different values (a single one goes to `set`)"
                )
            return None
        if self.min is None or self.max is None:
            return "expected {min: ..., max: ...}, optionally with log: true or step: ..., or {values: [...]}"
        if self.min >= self.max:
            return f"found min {self.min:g} and max {self.max:g}, expected a max above min"
        if self.log and self.min <= 0:
            return f"found min {self.min:g} with log: true, expected a min above 0"
        return None if self.step is None else self._step_problem(self.min, self.max, self.step)

    def _step_problem(self, low: float, high: float, step: float) -> str | None:
        if self.log:
            return "found step and log: a logarithmic range has no steps: remove one of them"
        if step <= 0:
            return f"found step {step:g}, expected a step above 0"
        count = (high - low) / step
        if not math.isclose(count, round(count), rel_tol=1e-9, abs_tol=1e-9) or round(count) < 1:
            reached = low + math.floor(count) * step
            return (
                f"found step {step:g}, which does not lead from min {low:g} to max {high:g}: the last step "
                f"is {reached:g}; change max or step"
            )
        return None


TAKEN_FLAGS = {
    "--run-id": "every trial has its own run ID",
    "--results-dir": "write results_dir in this file",
    "--resume": "unfinished trials are resumed automatically",
    "--load": "unfinished trials are resumed automatically",
    "--force": "it is a flag of `lanista sweep`",
    "--inference": "a sweep trains",
    "--seed": "write seed in this file",
    "--set": "write it under `set`",
    "--preset": "write preset in this file",
    "--env": "write env in this file",
    "--help": "a sweep starts runs",
    "--version": "a sweep starts runs",
}
"""Flags of lanista-learn that the sweep sets itself, and what to do instead."""
TAKEN_KEYS = ("checkpoint_settings", "stats_writers")
"""Sections of a run's configuration that the sweep sets itself."""


class PrunerSettings(Settings):
    """When trials that are worse than others end early."""

    type: Literal["median", "hyperband", "none"] = "median"
    """median: worse than the median of the others at the same step; hyperband; none."""
    startup_trials: Integer = Field(default=5, ge=0)
    """median: the number of completed trials before any is pruned."""
    warmup_steps: Integer | None = Field(default=None, ge=0)
    """median: trainer steps of a run before it may be pruned. Default: a fifth of max_steps."""
    reduction_factor: Integer = Field(default=3, ge=2)
    """hyperband: one in this many trials gets this many times the steps."""


class SweepSettings(Settings):
    """What to vary, what to measure, and how many runs to make."""

    config: list[Text] = Field(default_factory=list)
    """The configuration of the runs: a file for lanista-learn, or several, later ones taking precedence."""
    preset: Text | None = None
    """A configuration that comes with Lanista, such as ppo/basic; files take precedence over it."""
    env: Text | None = None
    """The environment, as for --env. Default: the configuration's env_settings.env_path."""
    flags: Arguments = Field(default_factory=list)
    """More flags of lanista-learn for every run, such as [--num-envs, 2, --no-graphics]; --env-args last."""
    set: dict[Text, Any] = Field(default_factory=dict)
    """Keys of the configuration, as for --set, with their values in all runs."""
    max_steps: Integer | None = Field(default=None, ge=1)
    """The steps of every behavior in a run. Default: as configured."""
    parameters: dict[Text, Parameter] = Field(min_length=1)
    """What to vary: any key of the configuration, as for --set, and its values: {min, max} with log or step,
    or {values: [...]}."""
    metric: Text = "Environment/Cumulative Reward"
    """What to compare: the name of a statistic in TensorBoard. Environment/Cumulative Reward stands for the
    group's, Environment/Group Cumulative Reward, where groups earn rewards."""
    behavior: Text | None = None
    """The behavior whose statistic that is. Default: the only one."""
    last: Integer = Field(default=3, ge=1)
    """The value of a run is the mean of this many last summaries."""
    direction: Literal["maximize", "minimize"] = "maximize"
    """Which values are better."""
    trials: Integer | None = Field(default=None, ge=1)
    """How many settings to try. Default: 20, or all with the sampler grid."""
    parallel: Integer = Field(default=1, ge=1)
    """How many runs at once."""
    seeds: Integer = Field(default=1, ge=1)
    """Runs of every trial, one after another, with seeds from `seed` on; their mean counts."""
    seed: Integer = Field(default=0, ge=0)
    """The first seed of the runs, and the seed of the sampler."""
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    """How the next values are chosen: tpe learns from previous trials, random samples uniformly, grid tries
    every combination, or the first `trials` of them."""
    pruner: PrunerSettings = Field(default_factory=PrunerSettings)
    """What ends trials early: median, hyperband or none, or a mapping with its type and more."""
    name: Text = "sweep"
    """The sweep's folder in results_dir. Default: the file's name."""
    results_dir: Text = "results"
    """The folder that contains the sweep's."""

    @field_validator("config", mode="before")
    @classmethod
    def _files(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("pruner", mode="before")
    @classmethod
    def _named_pruner(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    @field_validator("flags")
    @classmethod
    def _free_flags(cls, words: list[str]) -> list[str]:
        for word in words:
            if word == "--env-args":
                break
            flag = word.partition("=")[0]
            if flag in TAKEN_FLAGS:
                raise wrong(f"found {flag}; {TAKEN_FLAGS[flag]}")
        return words

    @field_validator("name")
    @classmethod
    def _within_the_results(cls, value: str) -> str:
        return CheckpointSettings(run_id=value).run_id

    @model_validator(mode="after")
    def _apart(self) -> SweepSettings:
        problems = [
            Problem((section, key), message)
            for section, keys in (("parameters", self.parameters), ("set", self.set))
            for key in keys
            if (message := self._refused(section, key))
        ]
        if self.preset is None and not self.config:
            problems.append(Problem(("config",), "name the configuration of the runs: `config` or `preset`"))
        if problems:
            raise refuse(type(self).__name__, *problems)
        return self

    def _refused(self, section: str, key: str) -> str | None:
        try:
            path = split_path(key)
        except ValueError as error:
            return str(error)
        if path[0] in TAKEN_KEYS or path == ("env_settings", "seed"):
            return f"found {found(key)}, which the sweep sets itself"
        if section == "set" and key in self.parameters:
            return f"found {found(key)} under `parameters` too: remove one of them"
        return None


def read_sweep(path: str, given: Mapping[str, Any] | None = None) -> SweepSettings:
    """Read a sweep's YAML; values given on the command line take precedence.

    Raises:
        TrainerConfigError: it cannot be read, or is not valid.
    """
    source = read_file(path)
    for key, value in (given or {}).items():
        assign(source, (key,), value, f"command line, --{key.replace('_', '-')}")
    if source.data.get("name") is None:
        source.data["name"] = Path(path).stem
    try:
        return SweepSettings.model_validate(source.data)
    except ValidationError as error:
        raise config_error(error, source) from None
