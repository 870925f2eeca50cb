"""All settings of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from ..utils.errors import nearest
from .base import Flag, Settings, Text, own, refuse, wrong
from .defaults import follow_as_mlagents, network_as_written, with_defaults, without_following, write_left_out
from .errors import Notes, Path, Problem, TrainerConfigError, logger
from .models.behavior import TrainerSettings
from .models.environment_parameters import EnvironmentParameters, MeasureType
from .models.networks import NetworkSettings
from .models.outputs import CallbackChoices, WriterNames
from .models.run import CheckpointSettings, EngineSettings, EnvironmentSettings, TorchSettings
from .problems import config_error, place_of, places_of, refuse_first_versions
from .yaml_source import Source, read_file, read_text

MOST_BEHAVIORS = 1000


class RunOptions(Settings):
    """The whole configuration of a run."""

    default_settings: TrainerSettings | None = None
    """Defaults of every behavior's settings, and the settings of behaviors that are not listed."""
    behaviors: dict[Text, TrainerSettings] = Field(default_factory=dict)
    """The settings of each behavior, by its name."""
    env_settings: EnvironmentSettings = Field(default_factory=EnvironmentSettings)
    """The environments."""
    engine_settings: EngineSettings = Field(default_factory=EngineSettings)
    """The engine."""
    environment_parameters: EnvironmentParameters | None = None
    """Values that are sent to the environments: numbers, samplers, or lessons."""
    checkpoint_settings: CheckpointSettings = Field(default_factory=CheckpointSettings)
    """Names and files."""
    torch_settings: TorchSettings = Field(default_factory=TorchSettings)
    """The device."""
    debug: Flag = False
    """Log more."""
    quiet: Flag = own(False)
    """Say only what is wrong: warnings and errors, without the banner, the display and the summaries."""
    stats_writers: WriterNames | None = own(None)
    """Where summaries go: tensorboard, console, csv (a table per behavior), names of plug-ins; or none.
    Not given: tensorboard, console, and every plug-in that ML-Agents would have called."""
    callbacks: CallbackChoices = own([])
    """Called during the run: names of built-in callbacks (stop_at_reward, keep_best, write_video, wandb,
    mlflow) or of plug-ins, or package.module:Class of your own; with arguments as a mapping below the name.
    docs/callbacks.md has examples."""

    _source: Source = PrivateAttr(default_factory=Source)
    _repeatable: bool = PrivateAttr(False)

    @field_validator("behaviors", mode="wrap")
    @classmethod
    def _over_defaults(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        if isinstance(value, dict) and len(value) > MOST_BEHAVIORS:
            raise wrong(
                f"found {len(value)} behaviors, expected at most {MOST_BEHAVIORS}: each is trained with "
                "networks and a buffer of its own. Agents that learn the same share one behavior's name"
            )
        defaults = info.data.get("default_settings")
        if defaults is None or not isinstance(value, dict):
            return handler(value)
        behaviors = handler({name: with_defaults(defaults, own) for name, own in value.items()})
        for (name, settings), given in zip(behaviors.items(), value.values()):
            if isinstance(given, dict):
                follow_as_mlagents(defaults, name, settings, info)
        return behaviors

    @model_validator(mode="after")
    def _one_verbosity(self) -> RunOptions:
        if self.debug and self.quiet:
            raise self._refusal("quiet", "found true, but debug is true too: remove one of them")
        return self

    @model_validator(mode="after")
    def _progress_has_an_end(self) -> RunOptions:
        endless = {name for name, settings in self.behaviors.items() if settings.endless}
        by_default = self.default_settings is not None and self.default_settings.endless
        problems = [
            Problem(
                ("environment_parameters", name, "curriculum", number, "completion_criteria", "measure"),
                f"found progress, the part of max_steps that is done; but {criteria.behavior}, with "
                "max_steps -1, is trained until it is stopped. Give it max_steps, or measure the reward",
            )
            for name, parameter in (self.environment_parameters or {}).items()
            for number, lesson in enumerate(parameter.curriculum)
            if (criteria := lesson.completion_criteria) is not None
            and criteria.measure is MeasureType.PROGRESS
            and (criteria.behavior in endless or (by_default and criteria.behavior not in self.behaviors))
        ]
        if problems:
            raise refuse(type(self).__name__, *problems)
        return self

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> RunOptions:
        """Read a YAML (or JSON) file.

        Raises:
            TrainerConfigError: it cannot be read, or something in it is wrong.
        """
        return cls.from_source(read_file(path))

    @classmethod
    def from_text(cls, text: str, name: str = "the configuration") -> RunOptions:
        """Read YAML text; `name` stands for it in messages.

        Raises:
            TrainerConfigError: something in it is wrong.
        """
        return cls.from_source(read_text(text, name))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunOptions:
        """Read the plain values of a YAML tree.

        Raises:
            TrainerConfigError: something in them is wrong.
        """
        return cls.from_source(Source(dict(data)))

    @classmethod
    def from_source(cls, source: Source) -> RunOptions:
        """Check and complete what `source` says; its warnings are logged.

        Raises:
            TrainerConfigError: something in it is wrong.
        """
        refuse_first_versions(source)
        notes = Notes(partial(places_of, source))
        try:
            return cls._read(source, notes)
        finally:
            notes.report()

    @classmethod
    def _read(cls, source: Source, notes: Notes) -> RunOptions:
        try:
            options = cls.model_validate(source.data, context=notes)
        except ValidationError as error:
            raise config_error(error, source, partial(place_of, cls, source.data)) from None
        options._source = source
        return options

    def as_dict(self) -> dict[str, Any]:
        """Plain values; read again they give the same options, whatever `default_settings` says."""
        written = super().as_dict()
        if self.default_settings is not None:
            for name, settings in self.behaviors.items():
                write_left_out(written["default_settings"], settings, written["behaviors"][name])
        return written

    def as_source(self, name: str) -> Source:
        """What was written, or set since in Python, to be read again; `name` stands for it in messages.

        Keys that follow from others are left out unless they were written: they follow again.
        """
        tree, alone = self.as_dict(), self.default_settings is None
        if self.default_settings is not None:
            without_following(self.default_settings, tree["default_settings"])
        for behavior, settings in self.behaviors.items():
            if isinstance(settings, TrainerSettings):  # no mapping, which was set in Python
                written = without_following(settings, tree["behaviors"][behavior])
                if alone and isinstance(settings.network_settings, NetworkSettings):
                    written["network_settings"] = network_as_written(settings.network_settings)
        return Source(tree, name)

    def read_again(self) -> RunOptions:
        """The same options, checked and completed as a file's: in Python anything may have been set since.

        Raises:
            TrainerConfigError: something in them is wrong.
        """
        again = self._read(self.as_source(self._source.name), Notes())
        again._source, again._repeatable = self._source, self._repeatable
        return again

    def place(self, path: Path) -> str:
        """Where the value at `path`, or what contains it, was written: file and line, or flag."""
        return self._source.place(path)

    @property
    def file(self) -> str | None:
        """The names of the configuration files; None without one."""
        return self._source.name or None

    @property
    def trains_something(self) -> bool:
        """Whether some behavior may appear without being refused; without a file all have defaults."""
        return self.file is None or bool(self.behaviors) or self.default_settings is not None

    @property
    def repeatable(self) -> bool:
        """Whether `--deterministic` was given: environments are answered in their order."""
        return self._repeatable

    def with_seed(self, seed: int) -> RunOptions:
        """A copy with this seed of the run."""
        return self.model_copy(update={"env_settings": self.env_settings.model_copy(update={"seed": seed})})

    def with_start(self, initialize_from: str | None) -> RunOptions:
        """A copy that starts with these weights; None for the run's own, or random ones."""
        settings = self.checkpoint_settings.model_copy(update={"initialize_from": initialize_from})
        return self.model_copy(update={"checkpoint_settings": settings})

    def act_deterministically(self) -> None:
        """Make every behavior deterministic, listed or not."""
        self._repeatable = True
        listed = [*self.behaviors.values(), *([self.default_settings] if self.default_settings else [])]
        for settings in listed:
            settings.network_settings.deterministic = True

    def behavior(self, name: str) -> TrainerSettings:
        """The settings of the behavior `name` (without `?team=`), as it first appears in an environment.

        Raises:
            TrainerConfigError: a configuration file was given that neither lists it nor has default_settings.
        """
        if name in self.behaviors:
            return self.behaviors[name]
        if self.default_settings is not None:
            settings = self.default_settings.model_copy(deep=True)
        elif self.file is not None:
            listed = ", ".join(self.behaviors) or "none"
            close = nearest(name, self.behaviors)
            meant = f" If {close} is meant for it, rename that entry to {name}." if close else ""
            raise TrainerConfigError(
                f"The behavior name {name} has not been specified in the trainer configuration {self.file} "
                f"(listed: {listed}). Please add an entry in the configuration file for {name}, or set "
                f"default_settings.{meant}"
            )
        else:
            logger.warning(
                "Behavior name %s does not match any behaviors specified in the trainer configuration file. "
                "A default configuration will be used.",
                name,
            )
            settings = TrainerSettings()
            settings.network_settings.deterministic = self._repeatable
        self.behaviors[name] = settings
        return settings
