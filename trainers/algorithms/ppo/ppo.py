"""Proximal policy optimization (Schulman et al. 2017, arXiv 1707.06347)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ...buffers.rollout_buffer import EvaluatedSteps, RolloutBatch, RolloutEvaluation
from ...networks.actor_critic import ActorCritic
from ...networks.modules.distributions import ActionDistribution
from ...networks.modules.passes import chunked_forward, widened
from ...networks.observations import to_tensors
from ...settings.models.algorithms import AdvantageNormalization, PPOSettings
from ...settings.models.behavior import TrainerSettings
from ..base import OnPolicyAlgorithm, Traits
from ..common.actions import require_some_actions
from ..common.optim import CheckedAdam, ClippedSchedules
from ..common.recurrent import CriticStates, padded, unroll
from ..common.returns import generalized_advantages
from ..fast.cuda_graphs import CapturedStep
from ..fast.ppo import FusedPPOGradient, Statistics
from .losses import (
    as_of_newest_policy,
    clipped_surrogate,
    clipped_value_loss,
    log_ratios,
    masked_mean,
    ratio_statistics,
)


class PPO(OnPolicyAlgorithm[EvaluatedSteps]):
    """The networks, the evaluation of rollouts, and the update."""

    name = "PPO"
    traits = Traits(loads_mlagents=True)
    steps_type = EvaluatedSteps
    network: ActorCritic
    hyper: PPOSettings
    learns_from_older = True

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and register the network, its optimizer and the shuffler of minibatches."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, PPOSettings)
        require_some_actions(self.spec.action_spec, settings.network_settings)
        init = torch.Generator().manual_seed(seed)
        network = ActorCritic(
            self.spec, settings.network_settings, self.signals, hyper.shared_critic, generator=init
        )
        self.network = network.to(self.device)
        self.optimizer = CheckedAdam(self.network.parameters(), hyper.learning_rate, self.non_finite)
        self.memories = CriticStates(self.network.memory(-1).size) if self.is_recurrent else None
        self.critic_states = [self.memories] if self.memories is not None else []
        is_faster = FusedPPOGradient.is_faster(self.network, hyper, self.precision)
        self.fused = FusedPPOGradient(self.network, hyper) if is_faster else None
        self.captured: CapturedStep[RolloutBatch] | None = None
        """The gradient step as captured for a GPU; None where it is not captured."""
        self.follow_schedules(ClippedSchedules.of(hyper, settings.max_steps), hyper)
        is_captured = not self.kl.is_needed and CapturedStep.is_faster(settings, self.device)
        if type(self) is PPO and is_captured:  # a plug-in's may do anything
            self.captured = CapturedStep(self._step_on_device, 3, self.optimizer.tensors())
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.register({"Policy": self.network}, {"Optimizer": self.optimizer}, {"shuffler": self.shuffler})
        if hyper.normalize_values:
            self.normalize_values(self.network.values)

    # Evaluation -----------------------------------------------------------------------------------------

    def evaluate(
        self, rollout: Rollout, rewards: Mapping[str, NDArray[np.float32]], ignores_done: Mapping[str, bool]
    ) -> RolloutEvaluation[EvaluatedSteps]:
        """Values, generalized advantages and returns per signal.

        After an episode's true end nothing more is earned: the bootstrap value is zero there, unless the
        episode was interrupted or the signal ignores dones.
        """
        self.warn_of_group_rewards(rollout)
        starts = None
        if self.memories is None:
            values, next_values = self._values(rollout)
        else:
            values, next_values, starts = self._recurrent_values(rollout, self.memories)
        if self.value_normalizer is not None:
            values, next_values = map(self.value_normalizer.restored, (values, next_values))
        ended = self.terminated(rollout)
        advantages = np.empty_like(values)
        for s, name in enumerate(self.signals):
            bootstrap = next_values[:, s] if ignores_done[name] else np.where(ended, 0.0, next_values[:, s])
            advantages[:, s] = generalized_advantages(
                rewards[name],
                values[:, s],
                bootstrap.astype(np.float32),
                self.gammas[s],
                self.hyper.lambd,
                rollout.lengths,
            )
        steps = EvaluatedSteps(
            **rollout.own("obs", "continuous", "discrete", "log_probs", "action_mask"),
            values=values,
            returns=advantages + values,
            advantages=advantages.mean(axis=1),
        )
        if starts is not None:
            steps = padded(steps, rollout, self.sequence_length, {"action_mask"}, critic_memory=starts)
        return RolloutEvaluation(steps, {"Value Estimate": values})

    @torch.inference_mode()
    def _values(self, rollout: Rollout) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The critic's values of the steps [steps, S] and of the next step of each trajectory [J, S]."""
        values = chunked_forward(self.network.value, self._critic_inputs(rollout)).cpu().numpy()
        return values[: rollout.steps], values[rollout.steps :]

    @torch.inference_mode()
    def _recurrent_values(
        self, rollout: Rollout, memories: CriticStates
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """Like `_values`, but through the critic's memory; also its states before each sequence."""
        encodings = chunked_forward(self.network.critic_encoding, self._critic_inputs(rollout))
        steps, following = encodings[: rollout.steps], encodings[rollout.steps :]
        outputs = unroll(self.network.memory(-1), memories, rollout, self.sequence_length, steps, following)
        assert outputs.following is not None
        values, next_values = self.network.values(outputs.steps), self.network.values(outputs.following)
        return values.cpu().numpy(), next_values.cpu().numpy(), outputs.starts

    def _critic_inputs(self, rollout: Rollout) -> list[Tensor]:
        """What the critic reads: the steps, then the next step of each trajectory."""
        obs = [
            np.concatenate([o[: rollout.steps], following])
            for o, following in zip(rollout.obs, rollout.next_obs, strict=True)
        ]
        return self.network.prepare(to_tensors(obs, self.device))

    # Update ---------------------------------------------------------------------------------------------

    def as_of_newest_policy(self, steps: EvaluatedSteps) -> EvaluatedSteps:
        """The steps with the newest policy's log-probabilities, and the weights newest / acting policy."""
        return as_of_newest_policy(steps, self.network, self.device, self.sequence_length)

    def update(self, steps: EvaluatedSteps, policy_step: int) -> dict[str, float]:
        """Learn from all steps for several epochs, in shuffled minibatches.

        Returns:
            The means of losses and statistics over the minibatches, and the values of the schedules.
        """
        learning_rate, epsilon, beta = self.schedules.at(policy_step)
        if self.value_normalizer is not None:
            self.value_normalizer.update(steps.returns, steps.real)
            returns, old_values = map(self.value_normalizer.normalized, (steps.returns, steps.values))
            steps = replace(steps, returns=returns, values=old_values)
        with torch.no_grad():
            inputs = self.network.encoder.prepare(to_tensors(steps.obs, self.device))
        hyper = self.hyper
        normalization = hyper.normalize_advantages
        rollout = RolloutBatch.of(
            steps,
            inputs,
            self.device,
            normalization=normalization,
            normalize_padding=hyper.normalize_padding,
        )

        def epoch() -> Iterator[RolloutBatch]:
            return rollout.minibatches(hyper.batch_size, self.shuffler, self.sequence_length)

        statistics: list[Statistics | Tensor] = []
        for batch in self.minibatches(epoch, hyper.num_epoch):
            if normalization is AdvantageNormalization.MINIBATCH:
                batch = batch.normalized()
            if self.captured is not None:
                statistics.append(self.captured(batch, learning_rate, epsilon, beta))
                continue
            of_batch = self._gradient(batch, epsilon, beta)
            statistics.append(of_batch)
            if not self.kl.goes_on(of_batch[2]):
                break
            self.optimizer.step(self.schedules.learning_rate(policy_step), policy_step)
        if self.captured is not None:
            self.optimizer.read_steps(policy_step)
        schedules = self.schedules.metrics(policy_step)
        if not statistics:
            self.warn_of_no_minibatch(len(steps))
            return schedules
        policy, value, mean_kl, mean_clip_fraction = _means(statistics)
        return {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            **schedules,
            "Policy/Approximate KL": mean_kl,
            "Policy/Clip Fraction": mean_clip_fraction,
        }

    def _gradient(self, batch: RolloutBatch, epsilon: float | Tensor, beta: float | Tensor) -> Statistics:
        """Write the gradient of the objective of a minibatch to each parameter's `grad`."""
        if self.fused is not None:
            return self.fused(batch, epsilon, beta)  # the objective below, differentiated by hand
        value_weight = self.hyper.value_coefficient
        with self.precision.passes(self.device):
            distribution, values = self._evaluate_actions(batch)
        distribution, values = distribution.widened(), widened(values)
        log_ratio = log_ratios(distribution, batch, self.hyper.ratio)
        ratio = torch.exp(log_ratio)
        policy_loss = -clipped_surrogate(ratio, batch.advantages, epsilon, batch.real)
        value_loss = masked_mean((batch.returns - values) ** 2, batch.real)
        entropy = masked_mean(distribution.entropy(), batch.real)
        loss = policy_loss + value_weight * value_loss - beta * entropy
        if self.hyper.clip_value_loss:
            clipped = clipped_value_loss(values, batch.old_values, batch.returns, epsilon, batch.real)
            unclipped = masked_mean((batch.returns - values) ** 2, batch.real)
            loss, value_loss = loss + value_weight * (clipped - unclipped), clipped
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        approx_kl, clip_fraction = ratio_statistics(log_ratio, ratio, epsilon, batch.real)
        return policy_loss.detach(), value_loss.detach(), approx_kl, clip_fraction

    def _step_on_device(self, batch: RolloutBatch, numbers: Tensor) -> Tensor:
        """Take a gradient step by the given learning rate, epsilon and beta; return the statistics."""
        learning_rate, epsilon, beta = numbers
        statistics = self._gradient(batch, epsilon, beta)
        self.optimizer.step_on_device(learning_rate)
        return torch.stack(statistics)

    def _evaluate_actions(self, batch: RolloutBatch) -> tuple[ActionDistribution, Tensor]:
        """The policy and the critic's values at every row."""
        if batch.actor_states is None or batch.critic_states is None:
            return self.network.evaluate(batch.inputs, batch.action_mask)
        return self.network.evaluate_with_memory(
            batch.inputs, batch.actor_states, batch.critic_states, batch.length, batch.action_mask
        )


def _means(statistics: Sequence[Statistics | Tensor]) -> list[float]:
    """The mean size of each statistic; tensors are read only here, since reading waits for the device."""
    means: list[float]
    if isinstance(statistics[0][0], Tensor):
        rows = [row if isinstance(row, Tensor) else torch.stack(row) for row in statistics]
        means = torch.stack(rows).cpu().double().abs().mean(0).tolist()  # Apple's GPUs have no double
    else:
        means = np.abs(np.array(statistics, dtype=np.float64)).mean(0).tolist()
    return means
