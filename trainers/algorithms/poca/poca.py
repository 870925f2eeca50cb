"""Multi-agent posthumous credit assignment (Cohen et al. 2021, arXiv 2111.05992).

A team's value is estimated from the observations of all members; a member's action is compared with a
baseline that knows the others' actions, but not its own. A member that dies continues to earn what its
team earns: its last step is bootstrapped with the survivors' value until the whole team has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....agent_processor.trajectory import Rollout
from ...buffers.rollout_buffer import RolloutBatch, RolloutEvaluation
from ...networks.actor import Actor
from ...networks.modules.distributions import ActionDistribution
from ...networks.modules.passes import widened
from ...networks.observations import require_equal_groups
from ...networks.team_critic import TeamCritic
from ...settings.models.algorithms import (
    AdvantageNormalization,
    BaselineClip,
    PaddedObjectiveSettings,
    POCASettings,
)
from ...settings.models.behavior import TrainerSettings
from ..base import OnPolicyAlgorithm, Traits
from ..common.actions import require_some_actions
from ..common.optim import CheckedAdam, ClippedSchedules
from ..common.recurrent import padded
from ..common.returns import lambda_returns
from ..ppo.losses import (
    as_of_newest_policy,
    clipped_surrogate,
    clipped_value_loss,
    log_ratios,
    masked_mean,
    ratio_statistics,
)
from .minibatches import REPEATED_IN_PADDING, CriticBatch, TeamMinibatch, TeamMinibatches, TeamSteps
from .team_values import TeamEvaluator


class TeamActorCritic(OnPolicyAlgorithm[TeamSteps]):
    """An actor that each member has for itself, and a critic of the set of all members."""

    steps_type: type[TeamSteps] = TeamSteps
    network: Actor
    hyper: PaddedObjectiveSettings
    learns_from_older = True
    has_baselines: ClassVar[bool] = True
    """Whether advantages are measured against baselines of each member's own, not the team's value."""

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and register the actor, the team's critic, the evaluator and the optimizer."""
        hyper, network = settings.hyperparameters, settings.network_settings
        assert isinstance(hyper, PaddedObjectiveSettings)
        require_some_actions(self.spec.action_spec, settings.network_settings)
        init = torch.Generator().manual_seed(seed)
        self.network = Actor(self.spec, network, init).to(self.device)
        of_critic = network.critic or network
        critic = TeamCritic(self.spec, of_critic, self.signals, init, has_baselines=self.has_baselines)
        self.critic = critic.to(self.device)
        require_equal_groups(self.network.encoder, self.critic.encoder)
        length = self.sequence_length if self.is_recurrent else 0
        self.evaluator = TeamEvaluator(self.network, self.critic, self.device, length)
        self.critic_states = [self.evaluator.value_states, self.evaluator.baseline_states]
        parameters = [*self.network.parameters(), *self.critic.parameters()]
        self.optimizer = CheckedAdam(parameters, hyper.learning_rate, self.non_finite)
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.follow_schedules(ClippedSchedules.of(hyper, settings.max_steps), hyper)
        modules: dict[str, nn.Module] = {"Policy": self.network, "Critic": self.critic}
        self.register(modules, {"Optimizer": self.optimizer}, {"shuffler": self.shuffler})
        if hyper.normalize_values:
            self.normalize_values(self.critic.values)

    def columns(self, steps: TeamSteps) -> TeamMinibatches:
        """The columns of an update."""
        hyper = self.hyper
        normalization, normalize_padding = hyper.normalize_advantages, hyper.normalize_padding
        return TeamMinibatches(
            self.evaluator, steps, normalization=normalization, normalize_padding=normalize_padding
        )

    def team_minibatches(self, source: TeamMinibatches) -> Iterator[TeamMinibatch]:
        """The minibatches of an update, with the advantages that the objective has."""
        hyper = self.hyper
        by_minibatch = hyper.normalize_advantages is AdvantageNormalization.MINIBATCH
        for batch, critic in self.minibatches(
            lambda: source.minibatches(hyper.batch_size, self.shuffler), hyper.num_epoch
        ):
            yield TeamMinibatch(batch.normalized() if by_minibatch else batch, critic)

    def evaluate(
        self, rollout: Rollout, rewards: Mapping[str, NDArray[np.float32]], ignores_done: Mapping[str, bool]
    ) -> RolloutEvaluation[TeamSteps]:
        """Values, baselines and TD(lambda) returns per signal.

        Nothing more is earned only once the whole team has truly ended: then the bootstrap value is zero,
        unless the signal continues regardless.
        """
        estimates = self.evaluator.evaluate(rollout)
        if self.value_normalizer is not None:
            values, baselines, following = map(self.value_normalizer.restored, estimates[:3])
            estimates = estimates._replace(values=values, baselines=baselines, next_values=following)
        ended = self.terminated(rollout)
        returns = np.empty_like(estimates.values)
        for s, name in enumerate(self.signals):
            following = estimates.next_values[:, s]
            bootstrap = following if ignores_done[name] else np.where(ended, 0.0, following)
            returns[:, s] = lambda_returns(
                rewards[name],
                estimates.values[:, s],
                bootstrap.astype(np.float32),
                self.gammas[s],
                self.hyper.lambd,
                rollout.lengths,
            )
        steps = self.steps_type.of(rollout, estimates.baselines, returns)
        if estimates.value_starts is not None:
            states = {"value_memory": estimates.value_starts}
            if estimates.baseline_starts is not None:
                states["baseline_memory"] = estimates.baseline_starts
            steps = padded(steps, rollout, self.sequence_length, REPEATED_IN_PADDING, **states)
        reported = {"Value Estimate": estimates.values}
        if self.has_baselines:
            reported = {"Baseline Estimate": estimates.baselines, **reported}
        return RolloutEvaluation(steps, reported)

    def terminated(self, rollout: Rollout) -> NDArray[np.bool_]:
        """[J] whether the whole team has truly ended."""
        return rollout.terminated & rollout.all_group_dones

    def running_maxima(self) -> list[Tensor]:
        """The size of the largest team."""
        return [self.critic.largest]

    def as_of_newest_policy(self, steps: TeamSteps) -> TeamSteps:
        """The steps with the newest policy's log-probabilities, and the weights newest / acting policy."""
        return as_of_newest_policy(steps, self.network, self.device, self.sequence_length)

    def in_units(self, steps: TeamSteps) -> TeamSteps:
        """The steps of an update with returns and baselines in the units in which the critic learns.

        The statistics behind these units count the returns first.
        """
        if self.value_normalizer is None:
            return steps
        self.value_normalizer.update(steps.returns, steps.real)
        returns, baselines = map(self.value_normalizer.normalized, (steps.returns, steps.baselines))
        return replace(steps, returns=returns, baselines=baselines)

    def distribution(self, batch: RolloutBatch) -> ActionDistribution:
        """The policy at a minibatch's steps."""
        if batch.actor_states is None:
            return self.network.act(batch.inputs, batch.action_mask)
        distribution, _ = self.network.act_with_memory(
            batch.inputs, batch.actor_states, batch.length, batch.action_mask
        )
        return distribution


