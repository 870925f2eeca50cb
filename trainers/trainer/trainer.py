"""What all trainers share: take trajectories in, count them and their rewards, say when something is due."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...agent_processor.processor import TrajectoryQueue
from ...agent_processor.rollout import only
from ...agent_processor.rollout import rollout as gather
from ...agent_processor.stats_sink import StatsSink
from ...agent_processor.trajectory import AgentKey, EpisodesForgotten, Rollout, Trajectory
from ...envs.base import StatsAggregationMethod
from ...envs.validation import NonFinite
from ..algorithms.base import Algorithm
from ..algorithms.imitation.behavioral_cloning import BehavioralCloning
from ..rewards.base import LearnedReward, RewardProvider
from ..settings.models.behavior import TrainerSettings
from ..stats.timers import Timers
from .episode_stats import EpisodeStats
from .schedules import StepSchedule

logger = logging.getLogger(__name__)

AVERAGE = StatsAggregationMethod.AVERAGE
SUMMARY_PORTIONS = 16
"""Steps wait for a pass at most until they are such a part of a summary: what is reported when they are made
(the entropy, lengths of episodes) then belongs to almost the same steps as what is reported by the pass."""
LARGEST_REWARD = 1e34
"""With larger ones returns could be infinite in 32 bits, and nothing infinite may be saved."""

Rewards = Mapping[str, NDArray[np.float32]]
"""[steps] of each signal, times its strength."""


class TrainerEvents(Protocol):
    """Whom a trainer tells what is due; the run writes the files."""

    def summary(self, step: int) -> bool:
        """The statistics so far belong to this multiple of `summary_freq`. True: `best` is due too."""
        ...

    def best(self) -> bool:
        """Save now, beside the checkpoints that are due: no policy was better. True: as of `checkpoint`."""
        ...

    def checkpoint(self) -> bool:
        """Save now. True: what has not been counted yet is to be dropped (the engines start afresh)."""
        ...

    def reached(self, mean: float) -> None:
        """The mean reward has reached `stop_at_reward`: the training is over."""
        ...

    def taken_in(self) -> None:
        """Trajectories were processed: the normaliser has seen them."""
        ...

    def updated(self, figures: Mapping[str, float]) -> None:
        """The policy has new weights; what came of the update, by statistics' names."""
        ...


