"""What all trainers share: process trajectories, count steps and rewards, and save what is due."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...agent_processor.processor import TrajectoryQueue
from ...agent_processor.queues import StatsSink
from ...agent_processor.rollout import build_rollout, select_trajectories
from ...agent_processor.trajectory import AgentKey, EpisodesDropped, Rollout, Trajectory
from ...envs.base import StatsAggregationMethod
from ...envs.validation import NonFinitePolicy
from ..algorithms.base import Algorithm
from ..algorithms.fast.threads import UpdateThreads, flushed_denormals, torch_threads
from ..algorithms.imitation.behavioral_cloning import BehavioralCloning
from ..checkpoints.compatibility import Change
from ..networks.fast.onednn import large_products
from ..networks.modules.normalizer import SharedMoments
from ..rewards.base import LearnedReward, NetworkSignal, RewardProvider, Rewards
from ..rewards.scaling import LARGEST_REWARD, RewardScaler
from ..settings.models.behavior import TrainerSettings
from ..stats.earned import EPISODES
from ..stats.timers import Timers
from ..utils import distributed
from ..utils.errors import TrainerError
from .context import TrainerEvents, TrainerOptions
from .episode_stats import EpisodeStats
from .schedules import StepSchedule

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger(__name__)

AVERAGE = StatsAggregationMethod.AVERAGE
PASSES_PER_SUMMARY = 16
"""Queued steps are processed at least this often per summary: what is reported when they are collected (the
entropy, episode lengths) then covers almost the same steps as what is reported when they are processed."""


class Trainer(ABC):
    """Processes the trajectories of one behavior; subclasses store them and learn from them.

    The weights that it updates are the algorithm's, and those of reward signals the signals'.
    """

    from_demonstrations: ClassVar[bool] = False
    """Whether the trainer learns without an environment."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        providers: Mapping[str, RewardProvider],
        stats: StatsSink,
        events: TrainerEvents,
        *,
        advance_interval: int,
        **options: Unpack[TrainerOptions],
    ) -> None:
        """Prepare to process trajectories.

        Args:
            settings, algorithm, providers: the behavior's, and its reward signals by name.
            stats: gets the statistics.
            events: is called when something is due.
            advance_interval: decisions after which it is worth calling `advance`; summaries may lower it.
            options: see `TrainerOptions`.
        """
        self.settings = settings
        self.algorithm = algorithm
        self.providers = providers
        self.learned = {n: p for n, p in providers.items() if isinstance(p, LearnedReward)}
        """The signals that learn themselves."""
        self.strengths = {name: s.strength for name, s in settings.reward_signals.items()}
        self.stats = stats
        self.events = events
        self.name = options.get("name", "")
        self.training = options.get("training", True)
        self.non_finite = options.get("non_finite", NonFinitePolicy.STOP)
        self.seed = options.get("seed", 0)
        self.device = options.get("device") or torch.device("cpu")
        self.timers = options.get("timers") or Timers()
        threads = options.get("update_threads") or UpdateThreads()
        size, in_thread = settings.hyperparameters.batch_size, options.get("in_thread", False)
        self.update_threads = threads.choose(algorithm.products(size))
        # Beside a thread that updates, agents act a few at a time, for which oneDNN is slow.
        self.dense_products = None if in_thread else algorithm.dense_products(size)
        self.schedule = StepSchedule(settings.summary_freq, settings.checkpoint_interval)
        self.episodes = EpisodeStats(
            list(providers),
            options.get("returns_kept", 1),
            groups=algorithm.traits.is_team,
            by_seat=settings.self_play is None,  # there the rating decides
        )
        self.episodes.by_worker = settings.worker_statistics
        self.queues: list[TrajectoryQueue] = []
        self.advance_interval = max(1, min(advance_interval, settings.summary_freq // PASSES_PER_SUMMARY))
        """Decisions after which it is worth calling `advance`."""
        self.reward_scale = RewardScaler.of(settings, algorithm.signals, algorithm.gammas)
        """By what rewards are divided before they are learned from; None: they are not."""
        self.shared_moments = SharedMoments.of(self._modules(), self.reward_scale)
        """The running statistics that the ranks of a run merge."""
        self.cloning: BehavioralCloning | None = None
        """What trains the policy on demonstrations, if the settings ask for it."""
        self.reached: float | None = None
        """The `stop_at_reward` that was reached, which ends the training."""
        self.rating: Callable[[], float] | None = None
        """Returns the policy's rating, in self-play; there `stop_at_reward` is one."""
        self._engines_restart = False
        self._warned = False

    @property
    def step(self) -> int:
        """Agent-steps counted so far."""
        return self.schedule.step

    @property
    def should_still_train(self) -> bool:
        """Whether steps are still to be learned from."""
        goes_on = self.training and self.reached is None
        return goes_on and (self.step <= self.settings.max_steps or self.settings.endless)

    @property
    def limit(self) -> tuple[str, float]:
        """The key of the behavior's settings that has ended the training, or will, and its value."""
        if self.reached is not None and self.settings.stop_at_reward is not None:
            return "stop_at_reward", self.settings.stop_at_reward
        return "max_steps", self.settings.max_steps

    # What each kind of trainer adds ---------------------------------------------------------------------

    @abstractmethod
    def _store(self, rollout: Rollout, rewards: Rewards) -> None:
        """Estimate values, report them, and store the steps for the next update."""

    @abstractmethod
    def _learn(self) -> bool:
        """Make the updates that are due; return whether there were any."""

    def _reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the unfinished episodes of all agents, of one environment's, or of some of its agents."""
        self.algorithm.reset_agents(env, agent_ids)
        if self.reward_scale is not None:
            self.reward_scale.reset_agents(env, agent_ids)

    def _before_summary(self) -> None:
        """Report the statistics that belong to every summary."""
        return

    def save_beside(self, folder: Path) -> None:
        """Write what is too large for a checkpoint into files beside it, in `folder`."""
        return

    def load_beside(self, folder: Path, changed: Sequence[Change] = ()) -> None:
        """Restore what `save_beside` wrote, except what does not fit `changed` settings.

        The checkpoint's state is already loaded.
        """
        return

    def drop_unfit_steps(self, changed: Sequence[Change]) -> tuple[int, str]:
        """Drop the steps of a loaded state that waited for the next update, if they do not fit the settings.

        Returns:
            How many they were, padding not counted, and why.
        """
        return 0, ""

    def _modules(self) -> list[nn.Module]:
        """All networks whose running statistics change as steps are processed."""
        signals = [signal for signal in self.learned.values() if isinstance(signal, NetworkSignal)]
        networks = [network for signal in signals for network in signal.networks.values()]
        return [*self.algorithm.modules().values(), *networks]

    @contextmanager
    def compute_context(self) -> Iterator[None]:
        """The threads of an update, the library of its matrix products, and what it takes for zero."""
        products = large_products(self.dense_products, self.device)
        with flushed_denormals(), torch_threads(self.update_threads), products:
            yield

    # Processing trajectories ----------------------------------------------------------------------------

    def subscribe(self, queue: TrajectoryQueue) -> None:
        """Process trajectories from this queue too."""
        self.queues.append(queue)

    @property
    def has_overdue_updates(self) -> bool:
        """Whether overdue updates are to be made before more trajectories are processed."""
        return False

    def advance(self) -> bool:
        """Process queued trajectories, then update, if that is due. False: there was nothing to do.

        Where updates are spread, some may be left over for `continue_updates`.
        """
        processed = not self.has_overdue_updates and self.process_queues()
        if self._engines_restart:
            # As in a run that is resumed here, which acts before it learns.
            self._engines_restart = False
            return processed
        return (self.should_still_train and self._learn()) or processed

    def continue_updates(self) -> bool:
        """Make the next of the updates that `advance` has left over. False: there was nothing to do."""
        return False

    def on_saved(self) -> None:
        """The weights were saved under the current step: until more steps are counted they stay."""
        return

    def process_queues(self) -> bool:
        """Process the queued trajectories, without an update. False: there were none."""
        collected = [item for queue in self.queues for item in queue.drain()]
        if distributed.world_size() > 1:
            self._process_with_ranks(collected)
        elif collected:
            self._process_collected(collected)
        else:
            return False
        self.events.on_steps_processed()
        return bool(collected)

    def _process_with_ranks(self, collected: Sequence[Trajectory | EpisodesDropped]) -> None:
        """Count what all ranks have collected as one trajectory, then process what this one has.

        All then have the same running statistics, and rank 0 decides whether the goal is reached.
        """
        own = sum(len(item) for item in collected if not isinstance(item, EpisodesDropped))
        length = int(distributed.sums(own)[0])
        if length and self._announce(length):
            return self._on_engine_restart()
        self._count(length)
        self._process_collected(collected, counted=True)
        self.shared_moments.merge()
        for largest in self.algorithm.running_maxima():
            distributed.all_reduce_max(largest)
        reached = distributed.rank() == 0 and self.reached is not None
        if distributed.sums(reached)[0]:
            self.reached = self.settings.stop_at_reward

    def _process_collected(
        self, collected: Sequence[Trajectory | EpisodesDropped], *, counted: bool = False
    ) -> None:
        """Process in as few passes as what is due in between allows, of steps that are not yet `counted`."""
        ready: list[Trajectory] = []
        for item in collected:
            if isinstance(item, EpisodesDropped):
                self._process_ready(ready)
                self.episodes.reset_agents(item.env, item.agent_ids)
                self._reset_agents(item.env, item.agent_ids)
                continue
            if not counted:
                if self.schedule.is_due(len(item)):
                    self._process_ready(ready)
                    if self._announce(len(item)):
                        return self._on_engine_restart()
                self._count(len(item))
            ready.append(item)
        self._process_ready(ready)

    def _process_ready(self, ready: list[Trajectory]) -> None:
        """Process these trajectories in one pass, and empty the list."""
        if ready:
            with self.timers.span("process_trajectory"):
                self.process(build_rollout(ready, with_teammates=self.algorithm.traits.needs_teammates))
            ready.clear()

    def _announce(self, length: int) -> bool:
        """Announce what is due before so many steps are counted. True: the engines restart."""
        summary, checkpoint = self.schedule.summary_due(length), self.schedule.checkpoint_due(length)
        better = False
        if summary is not None:
            self.schedule.advance_summary()
            self._before_summary()
            better = self.events.on_summary(summary)
        if checkpoint and self.training:
            self.schedule.advance_checkpoint()
            return self.events.on_checkpoint()
        return better and self.events.on_best_policy()

    def _count(self, length: int) -> None:
        self.schedule.count(length)
        self.stats.set_stat("Step", float(self.step))

    def _on_engine_restart(self) -> None:
        """The engines restart: what was not counted yet is dropped."""
        self._engines_restart = True

    @np.errstate(over="ignore", invalid="ignore")  # reported when the gradient turns out not to be finite
    def process(self, rollout: Rollout) -> None:
        """Compute rewards and value estimates, and store the steps for the next update."""
        if self.training:
            self.algorithm.update_normalizer(rollout.own("obs")["obs"])
            for signal in self.learned.values():
                signal.update_normalizer(rollout)
        rewards = {}
        for name, provider in self.providers.items():
            given = np.asarray(provider.evaluate(rollout), np.float32)
            if given.shape != (rollout.steps,):
                raise TrainerError(
                    f"The reward signal {name} gave an array of shape {given.shape}, expected one reward "
                    f"for each of the rollout's {rollout.steps} steps."
                )
            rewards[name] = np.float32(self.strengths[name]) * given
        self._store(rollout, rewards)
        self.episodes.add(rollout, rewards, self.stats)
        self._check_stop_reward()

    def _check_stop_reward(self) -> None:
        """End the training once the mean reward, in self-play the rating, has reached `stop_at_reward`."""
        wanted = self.settings.stop_at_reward
        if wanted is None or not self.should_still_train or distributed.rank():  # rank 0 decides for all
            return
        reached = self.episodes.history.recent_mean(EPISODES)
        if reached is not None and self.rating is not None:
            reached = self.rating()
        if reached is not None and reached >= wanted:
            self.reached = wanted
            self.events.on_reward_reached(reached)

    def _drop_overflowing(
        self, rollout: Rollout, rewards: Rewards
    ) -> tuple[Rollout | None, Rewards, list[AgentKey]]:
        """Drop trajectories with a reward above `LARGEST_REWARD`, which cannot be learned from.

        Returns:
            The other trajectories, their rewards, and the agents whose trajectory was dropped.

        Raises:
            FloatingPointError: some are too large, and `non_finite` is STOP.
        """
        fine = np.logical_and.reduce([np.abs(column) <= LARGEST_REWARD for column in rewards.values()])
        if fine.all():
            return rollout, rewards, []
        starts = np.cumsum(rollout.lengths) - rollout.lengths
        kept = np.logical_and.reduceat(fine, starts)
        first = int(np.argmin(kept))
        steps = slice(starts[first], starts[first] + rollout.lengths[first])
        largest = max(float(np.abs(column[steps]).max()) for column in rewards.values())
        self._report_dropped(f"a reward of {rollout.agents[first]} is {largest:.3g}, times its strength")
        gaps = [rollout.agents[j] for j in np.flatnonzero(~kept).tolist()]
        if not kept.any():
            return None, {}, gaps
        steps_kept = np.repeat(kept, rollout.lengths)
        rewards = {name: column[steps_kept] for name, column in rewards.items()}
        return select_trajectories(rollout, kept), rewards, gaps

    def _report_dropped(self, found: str) -> None:
        """Warn once that trajectories are dropped: their values are finite, but too large.

        Raises:
            FloatingPointError: `non_finite` is STOP. The steps in the buffer can be learned from and saved.
        """
        if self.non_finite is NonFinitePolicy.STOP:
            raise FloatingPointError(
                f"Nothing can be learned from a trajectory before step {self.step}: {found}. Check the scale "
                "of rewards and observations, set network_settings.normalize: true, or let such trajectories "
                "be dropped with env_settings.non_finite: drop."
            )
        if not self._warned:
            self._warned = True
            logger.warning("Dropped before step %d: %s. This is logged once.", self.step, found)

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

    def finish_update(self) -> None:
        """Have the weights of all updates that have begun: what is then saved or evaluated is the newest.

        Raises:
            Exception: the error of an update that failed in another process.
        """
        return

    def learning_state(self) -> dict[str, Any]:
        """What an update changes: networks, optimizers and random states, of signals and teachers too."""
        return {
            **self.algorithm.state_dict(),
            **{f"signal:{name}": signal.state_dict() for name, signal in self.learned.items()},
            **({} if self.cloning is None else {"cloning": self.cloning.state_dict()}),
        }

    def load_learning_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `learning_state` returned."""
        self.algorithm.load_state_dict(state)
        for name, signal in self.learned.items():
            signal.load_state_dict(state[f"signal:{name}"])
        if self.cloning is not None and "cloning" in state:
            self.cloning.load_state_dict(state["cloning"])

    def load_matching(self, state: Mapping[str, Any]) -> list[str]:
        """Load what fits of another run's `state_dict`; return the mismatches, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        mismatches = self.algorithm.initialize_from(state)
        for name, signal in self.learned.items():
            key = f"signal:{name}"
            mismatches += [f"{key}.{what}" for what in signal.initialize_from(state.get(key, {}))]
        return mismatches

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on."""
        return {
            **self.learning_state(),
            "step": self.step,
            "due": self.schedule.next_due(),
            "reached": self.reached,
            **self.episodes.state_dict(),
            **({} if self.reward_scale is None else {"reward_scale": self.reward_scale.state_dict()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        self.load_learning_state(state)
        self.schedule.restore(int(state["step"]), state.get("due"))
        self.episodes.load_state_dict(state)
        if self.reward_scale is not None and state.get("reward_scale") is not None:
            self.reward_scale.load_state_dict(state["reward_scale"])
        self.shared_moments.rebase()
        reached, wanted = state.get("reached"), self.settings.stop_at_reward
        # With a higher goal than the one that was reached, a resumed run keeps training.
        over = reached is not None and wanted is not None and reached >= wanted
        self.reached = reached if over else None
