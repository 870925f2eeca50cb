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
from ...agent_processor.trajectory import AgentKey, EpisodesForgotten, Rollout, Trajectory
from ...envs.base import StatsAggregationMethod
from ...envs.validation import NonFinitePolicy
from ..algorithms.base import Algorithm
from ..algorithms.fast.threads import UpdateThreads, flushed_denormals, torch_threads
from ..algorithms.imitation.behavioral_cloning import BehavioralCloning
from ..checkpoints.meaning import Change
from ..networks.fast.onednn import large_products
from ..networks.modules.normalizer import SharedMoments
from ..rewards.base import LearnedReward, NetworkSignal, RewardProvider
from ..settings.models.behavior import TrainerSettings
from ..stats.timers import Timers
from ..utils import distributed
from ..utils.errors import TrainerError
from .episode_stats import EpisodeStats
from .options import TrainerEvents, TrainerOptions
from .schedules import StepSchedule

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger(__name__)

AVERAGE = StatsAggregationMethod.AVERAGE
PASSES_PER_SUMMARY = 16
"""Queued steps are processed at least this often per summary: what is reported when they are collected (the
entropy, episode lengths) then covers almost the same steps as what is reported when they are processed."""
LARGEST_REWARD = 1e34
"""With larger rewards returns could be infinite in float32, and nothing infinite may be saved."""

Rewards = Mapping[str, NDArray[np.float32]]
"""[steps] of each signal, times its strength."""


