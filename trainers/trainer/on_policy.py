"""On-policy trainers: collect a buffer of steps, update, and start over."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic

import numpy as np
import torch

from ...agent_processor.queues import StatsSink
from ...agent_processor.trajectory import AgentKey, Rollout
from ..algorithms.base import OnPolicyAlgorithm
from ..buffers.rollout_buffer import RolloutBuffer, Steps
from ..checkpoints.compatibility import Change
from ..checkpoints.rules import SEQUENCE_LENGTH, UNITS, Resumed
from ..rewards.absorbing import AbsorbingStates, with_ends
from ..rewards.base import RewardProvider, Rewards
from ..rewards.training import SignalTrainer
from ..settings.models.behavior import TrainerSettings
from ..utils import distributed
from .context import TrainerEvents, TrainerOptions
from .learner_process import LearnerProcess, UpdateJob
from .trainer import AVERAGE, Trainer

if TYPE_CHECKING:
    from typing_extensions import Unpack

logger = logging.getLogger(__name__)

LARGE_KL = 1.0
"""The approximate KL divergence of one update above which there is a warning."""
PASSES_PER_BUFFER = 64
"""About how many passes fill a buffer: what a pass costs depends on the call more than on the number of
steps, but the normalizer should soon know what the agents observe."""
FEWER_PASSES = 16
"""The number of passes for critics of teams, whose matrix products small passes would not fill, and on a GPU,
where a pass takes as long for ten steps as for a thousand. With fewer, updates would come late."""
LARGEST_SCALED_REWARD = 10.0
"""To which rewards that are divided by the deviation of returns are clipped, as in Stable-Baselines3."""
MAX_PASS_STEPS = 4096
"""The most steps of a pass: beyond this its overhead is negligible, and queued steps cost memory."""


class OnPolicyTrainer(Trainer, Generic[Steps]):
    """Collects trajectories of one behavior until there are enough, then updates and starts over."""

    def __init__(
        self,
        settings: TrainerSettings,
        algorithm: OnPolicyAlgorithm[Steps],
        providers: Mapping[str, RewardProvider],
        stats: StatsSink,
        events: TrainerEvents,
        **options: Unpack[TrainerOptions],
    ) -> None:
        """Prepare to collect; `options` as for `Trainer`."""
        few = algorithm.traits.is_team or algorithm.device.type != "cpu"
        passes = FEWER_PASSES if few else PASSES_PER_BUFFER
        interval = min(settings.hyperparameters.buffer_size // passes, MAX_PASS_STEPS)
        super().__init__(settings, algorithm, providers, stats, events, advance_interval=interval, **options)
        self.algorithm: OnPolicyAlgorithm[Steps] = algorithm
        self.absorbing = AbsorbingStates.of(providers, settings.reward_signals)
        """The signals whose rewards go on after an episode's end."""
        self.buffer = RolloutBuffer(algorithm.steps_type, settings.hyperparameters.buffer_size)
        self.learner_process: LearnerProcess | None = None
        """The process that makes updates while this trainer collects the next steps; None: this trainer
        does."""
        self._largest_kl = LARGE_KL
        """The largest approximate KL divergence of an update without a warning."""
        self._has_older = False
        """Whether some of the collected steps are of the policy before the newest one."""
        self.signal_trainer: SignalTrainer | None = None
        """The trainer of the learned signals; None if no signal has a network of its own."""
        if self.learned:
            hyper = settings.hyperparameters
            epochs = getattr(hyper, "num_epoch", 1)  # a plug-in's trainer may have none
            self.signal_trainer = SignalTrainer(
                self.learned, hyper.batch_size, epochs, self.device, self.seed
            )

    def _learn(self) -> bool:
        if self.learner_process is not None:
            self.learner_process.check()
        if not distributed.all_true(len(self.buffer) > self.settings.hyperparameters.buffer_size):
            return False
        self.finish_update()
        if self.learner_process is None:
            self._report_update(self._timed_update(self.step))
        else:
            self._begin_update(self.learner_process)
        return True

    def _timed_update(self, step: int) -> dict[str, float]:
        """Run `_update` with the threads of an update."""
        span = self.timers.span(f"Torch{type(self.algorithm).__name__}Optimizer.update")
        with self.timers.span("_update_policy"), self.compute_context(), span:
            return self._update(step)

    def _report_update(self, metrics: Mapping[str, float]) -> None:
        for key, value in metrics.items():
            self.stats.add_stat(key, value, AVERAGE)
        self.events.on_update(metrics)
        kl = metrics.get("Policy/Approximate KL", 0.0)
        if kl > self._largest_kl:
            self._largest_kl = 2 * kl  # from now on only much larger ones are warned of
            logger.warning(
                "%s: the policy changed by an approximate KL divergence of %.1f in one update, at step %d; "
                "below 0.05 is usual. A few such updates can undo what was learned: set "
                "hyperparameters.max_grad_norm (0.5), or lower learning_rate or num_epoch.",
                self.name,
                kl,
                self.step,
            )

    # In another process ---------------------------------------------------------------------------------

    def _begin_update(self, process: LearnerProcess) -> None:
        """Hand over the collected steps; the weights stay as they are until `finish_update`."""
        signals = None if self.signal_trainer is None else self.signal_trainer.buffer
        state, rows = self._process_state(), None if signals is None else signals.columns()
        process.begin(UpdateJob(self.step, state, self.buffer.columns(), rows, self._has_older))
        self.buffer.clear()
        self._has_older = False
        if signals is not None:
            signals.clear()

    def finish_update(self) -> None:
        """Wait for the update under way, and take it in; see `Trainer.finish_update`.

        What the evaluation of steps has changed meanwhile stays: the statistics of observations.
        """
        if self.learner_process is None or not self.learner_process.is_busy:
            return
        with self.timers.span("wait_for_learner"):
            finished = self.learner_process.result()
        seen = [largest.clone() for largest in self.algorithm.running_maxima()]
        with self.shared_moments.kept():
            self._load_process_state(finished.state)
        for largest, before in zip(self.algorithm.running_maxima(), seen):
            largest.copy_(torch.maximum(largest, before))
        self._has_older = len(self.buffer) > 0
        self._report_update(finished.metrics)

    def update(self, job: UpdateJob) -> tuple[dict[str, float], dict[str, Any]]:
        """Make an update that another process has asked for; return its metrics, and the state after it."""
        self._load_process_state(job.state)
        self.buffer.hold(self.algorithm.as_of_newest_policy(job.steps) if job.older else job.steps)
        if self.signal_trainer is not None:
            self.signal_trainer.buffer.hold(job.signal_steps)
        return self._timed_update(job.step), self._process_state()

    def _process_state(self) -> dict[str, Any]:
        state = self.learning_state()
        if self.signal_trainer is not None:
            state["signal_shuffler"] = self.signal_trainer.shuffler.get_state()
        return state

    def _load_process_state(self, state: Mapping[str, Any]) -> None:
        self.load_learning_state(state)
        if self.signal_trainer is not None:
            self.signal_trainer.shuffler.set_state(state["signal_shuffler"])

    def _store(self, rollout: Rollout, rewards: Rewards) -> None:
        kept, rewards, gaps = self._drop_overflowing(rollout, rewards)
        self._reset_critic(gaps)
        if kept is None:
            return
        rewards = self._scaled(kept, rewards)
        ignores = {name: provider.ignores_done for name, provider in self.providers.items()}
        # Evaluating teams computes as much as learning does, a single agent's critic hardly anything.
        with self.compute_context() if self.algorithm.traits.is_team else nullcontext():
            evaluation = self.algorithm.evaluate(kept, rewards, ignores)
        self._reset_critic(gaps)
        self._report_estimates(kept, evaluation.estimates)
        if not self.should_still_train:
            return
        if evaluation.steps.is_finite():
            self.buffer.append(evaluation.steps)
            if self.signal_trainer is not None:
                self.signal_trainer.append(kept)
        else:
            self._report_dropped("the critic's values or the advantages are not finite numbers")
            self._reset_critic(kept.agents)

    def _scaled(self, rollout: Rollout, rewards: Rewards) -> Rewards:
        """The rewards to learn from, divided by the deviation of returns if `normalize_rewards` is set.

        What an absorbing state is worth, the sum of many rewards, is included, and is not clipped.
        """
        after = self.absorbing.at_ends(rollout, self.algorithm.terminated(rollout)) if self.absorbing else {}
        if self.reward_scale is None:
            return with_ends(rewards, after)
        signals = self.algorithm.signals
        columns = np.stack([rewards[signal] for signal in signals], axis=1)
        if self.should_still_train:
            whole = with_ends(rewards, after)
            self.reward_scale.update(rollout, np.stack([whole[signal] for signal in signals], axis=1))
        deviations = self.reward_scale.deviation()
        scaled = (columns / deviations).clip(-LARGEST_SCALED_REWARD, LARGEST_SCALED_REWARD)
        for s, name in enumerate(signals):
            if name in after:
                scaled[:, s] += after[name] / deviations[s]
        return dict(zip(signals, scaled.T, strict=True))

    def _reset_critic(self, agents: Iterable[AgentKey]) -> None:
        """Drop what is kept of agents whose episodes have a gap, as the critic's recurrent states."""
        for env, of_env in groupby(sorted(set(agents)), key=attrgetter("env")):
            self._reset_agents(env, np.array([agent.agent for agent in of_env], dtype=np.int32))

    @np.errstate(over="ignore", invalid="ignore")
    def _update(self, step: int) -> dict[str, float]:
        """Learn from the buffer and empty it; return metrics by statistics' names."""
        steps = self.buffer.columns()
        metrics = self.algorithm.update(steps, step)
        metrics |= steps.explained_variances() | self.algorithm.pop_gradient_norm()
        if self.signal_trainer is not None:
            metrics |= self.signal_trainer.learn(step)
        if self.cloning is not None:
            metrics |= self.cloning.update(step)
        self.buffer.clear()
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """All that the next update depends on."""
        state = {**super().state_dict(), "buffer": self.buffer.state_dict()}
        if self._has_older:
            state["has_older"] = True
        if self.signal_trainer is not None:
            state["signal_learning"] = self.signal_trainer.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state_dict` was taken."""
        super().load_state_dict(state)
        self.buffer.load_state_dict(state["buffer"])
        if len(self.buffer):
            self._require_known_actions(self.buffer.columns())
        self._has_older = bool(state.get("has_older", False))
        if self.signal_trainer is not None:
            self.signal_trainer.load_state_dict(state["signal_learning"])

    def drop_unfit_steps(self, changed: Sequence[Change]) -> tuple[int, str]:
        """Drop steps that do not fit, see `Trainer`; also those in sequences of another length."""
        dropping = (Resumed.ROLLOUT_DROPPED, Resumed.STEPS_DROPPED)
        unfit = [one for one in changed if one.rule.resumed in dropping or one.rule is UNITS]
        why = ", ".join(map(str, unfit))
        if not len(self.buffer):
            return 0, why
        steps, length = self.buffer.columns(), self.algorithm.sequence_length
        if not why and not steps.consist_of(length):
            why = f"they are not in sequences of {length} steps ({SEQUENCE_LENGTH})"
        if not why:
            return 0, why
        self.buffer.clear()
        self._has_older = False
        if self.signal_trainer is not None:
            self.signal_trainer.buffer.clear()
        return steps.real_count(), why

    def _require_known_actions(self, steps: Steps) -> None:
        """Refuse restored steps with actions that the behavior does not have: they index probabilities."""
        sizes = self.algorithm.spec.action_spec.discrete_branches
        taken = getattr(steps, "discrete", None)
        if taken is not None and ((taken < 0) | (taken >= np.array(sizes, np.int64))).any():
            raise ValueError(f"buffer.discrete holds actions that its branches of sizes {sizes} do not have")