BASELINE_WEIGHT = 0.5
"""The weight of the baseline loss, relative to the value loss."""


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
        hyper = self.hyper
        _, epsilon, beta = self.schedules.at(policy_step)
        steps = self.in_units(steps)
        source = self.columns(steps)
        baseline_range = self._baseline_range(epsilon, steps)
        losses: list[Tensor] = []
        statistics: list[Tensor] = []
        for batch, critic in self.team_minibatches(source):
            with self.precision.passes(self.device):
                values, baselines = self._estimates(critic)
                distribution = self.distribution(batch).widened()
            values, baselines = widened(values), widened(baselines)
            log_ratio = log_ratios(distribution, batch, hyper.ratio)
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
            loss = policy_loss + hyper.value_coefficient * value_loss - beta * entropy
            loss = loss + hyper.value_coefficient * BASELINE_WEIGHT * baseline_loss
            losses.append(torch.stack((policy_loss, value_loss, baseline_loss)).detach())
            statistics.append(ratio_statistics(log_ratio, ratio, epsilon, batch.real))
            if not self.kl.goes_on(statistics[-1][0]):
                break
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step(self.schedules.learning_rate(policy_step), policy_step)
        schedules = self.schedules.metrics(policy_step)
        if not losses:
            self.warn_of_no_minibatch(len(steps))
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
