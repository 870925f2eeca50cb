"""What a model card tells: of the models, of the runs that made them, of how well they play."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from ....envs.base import BehaviorName
from ....envs.scenes.registry import SCENES
from ....envs.utils.regular_files import open_file
from ...cli.runs.record import RunRecord
from ...settings.errors import Notes, TrainerConfigError
from ...settings.named import named_plugins
from ...settings.options import RunOptions
from ...stats.writer import flattened
from ...utils.plugins import PluginError
from ...utils.text import typed
from ...utils.trust import Trust
from ...utils.trusted_names import Named


class Paper(NamedTuple):
    """The paper that an algorithm is from."""

    title: str
    authors: str
    link: str


PAPERS = {
    "ppo": Paper("Proximal policy optimization", "Schulman et al. 2017", "https://arxiv.org/abs/1707.06347"),
    "poca": Paper(
        "Multi-agent posthumous credit assignment", "Cohen et al. 2021", "https://arxiv.org/abs/2111.05992"
    ),
    "mappo": Paper("Multi-agent PPO", "Yu et al. 2021", "https://arxiv.org/abs/2103.01955"),
    "coma": Paper(
        "Counterfactual multi-agent policy gradients",
        "Foerster et al. 2018",
        "https://arxiv.org/abs/1705.08926",
    ),
    "sac": Paper("Soft actor-critic", "Haarnoja et al. 2018", "https://arxiv.org/abs/1812.05905"),
    "dqn": Paper("Deep Q-learning", "Mnih et al. 2015", "https://doi.org/10.1038/nature14236"),
    "ddpg": Paper(
        "Deep deterministic policy gradients", "Lillicrap et al. 2015", "https://arxiv.org/abs/1509.02971"
    ),
    "td3": Paper("Twin delayed DDPG", "Fujimoto et al. 2018", "https://arxiv.org/abs/1802.09477"),
}
"""The papers of the built-in trainers."""
_ELSEWHERE = ("max_steps", "checkpoint_interval", "summary_freq", "keep_checkpoints", "init_path", "threaded")
"""Keys of a behavior that the card names in another place, or that change nothing of the model."""
_OF_THIS_MACHINE = ("--results-dir", "--base-port")
"""Flags that would tell others of this machine alone."""
_OF_EARLIER_RUNS = ("--resume", "--force")
"""Flags about a run that others do not have."""
MOST_BYTES = 1 << 31
"""The most bytes of a model whose checksum is computed; the format ONNX allows no more."""


@dataclass(frozen=True)
class ModelFile:
    """One file that acts for a behavior."""

    behavior: str
    path: Path
    size: int
    """The size of the file in bytes."""
    sha256: str
    observations: str = ""
    """The shapes of what the model reads, in words; empty if unknown."""
    actions: str = ""

    @classmethod
    def read(cls, path: Path, behavior: str, policy: Any = None, within: Path | None = None) -> ModelFile:
        """Measure a file of the run in the folder `within`; `policy`: that in it, if it was loaded."""
        with open_file(path, within) as file:
            size = os.fstat(file.fileno()).st_size
            if size > MOST_BYTES:
                raise OSError(errno.EFBIG, f"it holds more than {MOST_BYTES >> 20:,} MiB", str(path))
            found = hashlib.sha256()
            for part in iter(partial(file.read, 1 << 20), b""):
                found.update(part)
        digest = found.hexdigest()
        if policy is None:
            return cls(behavior, path, size, digest)
        return cls(behavior, path, size, digest, _observations(policy), _actions(policy))


def _observations(policy: Any) -> str:
    shapes = (
        " x ".join("any" if length is None else str(length) for length in shape) or "1"
        for _, shape in sorted(policy.observations.items())
    )
    return "; ".join(shapes)


def _actions(policy: Any) -> str:
    kinds = [f"{policy.continuous_size} continuous, -1 to 1"] if policy.continuous_size else []
    if policy.branches:
        kinds.append(f"discrete, one of {', one of '.join(map(str, policy.branches))}")
    memory = f"; a memory of {policy.memory_size} numbers for each agent" if policy.memory_size else ""
    return f"{'; '.join(kinds)}{memory}"


@dataclass(frozen=True)
class Training:
    """The run that made models."""

    record: RunRecord
    trust: Trust = field(default_factory=Trust)
    """What tells whether plug-ins that the run's settings name may be imported."""

    @property
    def environment(self) -> list[str]:
        """The environment as `--env` takes it, and its own arguments; empty if it is not known."""
        env = self.record.settings.get("env_settings")
        own = env.get("env_args") if isinstance(env, dict) else None
        path = self.record.environment
        return [path, *map(str, own if isinstance(own, list) else ())] if path else []

    @property
    def command(self) -> str | None:
        """The command that makes the models anew, without what concerns this machine or an earlier run."""
        words = [word for word in self.record.command if word not in _OF_EARLIER_RUNS]
        for flag in _OF_THIS_MACHINE:
            if flag in words[:-1]:
                at = words.index(flag)
                words[at : at + 2] = []
        return typed(words) if words else None

    def facts(self) -> list[tuple[str, str]]:
        """What is known of the run, as a label and a text each."""
        record = self.record
        found = [("Environment", " ".join(self.environment) or "unknown, or the engine's editor")]
        for one in record.behaviors:
            most = f" of {one.max_steps:,}" if one.max_steps else ""
            how, steps = (one.cloned, "gradient steps") if one.cloned else (one.trainer or "unknown", "steps")
            label = f"{'Cloning' if one.cloned else 'Training'} of {one.name}"
            found.append((label, f"{how}, {one.steps:,}{most} {steps}"))
        found.append(("Seed", "unknown" if record.seed is None else str(record.seed)))
        versions = [record.program or "unknown"]
        for key, name in (("pytorch_version", "PyTorch"), ("python_version", "Python")):
            if isinstance(record.metadata.get(key), str):
                versions.append(f"{name} {record.metadata[key].partition(' ')[0]}")
        return [*found, ("Versions", ", ".join(versions))]

    def settings(self) -> dict[str, Any]:
        """The settings that are not at their defaults, by path; empty if they cannot be read.

        They are read with the plug-ins that they name; if these are not trusted, that is said instead.
        """
        plugins = named_plugins(self.record.settings)
        if self.trust.refusal(Named(imports=plugins), self.record.path / "configuration.yaml"):
            return {"(not read)": f"they name plug-ins that are not trusted: {', '.join(plugins)}"}
        try:
            options = RunOptions.model_validate(self.record.settings, context=Notes())
        except (ValidationError, TrainerConfigError, PluginError):
            return {}
        tree = options.model_dump(mode="json", exclude_defaults=True, serialize_as_any=True)
        kept = {
            "behaviors": {
                name: {key: value for key, value in settings.items() if key not in _ELSEWHERE}
                for name, settings in (tree.get("behaviors") or {}).items()
            },
            "env_settings": {
                key: value
                for key, value in (tree.get("env_settings") or {}).items()
                if key in ("num_envs", "num_areas")
            },
            "environment_parameters": tree.get("environment_parameters") or {},
        }
        return {path: value for path, value in flattened(kept).items() if value != {}}


