"""Multi-agent posthumous credit assignment (Cohen et al. 2021, arXiv 2111.05992).

A team's value is estimated from the observations of all members; a member's action is compared with a
baseline that knows the others' actions, but not its own. A member that dies continues to earn what its
team earns: its last step is bootstrapped with the survivors' value until the whole team has ended.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ...networks.modules.passes import widened
from ...settings.models.algorithms import BaselineClip, POCASettings
from ...utils.distributed import in_step
from ..base import Traits
from ..ppo.losses import VALUE_WEIGHT, clipped_surrogate, clipped_value_loss, masked_mean, ratio_statistics
from .minibatches import CriticBatch, TeamMinibatches
from .steps import TeamSteps
from .team_actor_critic import TeamActorCritic

BASELINE_WEIGHT = 0.5
"""Of the baseline loss, beside the value loss."""


class POCA(TeamActorCritic):
    """PPO's update with counterfactual advantages of the members."""

    name = "POCA"
    traits = Traits(is_team=True, needs_teammates=True, loads_mlagents=True)
    hyper: POCASettings

    def update(self, steps: TeamSteps, policy_step: int) -> dict[str, float]:
        """Several epochs over all steps, and over all group-steps for the critic, in shuffled minibatches.

        Returns:
            The means of losses and statistics over the minibatches, and the values of the schedules.
        """
        learning_rate, epsilon, beta = self.schedules.at(policy_step)
        steps = self.in_units(steps)
        source = TeamMinibatches(self.evaluator, steps, normalize_padding=self.hyper.normalize_padding)
        baseline_range = self._baseline_range(epsilon, steps)
        losses: list[Tensor] = []
        statistics: list[Tensor] = []
        for _ in range(self.hyper.num_epoch):
            for batch, critic in in_step(source.minibatches(self.hyper.batch_size, self.shuffler)):
                with self.precision.passes(self.device):
                    values, baselines = self._estimates(critic)
                    distribution = self.distribution(batch).widened()
                values, baselines = widened(values), widened(baselines)
                log_ratio = distribution.log_probs(batch.actions) - batch.old_log_probs
                ratio = torch.exp(log_ratio)
                policy_loss = -clipped_surrogate(ratio, batch.advantages, epsilon, batch.real)
                value_loss = masked_mean((critic.returns - values) ** 2, critic.real)
                entropy = masked_mean(distribution.entropy(), batch.real)
                if baseline_range is None:
                    baseline_loss = masked_mean((critic.returns - baselines) ** 2, critic.real)
                else:
                    baseline_loss = clipped_value_loss(
                        baselines, critic.old_baselines, critic.returns, baseline_range, critic.real
                    )
                loss = policy_loss + VALUE_WEIGHT * value_loss - beta * entropy
                loss = loss + VALUE_WEIGHT * BASELINE_WEIGHT * baseline_loss
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimizer.step(learning_rate, policy_step)
                losses.append(torch.stack((policy_loss, value_loss, baseline_loss)).detach())
                statistics.append(ratio_statistics(log_ratio, ratio, epsilon, batch.real))
        schedules = self.schedules.metrics(policy_step)
        if not losses:
            found = f"{len(steps)} steps are no whole minibatch of batch_size {self.hyper.batch_size}"
            self.optimizer.warn_once("Nothing was learned", found)
            return schedules
        policy, value, baseline = torch.stack(losses).abs().mean(0).tolist()
        approx_kl, clip_fraction = torch.stack(statistics).mean(0).tolist()
        return {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            **schedules,
            "Losses/Baseline Loss": baseline,
            "Policy/Approximate KL": approx_kl,
            "Policy/Clip Fraction": clip_fraction,
        }

    def _baseline_range(self, epsilon: float, steps: TeamSteps) -> Tensor | None:
        """[S] how far a baseline may move before the clipped error counts; None: as far as it wants."""
        if self.hyper.baseline_clip is BaselineClip.NONE:
            return None
        units = np.ones(steps.returns.shape[1], np.float32)
        if self.value_normalizer is not None:
            units /= self.value_normalizer.units()[1].cpu().numpy()
        if self.hyper.baseline_clip is BaselineClip.DEVIATION:
            units = steps.returns[slice(None) if steps.real is None else steps.real].std(axis=0)
        return torch.from_numpy(epsilon * units).to(self.device)

    def _estimates(self, batch: CriticBatch) -> tuple[Tensor, Tensor]:
        """The values and baselines of a minibatch's steps, [B, S] each."""
        encodings = self.evaluator.encode(batch.rows, batch.groups)
        if batch.order is not None:
            encodings = encodings.take(batch.order)
        if batch.value_states is None or batch.baseline_states is None:
            values, baselines = self.evaluator.estimate(encodings)
            assert baselines is not None, "this critic has baselines"
            return values, baselines
        assert encodings.of_baselines is not None, "this critic has baselines"
        memory, length = self.critic.memory(), self.sequence_length
        of_values, counts = encodings.steps(encodings.of_values)
        of_baselines, _ = encodings.steps(encodings.of_baselines)
        of_values, _ = memory(of_values, batch.value_states, length)
        of_baselines, _ = memory(of_baselines, batch.baseline_states, length)
        heads = self.critic.heads(torch.cat((of_values, of_baselines)), counts.repeat(2))
        return heads[: len(counts)], heads[len(counts) :]
