"""Whether the demonstrations that a configuration names are there, before a run begins."""

from __future__ import annotations

from collections.abc import Iterator

from ...envs.demonstrations.demonstration import demonstration_files
from ...envs.demonstrations.errors import DemonstrationError
from ..rewards.settings import GAILSettings
from ..settings.errors import Problem, TrainerConfigError
from ..settings.options import RunOptions
from ..settings.problems import dotted
from ..settings.source import Path
from ..settings.values import found


def check_demonstrations(options: RunOptions) -> None:
    """Refuse a run whose listed behaviours are to learn from files that are not there.

    What is in those that are there is looked at when agents of the behaviour appear.

    Raises:
        TrainerConfigError: naming each such key.
    """
    problems = []
    for path, demo in _demonstrations(options):
        try:
            demonstration_files(demo)
        except DemonstrationError as error:
            problems.append(Problem(dotted(path), f"found {found(demo)}. {error}", options.place(path)))
    if problems:
        raise TrainerConfigError(problems)


def _demonstrations(options: RunOptions) -> Iterator[tuple[Path, str]]:
    """Every key that names one, and what it says."""
    for name, behavior in options.behaviors.items():
        for signal, settings in behavior.reward_signals.items():
            if isinstance(settings, GAILSettings):
                yield ("behaviors", name, "reward_signals", signal, "demo_path"), settings.demo_path
        if behavior.behavioral_cloning is not None and not options.checkpoint_settings.inference:
            path = behavior.behavioral_cloning.demo_path
            yield ("behaviors", name, "behavioral_cloning", "demo_path"), path