class Trainer(ABC):
    """Takes in the trajectories of one behaviour; what is made of them is each kind of trainer's subject."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        providers: Mapping[str, RewardProvider],
        stats: StatsSink,
        events: TrainerEvents,
        *,
        training: bool,
        non_finite: NonFinite,
        timers: Timers | None,
        episodes: EpisodeStats,
        portion: int,
    ) -> None:
        self.settings = settings
        self.algorithm = algorithm
        self.providers = providers
        self.learned = {n: p for n, p in providers.items() if isinstance(p, LearnedReward)}
        """The signals that learn themselves."""
        self.strengths = {name: s.strength for name, s in settings.reward_signals.items()}
        self.stats = stats
        self.events = events
        self.training = training
        self.non_finite = non_finite
        self.timers = timers or Timers()
        self.clock = StepSchedule(settings.summary_freq, settings.checkpoint_interval)
        self.episodes = episodes
        self.episodes.by_worker = settings.worker_statistics
        self.queues: list[TrajectoryQueue] = []
        self.portion = max(1, min(portion, settings.summary_freq // SUMMARY_PORTIONS))
        """Agent-steps after which it is worth to `advance`."""
        self.cloning: BehavioralCloning | None = None
        """What teaches the policy by demonstrations, where something does."""
        self.reached: float | None = None
        """The `stop_at_reward` that was reached, which ends the training."""
        self._afresh = False
        self._warned = False

    @property
    def step(self) -> int:
        """Agent-steps counted so far."""
        return self.clock.step

    @property
    def should_still_train(self) -> bool:
        """Steps are still to be learnt from."""
        over = self.reached is not None or (not self.settings.endless and self.step > self.settings.max_steps)
        return self.training and not over

    # What each kind of trainer adds ---------------------------------------------------------------------

    @abstractmethod
    def _value(self, rollout: Rollout, rewards: Rewards) -> None:
        """Value the steps, report that, and keep them for what is to be learnt."""

    @abstractmethod
    def _learn(self) -> bool:
        """Update as far as it is due. Whether anything was."""

    def _forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """The unfinished episodes of all agents, of one environment's or of some of it will never end."""
        return

    def _before_summary(self) -> None:
        """Tell what is told at every summary."""
        return

    def save_beside(self, folder: Path) -> None:
        """Write what is too large for a checkpoint beside it, into `folder`."""
        return

    def load_beside(self, folder: Path) -> None:
        """Take over what `save_beside` wrote; the checkpoint's state is loaded already."""
        return

    # Taking in ------------------------------------------------------------------------------------------

    def subscribe(self, queue: TrajectoryQueue) -> None:
        """Take trajectories from this queue too."""
        self.queues.append(queue)

    def advance(self) -> bool:
        """Take in what lies in the queues, then learn as far as it is due. False: there was nothing to do."""
        something = self.take_in()
        if self._afresh:
            # A run that is resumed here acts before it learns.
            self._afresh = False
            return something
        return (self.should_still_train and self._learn()) or something

    def take_in(self) -> bool:
        """Take in what lies in the queues, without an update. False: there was nothing."""
        collected = [item for queue in self.queues for item in queue.drain()]
        if collected:
            self._take_in(collected)
            self.events.taken_in()
        return bool(collected)

    def _take_in(self, collected: Iterable[Trajectory | EpisodesForgotten]) -> None:
        """Process in as few passes as the summaries and checkpoints that fall due in between allow."""
        ready: list[Trajectory] = []

        def flush() -> None:
            if ready:
                with self.timers.span("process_trajectory"):
                    self.process(gather(ready, with_mates=self.algorithm.traits.needs_teammates))
                ready.clear()

        for trajectory in collected:
            if isinstance(trajectory, EpisodesForgotten):
                flush()
                self.episodes.forget(trajectory.env, trajectory.agent_ids)
                self._forget(trajectory.env, trajectory.agent_ids)
                continue
            length = len(trajectory)
            summary, checkpoint = self.clock.due_summary(length), self.clock.due_checkpoint(length)
            if summary is not None or checkpoint:
                flush()
            better = False
            if summary is not None:
                self.clock.pass_summary()
                self._before_summary()
                better = self.events.summary(summary)
            if checkpoint and self.training:
                self.clock.pass_checkpoint()
                if self.events.checkpoint():
                    return self._begin_afresh()
            elif better and self.events.best():
                return self._begin_afresh()
            self.clock.count(length)
            self.stats.set_stat("Step", float(self.step))
            ready.append(trajectory)
        flush()

    def _begin_afresh(self) -> None:
        """The engines are started anew: what was not counted yet is dropped."""
        self._afresh = True

    @np.errstate(over="ignore", invalid="ignore")  # said where the gradient is found to be no number
    def process(self, rollout: Rollout) -> None:
        """Value the steps, count the rewards, and keep the steps for the next update."""
        if self.training:
            self.algorithm.update_normalizer(rollout)
            for signal in self.learned.values():
                signal.observe(rollout)
        rewards = {
            name: np.float32(self.strengths[name]) * provider.evaluate(rollout)
            for name, provider in self.providers.items()
        }
        self._value(rollout, rewards)
        self.episodes.add(rollout, rewards, self.stats)
        self._look_at_reward()

    def _look_at_reward(self) -> None:
        """End the training where agents earn what they were to learn to earn."""
        wanted, mean = self.settings.stop_at_reward, self.episodes.record.recent_mean()
        if wanted is None or mean is None or mean < wanted or not self.should_still_train:
            return
        self.reached = wanted
        self.events.reached(mean)

    def _sift(self, rollout: Rollout, rewards: Rewards) -> tuple[Rollout | None, Rewards, list[AgentKey]]:
        """Without trajectories whose rewards are too large to be learnt from; the agents that lack one then.

        Raises:
            FloatingPointError: there are some, and `non_finite` is STOP.
        """
        too_large = _too_large(rollout, rewards)
        if too_large is None:
            return rollout, rewards, []
        first = int(np.argmax(too_large))
        steps = slice(start := int(rollout.lengths[:first].sum()), start + int(rollout.lengths[first]))
        largest = max(float(np.abs(column[steps]).max()) for column in rewards.values())
        self._leave_out(f"a reward of {rollout.agents[first]} is {largest:.3g}, times its strength")
        gaps = [rollout.agents[j] for j in np.flatnonzero(too_large).tolist()]
        if too_large.all():
            return None, {}, gaps
        kept = np.repeat(~too_large, rollout.lengths)
        return only(rollout, ~too_large), {name: column[kept] for name, column in rewards.items()}, gaps

    def _leave_out(self, found: str) -> None:
        """Some trajectories will not be learnt from: their numbers are finite, but too large.

        Raises:
            FloatingPointError: `non_finite` is STOP. The steps in the buffer can be learnt from and saved.
        """
        if self.non_finite is NonFinite.STOP:
            raise FloatingPointError(
                f"Nothing can be learnt from a trajectory before step {self.step}: {found}. Check the size "
                "of rewards and observations, set network_settings.normalize: true, or let such trajectories "
                "be left out with env_settings.non_finite: drop."
            )
        if not self._warned:
            self._warned = True
            logger.warning("Left out before step %d: %s. This is said once.", self.step, found)

    def _report_estimates(self, rollout: Rollout, estimates: Mapping[str, NDArray[np.float32]]) -> None:
        starts = np.cumsum(rollout.lengths) - rollout.lengths
        means = {
            kind: np.add.reduceat(columns, starts, axis=0) / rollout.lengths[:, None]
            for kind, columns in estimates.items()
        }
        for s, name in enumerate(self.algorithm.signals):
            for kind, of_trajectories in means.items():
                self.stats.add_stats(f"Policy/{name.capitalize()} {kind}", of_trajectories[:, s], AVERAGE)

    # Files ----------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        mismatches = self.algorithm.initialize_from(state)
        for name, signal in self.learned.items():
            unfit = signal.begin_with(state.get(f"signal:{name}", {}))
            mismatches += [f"signal:{name}.{what}" for what in unfit]
        return mismatches

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on."""
        return {
            **self.algorithm.state_dict(),
            "step": self.step,
            "due": self.clock.due(),
            "reached": self.reached,
            **self.episodes.state_dict(),
            **{f"signal:{name}": signal.state_dict() for name, signal in self.learned.items()},
            **({} if self.cloning is None else {"cloning": self.cloning.state_dict()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on exactly where `state_dict` was taken."""
        self.algorithm.load_state_dict(state)
        self.clock.restore(int(state["step"]), state.get("due"))
        self.episodes.load_state_dict(state)
        for name, signal in self.learned.items():
            signal.load_state_dict(state[f"signal:{name}"])
        if self.cloning is not None and "cloning" in state:
            self.cloning.load_state_dict(state["cloning"])
        reached, wanted = state.get("reached"), self.settings.stop_at_reward
        # With a higher goal than the one that was reached a resumed run trains on.
        over = reached is not None and wanted is not None and reached >= wanted
        self.reached = reached if over else None


def _too_large(rollout: Rollout, rewards: Rewards) -> NDArray[np.bool_] | None:
    """[J] in which trajectories a reward is above `LARGEST_REWARD`; None where it is in none."""
    fine = [np.abs(column) <= LARGEST_REWARD for column in rewards.values()]
    if all(column.all() for column in fine):
        return None
    starts = np.cumsum(rollout.lengths) - rollout.lengths
    return ~np.logical_and.reduceat(np.logical_and.reduce(fine), starts)
