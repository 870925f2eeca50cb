"""What on-policy trainers share: drain the queues, evaluate, update, and say when something is due."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..agent_processor.queues import AgentManagerQueue
from ..agent_processor.rollout import rollout as gather
from ..agent_processor.stats_sink import StatsSink
from ..agent_processor.trajectory import Rollout, Trajectory
from ..envs.statistics import StatsAggregationMethod
from .clock import StepClock
from .episodes import EpisodeRewards
from .rewards.provider import RewardProvider
from .settings.behavior import TrainerSettings
from .threads import ACTING_THREADS, updating
from .update_buffer import EvaluatedSteps, Evaluation, UpdateBuffer

AVERAGE = StatsAggregationMethod.AVERAGE
PORTIONS = 64
"""A buffer is filled in about so many passes. A pass costs most by the call, not by the step; and the
normaliser should soon know what the agents see."""


class OnPolicyAlgorithm(Protocol):
    """What an algorithm adds: how it values steps, and how it learns from them."""

    signals: list[str]
    looks_at_mates: bool
    """Rollouts are to hold the teammates' steps too."""

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in these steps."""
        ...

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> Evaluation:
        """What the critic makes of the trajectories' own steps, given their rewards [steps] per signal."""
        ...

    def update(self, steps: EvaluatedSteps, policy_step: int) -> dict[str, float]:
        """Learn from the steps; figures by their statistics' names."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        ...


class TrainerEvents(Protocol):
    """Whom a trainer tells what is due; the run writes the files."""

    def summary(self, step: int) -> None:
        """The statistics so far belong to this multiple of `summary_freq`."""
        ...

    def checkpoint(self) -> bool:
        """Save now. True: what has not been counted yet is to be dropped (the engines start afresh)."""
        ...

    def updated(self) -> None:
        """The policy has new weights."""
        ...


class OnPolicyTrainer:
    """Collects trajectories of one behaviour until there are enough, then updates and starts over."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: OnPolicyAlgorithm,
        providers: Mapping[str, RewardProvider],
        stats: StatsSink,
        events: TrainerEvents,
        *,
        training: bool = True,
        returns_kept: int = 1,
        update_threads: int = ACTING_THREADS,
    ) -> None:
        self.settings = settings
        self.algorithm = algorithm
        self.providers = providers
        self.strengths = {name: s.strength for name, s in settings.reward_signals.items()}
        self.stats = stats
        self.events = events
        self.training = training
        self.update_threads = update_threads
        self.clock = StepClock(settings.summary_freq, settings.checkpoint_interval)
        self.buffer = UpdateBuffer()
        self.episodes = EpisodeRewards(list(providers), returns_kept)
        self.queues: list[AgentManagerQueue[Trajectory]] = []
        self.portion = max(1, settings.hyperparameters.buffer_size // PORTIONS)
        """Agent-steps after which it is worth to `advance`."""

    @property
    def step(self) -> int:
        """Agent-steps counted so far."""
        return self.clock.step

    @property
    def should_still_train(self) -> bool:
        """Steps are still to be learnt from."""
        return self.training and self.step <= self.settings.max_steps

    def subscribe(self, queue: AgentManagerQueue[Trajectory]) -> None:
        """Take trajectories from this queue too."""
        self.queues.append(queue)

    def advance(self) -> bool:
        """Take in what lies in the queues, update when there is enough. False: there was nothing to do."""
        trajectories = [t for queue in self.queues for t in queue.drain()]
        if trajectories:
            self._take_in(trajectories)
        if self.should_still_train and len(self.buffer) > self.settings.hyperparameters.buffer_size:
            self._update()
        return bool(trajectories)

    def _take_in(self, trajectories: Iterable[Trajectory]) -> None:
        """Process in as few passes as the summaries and checkpoints that fall due in between allow."""
        ready: list[Trajectory] = []

        def flush() -> None:
            if ready:
                self.process(gather(ready, with_mates=self.algorithm.looks_at_mates))
                ready.clear()

        for trajectory in trajectories:
            length = len(trajectory)
            summary, checkpoint = self.clock.due_summary(length), self.clock.due_checkpoint(length)
            if summary is not None or checkpoint:
                flush()
            if summary is not None:
                self.clock.pass_summary()
                self.events.summary(summary)
            if checkpoint and self.training:
                self.clock.pass_checkpoint()
                if self.events.checkpoint():
                    return
            self.clock.count(length)
            self.stats.set_stat("Step", float(self.step))
            ready.append(trajectory)
        flush()

    @np.errstate(over="ignore", invalid="ignore")  # said where the gradient is found to be no number
    def process(self, rollout: Rollout) -> None:
        """Value the steps, count the rewards, and keep the steps for the next update."""
        if self.training:
            self.algorithm.normalize(rollout)
        rewards = {
            name: np.float32(self.strengths[name]) * provider.evaluate(rollout)
            for name, provider in self.providers.items()
        }
        ignores = {name: provider.ignores_done for name, provider in self.providers.items()}
        evaluation = self.algorithm.evaluate(rollout, rewards, ignores)
        self._report_estimates(rollout, evaluation.estimates)
        if self.should_still_train:
            self.buffer.append(evaluation.steps)
        self.episodes.add(rollout, rewards, self.stats)

    def _report_estimates(self, rollout: Rollout, estimates: Mapping[str, NDArray[np.float32]]) -> None:
        starts = np.cumsum(rollout.lengths) - rollout.lengths
        for kind, columns in estimates.items():
            means = np.add.reduceat(columns, starts, axis=0) / rollout.lengths[:, None]
            for s, name in enumerate(self.algorithm.signals):
                self.stats.add_stats(f"Policy/{name.capitalize()} {kind}", means[:, s], AVERAGE)

    @np.errstate(over="ignore", invalid="ignore")
    def _update(self) -> None:
        self.episodes.begin_update()
        with updating(self.update_threads):
            figures = self.algorithm.update(self.buffer.columns(), self.step)
        for key, value in figures.items():
            self.stats.add_stat(key, value, AVERAGE)
        self.buffer.clear()
        self.events.updated()

    def end_episode(self, env: int | None = None) -> None:
        """The unfinished episodes of one environment, or of all, will never end."""
        self.episodes.forget(env)

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on."""
        return {
            **self.algorithm.state_dict(),
            "step": self.step,
            "due": self.clock.due(),
            "buffer": self.buffer.state_dict(),
            "returns": list(self.episodes.recent_returns),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        self.algorithm.load_state_dict(state)
        self.clock.restore(int(state["step"]), state.get("due"))
        self.buffer.load_state_dict(state["buffer"])
        self.episodes.recent_returns.extend(state["returns"])
