"""The further learners of a run, and what the first one has to do with them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from mlagents_envs.base_env import BehaviorSpec

from ...envs.finite import NonFinite
from ...envs.processors import processors
from ..checkpoint_brain import describe_spec
from ..errors import TrainerError
from ..precision import Precision
from ..settings.behavior import TrainerSettings
from ..settings.options import RunOptions
from ..threads import MOST_UPDATE_THREADS, UpdateThreads
from ..trainer import Trainer
from .team import LearnerTeam


def shared_threads(options: RunOptions) -> UpdateThreads:
    """Processor threads of each of several learners; always as many, so that sums are rounded alike."""
    most = max(1, min(processors() // options.torch_settings.learners, MOST_UPDATE_THREADS))
    return UpdateThreads(
        options.torch_settings.num_threads or (1 if options.repeatable else most), fixed=True
    )


def learner_team(options: RunOptions, device: torch.device, logs: Path) -> LearnerTeam | None:
    """The further learners that the run is to have, started; None where it learns alone or not at all.

    Raises:
        TrainerError: there are too few GPUs, or one of the learners cannot begin.
    """
    size = options.torch_settings.learners
    if size == 1 or options.checkpoint_settings.inference:
        return None
    if device.type == "cuda" and torch.cuda.device_count() < size:
        raise TrainerError(
            f"torch_settings.learners (--learners): found {size}, and this machine has "
            f"{torch.cuda.device_count()} GPUs, of which each learner takes one. Give at most so many, or "
            "--torch-device cpu."
        )
    return LearnerTeam(size, device.type, logs, shared_threads(options).most)


def learn_together(
    team: LearnerTeam,
    trainer: Trainer,
    name: str,
    spec: BehaviorSpec,
    seed: int,
    non_finite: NonFinite,
    precision: Precision,
) -> None:
    """Let all learners have such a trainer; this one, which has the run's weights, leads them.

    Raises:
        LearnerLostError: a learner has gone.
    """
    with team.lock:
        team.tell({"behavior": described(trainer.settings, name, spec, seed, non_finite, precision)})
    trainer.share(team.sharing)
    trainer.lead = partial(team.lead, {"update": name})


def described(
    settings: TrainerSettings,
    name: str,
    spec: BehaviorSpec,
    seed: int,
    non_finite: NonFinite,
    precision: Precision,
) -> dict[str, Any]:
    """Plain values, by which every learner makes a trainer of such a behaviour (`made_trainer`)."""
    return {
        "name": name,
        "spec": describe_spec(spec),
        "settings": settings.as_dict(),
        "seed": seed,
        "non_finite": non_finite.value,
        "precision": precision.value,
    }
