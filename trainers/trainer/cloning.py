"""Learns one behavior from demonstrations alone, without an environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...agent_processor.queues import StatsSink
from ...agent_processor.trajectory import Rollout
from ..algorithms.base import Algorithm
from ..algorithms.common.optim import LEARNING_RATE_FLOOR, Schedule
from ..algorithms.imitation.behavioral_cloning import LOSS, agreement
from ..buffers.demonstrations import Demonstrations, digest
from ..settings.models.behavior import TrainerSettings
from ..settings.models.rewards import BehavioralCloningSettings, CloneSettings
from ..utils.errors import CheckpointError
from .factory import cloning_from, make_values
from .options import TrainerEvents, TrainerOptions
from .trainer import AVERAGE, Rewards, Trainer

if TYPE_CHECKING:
    from typing_extensions import Unpack

DEMONSTRATIONS = "demonstrations"
"""The entry of a checkpoint that identifies what was learned from."""
SUMMARIES, CHECKPOINTS = 25, 5
"""Of a whole run."""
LONGEST = 100
"""The most gradient steps between two looks at what is due."""


def cloning_settings(settings: TrainerSettings, clone: CloneSettings) -> TrainerSettings:
    """The settings of a behavior for a run that counts gradient steps: when it ends, and what is due when."""
    steps = clone.gradient_steps
    given = settings.behavioral_cloning or BehavioralCloningSettings(demo_path=clone.demos[0])
    wanted = {
        "max_steps": steps,
        "summary_freq": max(1, steps // SUMMARIES),
        "checkpoint_interval": max(1, steps // CHECKPOINTS),
        "stop_at_reward": None,
        # No file of ML-Agents asks for a clone alone.
        "behavioral_cloning": given.model_copy(update={"engine_actions": given.engine_actions is not False}),
    }
    return settings.model_copy(update=wanted)


class CloningTrainer(Trainer):
    """Imitates demonstrations; its steps are gradient steps."""

    from_demonstrations = True

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        demos: Demonstrations,
        held_out: Demonstrations | None,
        stats: StatsSink,
        events: TrainerEvents,
        **options: Unpack[TrainerOptions],
    ) -> None:
        """Prepare to learn.

        Args:
            settings: of `cloning_settings`.
            algorithm: whose policy learns.
            demos: what it learns from.
            held_out: what it is measured by; None: it is not.
            stats, events, options: as of `Trainer`.
        """
        super().__init__(settings, algorithm, {}, stats, events, advance_interval=1, **options)
        assert settings.behavioral_cloning is not None
        self.demos, self.held_out = demos, held_out
        values = make_values(demos, algorithm, settings, self.device, self.seed + 1, self.non_finite)
        self.digest = digest(demos, outcomes=values is not None)
        self.imitation = self.cloning = cloning_from(
            demos=demos,
            cloning=settings.behavioral_cloning,
            algorithm=algorithm,
            settings=settings,
            device=self.device,
            seed=self.seed,
            non_finite=self.non_finite,
            values=values,
        )
        self.learning_rate = Schedule(
            self.imitation.rate, LEARNING_RATE_FLOOR, settings.max_steps, linear=True
        )

    @property
    def should_still_train(self) -> bool:
        """Whether gradient steps are left."""
        return self.step < self.settings.max_steps

    @property
    def limit(self) -> tuple[str, float]:
        """The key that says how many gradient steps there are."""
        return "clone.gradient_steps", self.settings.max_steps

    def _store(self, rollout: Rollout, rewards: Rewards) -> None:
        raise NotImplementedError("nothing is collected: there is no environment")

    def _learn(self) -> bool:
        """An epoch over the demonstrations, or a part of it; then what is due."""
        if self.step == 0:
            self.algorithm.update_normalizer(self.demos.obs)
        due = self.schedule.next_due()
        self.imitation.rate = self.learning_rate(self.step)
        most = min(self.imitation.minibatches, LONGEST, self.settings.max_steps - self.step)
        with self.timers.span("_update_policy"), self.compute_context():
            losses = self.imitation.epoch(self.step, most)
        self.schedule.count(len(losses))
        values = self.imitation.values
        metrics = {LOSS: float(np.mean(losses)), **({} if values is None else values.pop_metrics())}
        for key, value in metrics.items():
            self.stats.add_stat(key, value, AVERAGE)
        self.events.on_update(metrics)
        if self.step >= due["summary"] or not self.should_still_train:
            self._before_summary()
            self.events.on_summary(self.step)
        if self.step >= due["checkpoint"] and self.should_still_train:
            self.events.on_checkpoint()
        return True

    def _before_summary(self) -> None:
        self.stats.set_stat("Policy/Learning Rate", self.imitation.rate)
        if self.held_out is None:
            return
        with self.timers.span("held_out"):
            found = agreement(self.imitation.policy, self.held_out, self.device)
        for key, value in found.items():
            self.stats.set_stat(key, value)

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on, and what is learned from."""
        return {**super().state_dict(), DEMONSTRATIONS: self.digest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken.

        Raises:
            CheckpointError: with other demonstrations.
        """
        if state[DEMONSTRATIONS] != self.digest:
            raise CheckpointError(
                "The demonstrations are not those that the run has learned from so far, or others of their "
                "episodes are held out: give the same files, --held-out and --seed to resume it; or begin a "
                "new run with its weights, by --initialize-from."
            )
        super().load_state_dict(state)
