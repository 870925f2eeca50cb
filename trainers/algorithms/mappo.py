"""Multi-agent proximal policy optimization (Yu et al. 2021, arXiv 2103.01955).

PPO for teams: each member acts by what it observes, and a critic that reads the observations of all members
says what the team can expect. Here it is POCA's critic of sets without baselines, so that members may come
and go: who is dead is not in the set, and a member's last step is bootstrapped with the value of those who
live on, until the whole team has ended.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..networks.modules.passes import widened
from ..settings.models.algorithms import MAPPOSettings
from .base import Traits
from .poca.minibatches import CriticBatch, TeamSteps, TeamValueSteps
from .poca.poca import TeamActorCritic
from .ppo.losses import (
    clipped_surrogate,
    clipped_value_loss,
    log_ratios,
    masked_mean,
    ratio_statistics,
)


class MAPPO(TeamActorCritic):
    """PPO's update with the generalized advantages of a team's value.

    The TD(lambda) return less the value is the generalized advantage estimate of the same lambda.
    """

    name = "MAPPO"
    traits = Traits(is_team=True, needs_teammates=True)
    steps_type = TeamValueSteps
    has_baselines = False
    hyper: MAPPOSettings

    def update(self, steps: TeamSteps, policy_step: int) -> dict[str, float]:
        """Several epochs over all steps, and over all group-steps for the critic, in shuffled minibatches.

        Returns:
            The means of losses and statistics over the minibatches, and the values of the schedules.
        """
        hyper = self.hyper
        _, epsilon, beta = self.schedules.at(policy_step)
        steps = self.in_units(steps)
        source = self.columns(steps)
        statistics: list[Tensor] = []
        for batch, critic in self.team_minibatches(source):
            with self.precision.passes(self.device):
                values, distribution = self._values(critic), self.distribution(batch).widened()
            values = widened(values)
            log_ratio = log_ratios(distribution, batch, hyper.ratio)
            ratio = torch.exp(log_ratio)
            policy_loss = -clipped_surrogate(ratio, batch.advantages, epsilon, batch.real)
            value_loss = masked_mean((critic.returns - values) ** 2, critic.real)
            if hyper.clip_value_loss:
                value_loss = clipped_value_loss(
                    values, critic.old_baselines, critic.returns, epsilon, critic.real
                )
            entropy = masked_mean(distribution.entropy(), batch.real)
            losses = torch.stack((policy_loss, value_loss)).detach().abs()
            kl_and_clipped = ratio_statistics(log_ratio, ratio, epsilon, batch.real)
            statistics.append(torch.cat((losses, kl_and_clipped)))
            if not self.kl.goes_on(kl_and_clipped[0]):
                break
            self.optimizer.zero_grad()
            loss = policy_loss + hyper.value_coefficient * value_loss - beta * entropy
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step(self.schedules.learning_rate(policy_step), policy_step)
        schedules = self.schedules.metrics(policy_step)
        if not statistics:
            self.warn_of_no_minibatch(len(steps))
            return schedules
        policy, value, approx_kl, clip_fraction = torch.stack(statistics).mean(0).tolist()
        return {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            **schedules,
            "Policy/Approximate KL": approx_kl,
            "Policy/Clip Fraction": clip_fraction,
        }

    def _values(self, batch: CriticBatch) -> Tensor:
        """The team's values at a minibatch's steps, [B, S]."""
        encodings = self.evaluator.encode(batch.rows, batch.groups)
        if batch.order is not None:
            encodings = encodings.take(batch.order)
        if batch.value_states is None:
            return self.evaluator.estimate(encodings)[0]
        of_values, counts = encodings.steps(encodings.of_values)
        of_values, _ = self.critic.memory()(of_values, batch.value_states, self.sequence_length)
        return self.critic.heads(of_values, counts)