class Trainer(ABC):
    """Processes the trajectories of one behavior; subclasses store them and learn from them."""

    from_demonstrations: ClassVar[bool] = False
    """Whether it learns without an environment."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: Algorithm,
        providers: Mapping[str, RewardProvider],
        stats: StatsSink,
        events: TrainerEvents,
        *,
        advance_interval: int,
        returns_since_update: int | None = None,
        **options: Unpack[TrainerOptions],
    ) -> None:
        """Prepare to process trajectories.

        Args:
            settings, algorithm, providers: the behavior's, and its reward signals by name.
            stats: gets the statistics.
            events: is called when something is due.
            advance_interval: decisions after which it is worth calling `advance`; summaries may lower it.
            returns_since_update: how many returns of finished episodes `mean_since_update` counts; None: all.
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
        self.training = options.get("training", True)
        self.non_finite = options.get("non_finite", NonFinitePolicy.STOP)
        self.seed = options.get("seed", 0)
        self.device = options.get("device") or torch.device("cpu")
        self.timers = options.get("timers") or Timers()
        threads = options.get("update_threads") or UpdateThreads()
        self.update_threads = threads.choose(algorithm.products(settings.hyperparameters.batch_size))
        self.dense_products: int | None = None
        # Beside a thread that updates, agents act a few at a time, for which oneDNN is slow.
        if not options.get("in_thread", False):
            self.dense_products = algorithm.dense_products(settings.hyperparameters.batch_size)
        self.schedule = StepSchedule(settings.summary_freq, settings.checkpoint_interval)
        self.episodes = EpisodeStats(
            list(providers),
            options.get("returns_kept", 1),
            groups=algorithm.traits.is_team,
            by_seat=settings.self_play is None,  # there the rating decides
            most_since_update=returns_since_update,
        )
        self.episodes.by_worker = settings.worker_statistics
        self.queues: list[TrajectoryQueue] = []
        self.advance_interval = max(1, min(advance_interval, settings.summary_freq // PASSES_PER_SUMMARY))
        """Decisions after which it is worth calling `advance`."""
        self.shared_moments = SharedMoments.of(self._modules())
        """The running statistics that the ranks of a run merge."""
        self.cloning: BehavioralCloning | None = None
        """Trains the policy on demonstrations, if the settings ask for it."""
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
        if self.reached is not None or not self.training:
            return False
        return self.schedule.step <= self.settings.max_steps or self.settings.endless

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
        """Make the updates that are due. Whether there were any."""

    def _reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the unfinished episodes of all agents, of one environment's, or of some of its agents."""
        return

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
        together = distributed.world_size() > 1
        if collected or together:
            self._process_collected(collected, together)
            self.events.on_steps_processed()
        return bool(collected)

    def _process_collected(self, collected: Sequence[Trajectory | EpisodesForgotten], together: bool) -> None:
        """Process in as few passes as the summaries and checkpoints that are due in between allow.

        Args:
            collected: by this rank.
            together: the other ranks process theirs, and all are counted as one trajectory.
        """
        if together:
            own = sum(len(item) for item in collected if not isinstance(item, EpisodesForgotten))
            length = int(distributed.sums(own)[0])
            if length and self._announce(length):
                return self._on_engine_restart()
            self._count(length)
        ready: list[Trajectory] = []

        def flush() -> None:
            if ready:
                with self.timers.span("process_trajectory"):
                    self.process(build_rollout(ready, with_teammates=self.algorithm.traits.needs_teammates))
                ready.clear()

        for trajectory in collected:
            if isinstance(trajectory, EpisodesForgotten):
                flush()
                self.episodes.reset_agents(trajectory.env, trajectory.agent_ids)
                self._reset_agents(trajectory.env, trajectory.agent_ids)
                continue
            if not together:
                length = len(trajectory)
                if self.schedule.summary_due(length) is not None or self.schedule.checkpoint_due(length):
                    flush()
                    if self._announce(length):
                        return self._on_engine_restart()
                self._count(length)
            ready.append(trajectory)
        flush()
        if together:
            self._agree()

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

    def _agree(self) -> None:
        """Give all ranks the same running statistics, and let rank 0 decide whether the goal is reached."""
        self.shared_moments.merge()
        for largest in self.algorithm.running_maxima():
            distributed.largest(largest)
        reached = distributed.rank() == 0 and self.reached is not None
        if distributed.sums(reached)[0]:
            self.reached = self.settings.stop_at_reward

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
        rewards = {
            name: np.float32(self.strengths[name]) * self._evaluate(name, provider, rollout)
            for name, provider in self.providers.items()
        }
        self._store(rollout, rewards)
        self.episodes.add(rollout, rewards, self.stats)
        self._check_stop_reward()

    @staticmethod
    def _evaluate(name: str, provider: RewardProvider, rollout: Rollout) -> NDArray[np.float32]:
        rewards = np.asarray(provider.evaluate(rollout), np.float32)
        if rewards.shape != (rollout.steps,):
            raise TrainerError(
                f"The reward signal {name} gave an array of shape {rewards.shape}, expected one reward for "
                f"each of the rollout's {rollout.steps} steps."
            )
        return rewards

    def _check_stop_reward(self) -> None:
        """End the training once the mean reward, in self-play the rating, has reached `stop_at_reward`."""
        wanted = self.settings.stop_at_reward
        if wanted is None or not self.should_still_train:
            return
        found = self.episodes.history.recent_mean()
        if found is None:
            return
        if self.rating is not None:
            found = self.rating()
        if found < wanted:
            return
        if distributed.rank():  # rank 0 decides for all
            return
        self.reached = wanted
        self.events.on_reward_reached(found)

    def _drop_overflowing(
        self, rollout: Rollout, rewards: Rewards
    ) -> tuple[Rollout | None, Rewards, list[AgentKey]]:
        """Drop trajectories whose rewards are too large to be learned from.

        Returns:
            The other trajectories, their rewards, and the agents whose trajectory was dropped.

        Raises:
            FloatingPointError: some are too large, and `non_finite` is STOP.
        """
        too_large = _too_large(rollout, rewards)
        if too_large is None:
            return rollout, rewards, []
        first = int(np.argmax(too_large))
        steps = slice(start := int(rollout.lengths[:first].sum()), start + int(rollout.lengths[first]))
        largest = max(float(np.abs(column[steps]).max()) for column in rewards.values())
        self._report_dropped(f"a reward of {rollout.agents[first]} is {largest:.3g}, times its strength")
        gaps = [rollout.agents[j] for j in np.flatnonzero(too_large).tolist()]
        if too_large.all():
            return None, {}, gaps
        kept = np.repeat(~too_large, rollout.lengths)
        return (
            select_trajectories(rollout, ~too_large),
            {name: column[kept] for name, column in rewards.items()},
            gaps,
        )

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
            Exception: of an update that failed in another process.
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
            unfit = signal.initialize_from(state.get(f"signal:{name}", {}))
            mismatches += [f"signal:{name}.{what}" for what in unfit]
        return mismatches

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on."""
        return {
            **self.learning_state(),
            "step": self.step,
            "due": self.schedule.next_due(),
            "reached": self.reached,
            **self.episodes.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        self.load_learning_state(state)
        self.schedule.restore(int(state["step"]), state.get("due"))
        self.episodes.load_state_dict(state)
        self.shared_moments.rebase()
        reached, wanted = state.get("reached"), self.settings.stop_at_reward
        # With a higher goal than the one that was reached, a resumed run keeps training.
        over = reached is not None and wanted is not None and reached >= wanted
        self.reached = reached if over else None


def _too_large(rollout: Rollout, rewards: Rewards) -> NDArray[np.bool_] | None:
    """[J] which trajectories have a reward above `LARGEST_REWARD`; None if there are none."""
    fine = [np.abs(column) <= LARGEST_REWARD for column in rewards.values()]
    if all(column.all() for column in fine):
        return None
    starts = np.cumsum(rollout.lengths) - rollout.lengths
    return ~np.logical_and.reduceat(np.logical_and.reduce(fine), starts)
