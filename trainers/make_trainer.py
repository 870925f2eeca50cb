"""The trainer of a behaviour, by what its settings ask for."""

from __future__ import annotations

import torch
from mlagents_envs.base_env import BehaviorSpec

from ..agent_processor.stats_sink import StatsSink
from ..envs.finite import NonFinite
from .algorithms import Algorithm, make_cloning, make_reward_providers
from .off_policy import OffPolicyTrainer
from .on_policy import OnPolicyTrainer
from .settings.behavior import TrainerSettings
from .settings.hyperparameters import OffPolicyHyperparamSettings
from .stats.timers import Timers
from .threads import UpdateThreads
from .trainer import Trainer, TrainerEvents


def make_trainer(
    name: str,
    spec: BehaviorSpec,
    settings: TrainerSettings,
    algorithm: Algorithm,
    stats: StatsSink,
    events: TrainerEvents,
    *,
    training: bool = True,
    non_finite: NonFinite = NonFinite.STOP,
    returns_kept: int = 1,
    seed: int = 0,
    device: torch.device,
    update_threads: UpdateThreads | None = None,
    timers: Timers | None = None,
    keeps_steps: bool = True,
) -> Trainer:
    """The trainer that lets `algorithm` learn, with its reward signals and, in training, its teacher.

    `seed` is the run's; the others are as of the trainers, `keeps_steps` of those with a replay.

    Raises:
        DemonstrationError: one that is to be learnt from cannot be read, or is not of this behaviour.
        TrainerError: a replay does not fit into the memory, or a plug-in's algorithm cannot be taught.
    """
    providers = make_reward_providers(algorithm, spec, settings, device, seed, non_finite)
    trainer: Trainer
    if isinstance(settings.hyperparameters, OffPolicyHyperparamSettings):
        trainer = OffPolicyTrainer(
            *(settings, algorithm, providers, stats, events, spec),
            name=name,
            training=training,
            non_finite=non_finite,
            returns_kept=returns_kept,
            seed=seed + 3,
            device=device,
            update_threads=update_threads,
            timers=timers,
            keeps_steps=keeps_steps,
        )
    else:
        trainer = OnPolicyTrainer(
            *(settings, algorithm, providers, stats, events),
            training=training,
            non_finite=non_finite,
            returns_kept=returns_kept,
            seed=seed + 3,
            device=device,
            update_threads=update_threads,
            timers=timers,
        )
    if training:
        trainer.cloning = make_cloning(algorithm, spec, settings, device, seed + 4, non_finite)
    return trainer
