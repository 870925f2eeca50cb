"""What cannot be learnt by several learners together."""

from __future__ import annotations

from collections.abc import Iterator

from .behavior import TrainerSettings
from .options import RunOptions
from .registry import find_trainer, trainer_types
from .source import Path

PLACE: Path = ("torch_settings", "learners")
TOGETHER = ("cpu", "cuda")
"""Devices that several learners may have, each one of its own."""


def run_refusals(options: RunOptions) -> Iterator[tuple[Path, str]]:
    """Why the whole run cannot have so many learners."""
    learners, device = options.torch_settings.learners, options.torch_settings.device
    if learners > 1 and device is not None and device not in TOGETHER:
        yield (
            PLACE,
            f"found {learners}, and device (--torch-device) is {device!r}; several learners take the GPUs "
            "cuda:0, cuda:1 and so on, or the CPU: give cuda or cpu",
        )


def behavior_refusals(
    name: str | None, settings: TrainerSettings, learners: int
) -> Iterator[tuple[Path, str]]:
    """Why so many learners cannot learn such a behaviour; `name` None: the default settings."""
    if learners == 1:
        return
    whose = "default_settings" if name is None else f"the behavior {name}"
    kind = find_trainer(settings.trainer_type)
    if kind is not None and kind.available and not kind.learners:
        able = [name for name, kind in trainer_types.items() if kind.learners]
        yield (
            PLACE,
            f"found {learners}, and {whose} has trainer_type: {settings.trainer_type}, which learns in one "
            f"process alone ({', '.join(able)} in several): remove this key",
        )
        return
    hyper, memory = settings.hyperparameters, settings.network_settings.memory
    length = 1 if memory is None else memory.sequence_length
    units = max(hyper.batch_size // length, 1)
    if units < learners:
        of = "steps" if memory is None else f"whole sequences of {length} steps"
        yield (
            PLACE,
            f"found {learners}, and a minibatch of {whose} has {units} {of} (batch_size {hyper.batch_size}), "
            "of which each learner takes at least one: raise batch_size, or lower learners",
        )