class ScoredBehavior(NamedTuple):
    """What the episodes of one behavior earned; of agents that earn as groups, what the groups did."""

    behavior: str
    episodes: int
    of_groups: bool
    mean: float
    std: float


@dataclass(frozen=True)
class Score:
    """The report of `lanista play`."""

    report: Mapping[str, Any]
    seed: int

    @property
    def actions(self) -> str:
        """How actions were chosen: `likeliest` or `sampled`."""
        return "likeliest" if self.report["actions"] == "deterministic" else "sampled"

    def rows(self) -> list[ScoredBehavior]:
        """The returns of each behavior."""
        behaviors: Mapping[str, Mapping[str, Any]] = self.report["behaviors"]
        earning = {
            BehaviorName.parse(name).name
            for name, one in behaviors.items()
            if one.get("mean_group_reward") or one.get("std_group_reward")
        }
        return [_scored(name, one, earning) for name, one in behaviors.items()]


def _scored(behavior: str, one: Mapping[str, Any], earning: Collection[str]) -> ScoredBehavior:
    """A row; `earning`: the behaviors of which some team's groups earn rewards, by which all are scored."""
    of_groups = "group_episodes" in one and BehaviorName.parse(behavior).name in earning
    episodes, mean, std = (
        ("group_episodes", "mean_group_reward", "std_group_reward")
        if of_groups
        else ("episodes", "mean_reward", "std_reward")
    )
    # Rounded here, so that all figures of a card are roundings of one number.
    return ScoredBehavior(behavior, one[episodes], of_groups, round(one[mean], 4), round(one[std], 4))


@dataclass(frozen=True)
class Card:
    """All that a model card tells."""

    name: str
    models: Sequence[ModelFile]
    trainings: Sequence[Training] = ()
    environment: Sequence[str] = ()
    """Where the models act, as `--env` takes it, and the environment's arguments; empty if unknown."""
    score: Score | None = None
    unknown: list[str] = field(default_factory=list)
    """What is not known, a sentence each."""
    download: str | None = None
    """The command that brings the models to another machine."""

    @property
    def trainers(self) -> list[str]:
        """The trainers of the runs, each once."""
        return sorted({trainer for training in self.trainings for trainer in training.record.trainers})

    @property
    def behaviors(self) -> list[str]:
        """The behaviors of the models, else of the runs, each once."""
        names = [model.behavior for model in self.models]
        names = names or [one.name for training in self.trainings for one in training.record.behaviors]
        return list(dict.fromkeys(names))

    @property
    def task(self) -> str | None:
        """What agents do in the environment, if it is a scene that comes with Lanista; else None."""
        kind, _, scene = self.environment[0].partition(":") if self.environment else ("", "", "")
        found = SCENES.get(scene.partition("?")[0]) if kind == "scene" else None
        return found.summary if found else None
