"""Off-policy trainers: store steps in a replay buffer and learn from batches sampled from it."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ...agent_processor.queues import StatsSink
from ...agent_processor.trajectory import Rollout
from ...envs.errors import DemonstrationError
from ..algorithms.base import OffPolicyAlgorithm, UpdateResult
from ..buffers.demonstrations import load_transitions
from ..buffers.replay.buffer import Replay
from ..buffers.replay.columns import ReplayLayout
from ..buffers.replay.demonstrations import DemonstrationReplay, rollout_of
from ..buffers.replay.memory_limit import check_memory, size_text
from ..buffers.replay.sampler import ReplayBatch, ReplaySampler
from ..buffers.replay.storage import load_replay, save_replay
from ..checkpoints.compatibility import Change
from ..checkpoints.rules import SIGNALS, Resumed
from ..rewards.absorbing import AbsorbingStates, with_ends
from ..rewards.base import RewardProvider, Rewards
from ..rewards.scaling import LARGEST_REWARD, RewardScaler
from ..rewards.transitions import Transitions
from ..settings.models.behavior import TrainerSettings
from ..settings.models.hyperparameters import InterruptedValue, OffPolicyHyperparamSettings, ReplaySettings
from ..utils import distributed
from ..utils.errors import TrainerError
from .context import TrainerEvents, TrainerOptions
from .schedules import UpdateSchedule
from .trainer import AVERAGE, Trainer

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger(__name__)

PASSES_PER_BATCH = 8
"""About how often per batch steps are processed."""
PASSES_OF_GPU = 2
"""About how often per batch steps are processed on a GPU, where ten take as long as a hundred."""
UPDATES_PER_PASS = 4
"""The fewest updates between two passes: a pass takes as long as an update of a small network."""
BURST = 32
"""Updates of a threaded trainer after which it publishes its weights, and can be paused."""
SPREAD = 32
"""Where updates are spread, one of so many that are due is made per call: the engine computes meanwhile."""


class OffPolicyTrainer(Trainer):
    """Collects steps of one behavior in a replay, and learns from batches of them again and again."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: OffPolicyAlgorithm,
        providers: Mapping[str, RewardProvider],
        stats: StatsSink,
        events: TrainerEvents,
        spec: BehaviorSpec,
        **options: Unpack[TrainerOptions],
    ) -> None:
        """Prepare to learn; the replay allocates memory as it fills. `options` as for `Trainer`.

        Raises:
            TrainerError: the replay, full, is larger than the memory that there is.
        """
        hyper = settings.hyperparameters
        assert isinstance(hyper, OffPolicyHyperparamSettings)
        of_updates = UPDATES_PER_PASS * hyper.steps_per_update
        passes = PASSES_PER_BATCH if algorithm.device.type == "cpu" else PASSES_OF_GPU
        super().__init__(
            settings,
            algorithm,
            providers,
            stats,
            events,
            advance_interval=max(hyper.batch_size // passes, min(hyper.batch_size, round(of_updates))),
            **options,
        )
        self.algorithm: OffPolicyAlgorithm = algorithm
        self.absorbing = AbsorbingStates.of(providers, settings.reward_signals)
        """The signals whose rewards go on after an episode's end."""
        self.hyper = hyper
        self.spread = options.get("spread_updates", False)
        self._saved_step: int | None = None
        """The step whose weights were saved, or loaded, last."""
        own = hyper if isinstance(hyper, ReplaySettings) else ReplaySettings()
        self.own = own
        """Lanista's own keys; a plug-in's trainer may have none of them."""
        self.updates = UpdateSchedule(hyper.steps_per_update, hyper.buffer_init_steps)
        self.signal_updates = UpdateSchedule(hyper.reward_signal_steps_per_update, hyper.buffer_init_steps)
        ignores = [providers[signal].ignores_done for signal in algorithm.signals]
        self.sampler = ReplaySampler(
            algorithm.gammas,
            ignores,
            self.device,
            self.seed,
            own.n_step,
            include_dones=bool(self.learned),
        )
        self.layout = self._layout(spec)
        self.replay: Replay | None = None
        """The replay; None until the first steps arrive."""
        self.demonstrations: DemonstrationReplay | None = None
        """What gives a share of each batch, if the settings ask for it."""
        self.demonstrated_scale: RewardScaler | None = None
        """The returns of the demonstrations, if rewards are normalized."""
        if self.training:
            check_memory(self.name, self.layout)
            self.demonstrations = self._demonstrations(spec)

    def _layout(self, spec: BehaviorSpec) -> ReplayLayout:
        algorithm = self.algorithm
        layout = ReplayLayout.of(
            spec,
            self.hyper.buffer_size,
            len(algorithm.signals),
            frame_stack=self.own.frame_stack,
            sequence_length=algorithm.sequence_length,
            memory_size=algorithm.network.memory_size,
            longest=self.settings.time_horizon,
            prioritized=self.own.prioritized_replay,
            extra=algorithm.extra_columns,
        )
        frames = self.own.frame_stack
        if frames > 1 and max(layout.stacks, default=1) == 1:
            logger.warning(
                "%s: frame_stack is %d, and no observation is an image of so many stacked frames "
                "(%s): the replay keeps each observation whole.",
                self.name,
                frames,
                ", ".join(map(str, layout.shapes)),
            )
        return layout

    def _demonstrations(self, spec: BehaviorSpec) -> DemonstrationReplay | None:
        """The steps of `demonstrations`, with the rewards that the environment gave for them.

        Raises:
            DemonstrationError: they cannot be read, are of another behavior, or cannot be learned from.
        """
        own = self.settings.demonstrations
        if own is None:
            return None
        rollout = rollout_of(load_transitions(own.demo_path, spec, own.partial_demos))
        rewards = self._demonstrated_rewards(rollout, own.demo_path)
        own_observation = self.own.interrupted_value is InterruptedValue.OWN_OBSERVATION
        found = DemonstrationReplay(rollout, rewards, self.layout, own.share, own_observation=own_observation)
        self.demonstrated_scale = RewardScaler.of(
            self.settings, self.algorithm.signals, self.algorithm.gammas
        )
        if self.demonstrated_scale is not None:
            self.demonstrated_scale.update(rollout, rewards)
        logger.info(
            "%s: %.3g %% of each minibatch are from %s demonstrated steps of %d episodes (%s).",
            self.name,
            100 * own.share,
            f"{rollout.steps:,}",
            len(rollout.lengths),
            own.demo_path,
        )
        return found

    def _demonstrated_rewards(self, rollout: Rollout, path: str) -> NDArray[np.float32]:
        """[steps, S]; 0 of learned signals, whose rewards are computed for each batch."""
        rewards = np.zeros((rollout.steps, len(self.algorithm.signals)), np.float32)
        for s, signal in enumerate(self.algorithm.signals):
            if signal not in self.learned:
                given = self.providers[signal].evaluate(rollout)
                rewards[:, s] = np.float32(self.strengths[signal]) * np.asarray(given, np.float32)
        if not (np.abs(rewards) <= LARGEST_REWARD).all():
            raise DemonstrationError(
                Path(path),
                f"a reward in it, times its strength, is {np.abs(rewards).max():.3g}; more than "
                f"{LARGEST_REWARD:g} cannot be learned from.",
            )
        if len(self.learned) < len(self.providers) and not rewards.any():
            logger.warning(
                "%s: all rewards in %s are 0: nothing that was done in it is known to be worth more than "
                "anything else.",
                self.name,
                path,
            )
        return rewards

    # Storing steps --------------------------------------------------------------------------------------

    def _store(self, rollout: Rollout, rewards: Rewards) -> None:
        kept, rewards, _ = self._drop_overflowing(rollout, rewards)
        if kept is None:
            return
        self._report_estimates(kept, self.algorithm.estimates(kept))
        if not self.should_still_train:
            return
        columns = self._columns(rewards)
        if self.reward_scale is not None:
            after = self.absorbing.at_ends(kept, kept.terminated) if self.absorbing else {}
            self.reward_scale.update(kept, self._columns(with_ends(rewards, after)))
        extra = self.algorithm.extra(kept)
        self._replay_for(kept).append(kept, columns, extra)

    def _columns(self, rewards: Rewards) -> NDArray[np.float32]:
        """[steps, S] the rewards of all signals."""
        return np.stack([rewards[signal] for signal in self.algorithm.signals], axis=1)

    def _replay_for(self, rollout: Rollout) -> Replay:
        """The replay, made when the first observations show whether images come as uint8."""
        if self.replay is None:
            dtypes = tuple(obs.dtype for obs in rollout.obs)
            if dtypes != self.layout.dtypes:
                self.layout = replace(self.layout, dtypes=dtypes)
                check_memory(self.name, self.layout)
            self.replay = self._make_replay(self.layout)
        return self.replay

    def _make_replay(self, layout: ReplayLayout) -> Replay:
        try:
            alpha = self.own.prioritized_alpha if self.own.prioritized_replay else None
            own_observation = self.own.interrupted_value is InterruptedValue.OWN_OBSERVATION
            return Replay(layout, alpha, own_observation=own_observation)
        except MemoryError as error:
            raise TrainerError(
                f"The behavior {self.name}: the system gives no {size_text(layout.nbytes())} of memory for "
                f"a replay of {layout.capacity:,} steps. Lower hyperparameters.buffer_size."
            ) from error

    def _on_engine_restart(self) -> None:
        super()._on_engine_restart()
        if not self.hyper.save_replay_buffer:
            self.replay = None  # a run that is resumed here has none, nor priorities that were learned

    def _before_summary(self) -> None:
        if self.training:
            for key, value in self.algorithm.metrics(self.step).items():
                self.stats.add_stat(key, value, AVERAGE)

    # Learning -------------------------------------------------------------------------------------------

    @property
    def _is_ready(self) -> bool:
        """Whether the replay holds a batch, or is full: there is room for whole sequences alone."""
        replay = self.replay
        return replay is not None and len(replay) >= min(self.hyper.batch_size, replay.layout.capacity)

    @property
    def has_overdue_updates(self) -> bool:
        """Whether updates are overdue: collectors faster than the thread then wait at the full queue."""
        due = self.updates.is_due(self.step) or self.signal_updates.is_due(self.step)
        may_learn = self.should_still_train and self._is_ready and not self._awaits_steps
        return self.settings.threaded and may_learn and due

    @property
    def _awaits_steps(self) -> bool:
        """Whether the weights stay, see `on_saved`, until more steps are counted, though updates are due.

        Where a call makes all updates that are due, none is left over when the weights are saved.
        """
        return (self.spread or self.settings.threaded) and self.step == self._saved_step

    def continue_updates(self) -> bool:
        """Make the next of the updates that are left over; see `Trainer`."""
        return self.spread and self.should_still_train and self._learn()

    def on_saved(self) -> None:
        """Note that the weights stay until more steps are counted; see `Trainer`."""
        self._saved_step = self.step

    @np.errstate(over="ignore", invalid="ignore")  # reported when the gradient turns out not to be finite
    def _learn(self) -> bool:
        replay = self.replay
        if not distributed.all_true(self._is_ready) or replay is None:
            return False
        if self._awaits_steps:
            return False
        metrics = self._update(replay)
        self._update_signals(replay)
        if metrics:
            self.events.on_update(_means(metrics))
        return bool(metrics) or self.has_overdue_updates

    def _update(self, replay: Replay) -> list[dict[str, float]]:
        """Make the updates that are due, or the next few; return the metrics of each gradient step."""
        metrics: list[dict[str, float]] = []
        if not self.updates.is_due(self.step):
            return metrics
        last = self._last_of_call(self.updates)
        with self.timers.span("_update_policy"), self.compute_context():
            while self.updates.updates != last and self.updates.is_due(self.step):
                metrics += [self._gradient_step(replay) for _ in range(self.own.gradient_steps)]
                self.updates.count()
        return metrics

    def _last_of_call(self, schedule: UpdateSchedule) -> int | None:
        """The number of updates with which this call ends though more are due; None: it makes all of them."""
        if self.settings.threaded:
            return schedule.updates + BURST
        return schedule.updates + math.ceil(schedule.due(self.step) / SPREAD) if self.spread else None

    def _gradient_step(self, replay: Replay) -> dict[str, float]:
        with self.timers.span("Replay.sample"):
            batch = self._batch(replay)
        result = self._learn_from(batch)
        self.sampler.update_priorities(replay, result.td_errors)
        for key, value in result.metrics.items():
            self.stats.add_stat(key, value, AVERAGE)
        return result.metrics

    def _learn_from(self, batch: ReplayBatch) -> UpdateResult:
        """Make the policy's own gradient step, and those on demonstrations."""
        with self.timers.span(f"Torch{type(self.algorithm).__name__}Optimizer.update"):
            metrics, td_errors = self.algorithm.update(batch, self.step)
            metrics |= self.algorithm.pop_gradient_norm()
        if self.cloning is not None:
            metrics = metrics | self.cloning.update(self.step)
        return UpdateResult(metrics, td_errors)

    def _batch(self, replay: Replay) -> ReplayBatch:
        """A batch, with the current rewards of the learned signals."""
        scale, demonstrations = None, self.demonstrations
        if self.reward_scale is not None:
            share = 0.0 if demonstrations is None else demonstrations.share
            scale = self.reward_scale.deviation(self.demonstrated_scale, share)
        batch = self.sampler.batch(replay, self.hyper.batch_size, self._beta(), scale, demonstrations)
        if self.learned:
            self._reward(batch, scale)
        return batch

    def _reward(self, batch: ReplayBatch, scale: NDArray[np.float32] | None) -> None:
        """Replace the stored rewards of learned signals by their current ones."""
        with_next = any(provider.needs_next_obs for provider in self.learned.values())
        steps = Transitions.of_replay(batch, with_next=with_next, with_padding=True)
        for signal, provider in self.learned.items():
            s = self.algorithm.signals.index(signal)
            rewards = self.strengths[signal] * provider.rewards(steps)
            if signal in self.absorbing.signals and batch.ended is not None:
                rewards = rewards + batch.ended * self.absorbing.worth(signal)
            batch.rewards[:, s] = rewards if scale is None else rewards / float(scale[s])

    def _beta(self) -> float:
        """The exponent of the importance-sampling weights at this step: 1 at max_steps."""
        start = self.own.prioritized_beta
        share = 0.0 if self.settings.endless else min(1.0, self.step / max(1, self.settings.max_steps))
        return start + (1.0 - start) * share

    def _update_signals(self, replay: Replay) -> None:
        """Train the learned signals, at their own interval; as `_update`, not always all steps at once."""
        last = self._last_of_call(self.signal_updates)
        while self.signal_updates.updates != last and self.signal_updates.is_due(self.step):
            if self.learned:
                self._signal_step(self.sampler.batch(replay, self.hyper.batch_size))
            self.signal_updates.count()

    def _signal_step(self, batch: ReplayBatch) -> None:
        """Make one gradient step of each signal, on the same batch."""
        with_next = any(provider.needs_next_obs for provider in self.learned.values())
        steps = Transitions.of_replay(batch, with_next=with_next, with_padding=False)
        for provider in self.learned.values():
            for key, value in provider.learn(steps, self.step).items():
                self.stats.add_stat(key, value, AVERAGE)

    # Files ----------------------------------------------------------------------------------------------

    def save_beside(self, folder: Path) -> None:
        """Write the replay if `save_replay_buffer` is set."""
        if self.hyper.save_replay_buffer and self.replay is not None:
            with self.timers.span("Replay.save"):
                save_replay(self.name, folder, self.replay, self.step)

    def load_beside(self, folder: Path, changed: Sequence[Change] = ()) -> None:
        """Restore the replay that was saved, or start with an empty one; also where settings have `changed`.

        Raises:
            TrainerError: its pictures came as numbers, and full it is larger than the memory that there is.
        """
        unfit = ", ".join(str(change) for change in changed if self._drops_replay(change))
        if unfit and self.reward_scale is not None:
            self.reward_scale.reset()
            self.shared_moments.rebase()
        if not self.hyper.save_replay_buffer:
            return
        self.replay = load_replay(self.name, folder, self._make_replay(self.layout), self.step, unfit)
        if self.replay is not None and self.replay.layout != self.layout:
            self.layout = self.replay.layout
            held = self.layout.nbytes() * len(self.replay) // self.layout.capacity
            check_memory(self.name, self.layout, held)

    def _drops_replay(self, change: Change) -> bool:
        """Whether saved steps do not fit a changed setting; rewards of learned signals are computed anew."""
        learned = any(change.path.startswith(f"{SIGNALS}.{name}.") for name in self.learned)
        return change.rule.resumed is Resumed.STEPS_DROPPED and not learned

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on, except the replay itself."""
        return {
            "reward_scale": None,
            **super().state_dict(),
            **self.sampler.state_dict(),
            "updates": [self.updates.updates, self.signal_updates.updates],
            "paces": [self.updates.interval, self.signal_updates.interval],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        super().load_state_dict(state)
        self.on_saved()
        made, of_signals = state.get("updates", (None, None))
        interval, signal_interval = state.get("paces", (None, None))
        self.updates.restore(self.step, made, interval)
        self.signal_updates.restore(self.step, of_signals, signal_interval)
        self.sampler.load_state_dict(state)


def _means(metrics: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each metric over the steps that have it, of at least one."""
    if len(metrics) == 1:
        return dict(metrics[0])
    keys = dict.fromkeys(key for step in metrics for key in step)
    return {key: fmean(step[key] for step in metrics if key in step) for key in keys}
