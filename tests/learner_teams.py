"""Trainers beside each other, one that learns alone and one that leads a team, on the same steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from lanista.envs.validation import NonFinite
from lanista.trainers.algorithms.common.threads import UpdateThreads
from lanista.trainers.networks.modules.precision import Precision
from lanista.trainers.trainer import learner
from lanista.trainers.trainer.distributed.leader import LearnerTeam, described, learn_together
from lanista.trainers.trainer.distributed.worker import made_trainer
from lanista.trainers.trainer.trainer import Trainer
from line_runs import Runs
from trainer_surroundings import Record

SEED = 3


class Recording:
    """A run in one process: the behaviour that it had, and the rollouts that its trainer took in."""

    def __init__(self, monkeypatch: Any, runs: Runs, config: Path) -> None:
        self.rollouts: list[Any] = []
        self.of: tuple[Any, ...] = ()
        make, process = learner.make_trainer, Trainer.process

        def made(name: str, spec: Any, settings: Any, *rest: Any, **keys: Any) -> Trainer:
            self.of = (settings, name, spec, SEED, NonFinite.STOP, Precision.FLOAT32)
            return make(name, spec, settings, *rest, **keys)

        def processed(trainer: Trainer, rollout: Any) -> None:
            self.rollouts.append(rollout)
            process(trainer, rollout)

        with monkeypatch.context() as patched:
            patched.setattr(learner, "make_trainer", made)
            patched.setattr(Trainer, "process", processed)
            assert runs(str(config), "--run-id", "recorded", "--seed", str(SEED), "--force") == 0

    def trainer(self) -> Trainer:
        """A trainer of this behaviour, as it was at first; its `stats` is a `Record`."""
        return made_trainer(described(*self.of), torch.device("cpu"), UpdateThreads(1), Record())

    def leading(self, team: LearnerTeam) -> Trainer:
        """The same, which leads the team."""
        trainer = self.trainer()
        learn_together(team, trainer, *self.of[1:])
        return trainer

    def feed(self, trainer: Trainer, rollouts: int | None = None) -> None:
        """Let it take in what was recorded, and learn whenever it is due."""
        for rollout in self.rollouts[:rollouts]:
            trainer.clock.count(rollout.steps)
            trainer.process(rollout)
            while trainer.should_still_train and trainer._learn():
                pass


def numbers(state: Any, path: str = "") -> dict[str, np.ndarray]:
    """Every tensor and number of a state, by its path."""
    if isinstance(state, dict):
        pairs = state.items()
    elif isinstance(state, (list, tuple)):
        pairs = enumerate(state)
    elif isinstance(state, torch.Tensor):
        return {path: state.numpy().copy()}
    else:
        return {path: np.array(state)} if isinstance(state, (int, float)) else {}
    return {at: found for key, value in pairs for at, found in numbers(value, f"{path}.{key}").items()}
