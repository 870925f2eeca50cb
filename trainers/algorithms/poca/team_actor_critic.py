"""What the trainers with a critic of sets have in common: networks, and the evaluation of rollouts."""

from __future__ import annotations

from collections.abc import Mapping
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
from ...networks.observations import require_equal_groups
from ...networks.team_critic import TeamCritic
from ...settings.models.algorithms import PaddedObjectiveSettings
from ...settings.models.behavior import TrainerSettings
from ..base import OnPolicyAlgorithm, require_some_actions
from ..common.optim import CheckedAdam, ClippedSchedules
from ..common.proximal import as_of_newest_policy
from ..common.recurrent import padded
from ..common.returns import lambda_returns
from .steps import REPEATED_IN_PADDING, TeamSteps
from .team_values import TeamEvaluator


class TeamActorCritic(OnPolicyAlgorithm[TeamSteps]):
    """An actor that each member has for itself, and a critic of the set of all members."""

    steps_type: type[TeamSteps] = TeamSteps
    network: Actor
    hyper: PaddedObjectiveSettings
    learns_from_older = True
    has_baselines: ClassVar[bool] = True
    """Advantages are measured against baselines of each member's own, not against the team's value."""

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        hyper, network = settings.hyperparameters, settings.network_settings
        assert isinstance(hyper, PaddedObjectiveSettings)
        require_some_actions(self.spec.action_spec)
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
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)
        modules: dict[str, nn.Module] = {"Policy": self.network, "Critic": self.critic}
        self.register(modules, {"Optimizer": self.optimizer}, {"shuffler": self.shuffler})
        if hyper.normalize_values:
            self.normalize_values(self.critic.values)

    def evaluate(
        self, rollout: Rollout, rewards: Mapping[str, NDArray[np.float32]], ignores_done: Mapping[str, bool]
    ) -> RolloutEvaluation[TeamSteps]:
        """Values, baselines and TD(lambda) returns per signal.

        Nothing more is earned only once the whole team has truly ended: then the bootstrap value is zero,
        unless the signal continues regardless.
        """
        found = self.evaluator.evaluate(rollout)
        if self.value_normalizer is not None:
            values, baselines, following = map(self.value_normalizer.restored, found[:3])
            found = found._replace(values=values, baselines=baselines, next_values=following)
        ended = rollout.done_reached & rollout.all_group_dones & ~rollout.interrupted_at_end
        returns = np.empty_like(found.values)
        for s, name in enumerate(self.signals):
            following = found.next_values[:, s]
            bootstrap = following if ignores_done[name] else np.where(ended, 0.0, following)
            returns[:, s] = lambda_returns(
                rewards[name],
                found.values[:, s],
                bootstrap.astype(np.float32),
                self.gammas[s],
                self.hyper.lambd,
                rollout.lengths,
            )
        steps = self.steps_type.of(rollout, found.baselines, returns)
        if found.value_starts is not None:
            states = {"value_memory": found.value_starts}
            if found.baseline_starts is not None:
                states["baseline_memory"] = found.baseline_starts
            steps = padded(steps, rollout, self.sequence_length, REPEATED_IN_PADDING, **states)
        estimates = {"Baseline Estimate": found.baselines} if self.has_baselines else {}
        return RolloutEvaluation(steps, {**estimates, "Value Estimate": found.values})

    def running_maxima(self) -> list[Tensor]:
        """The size of the largest team."""
        return [self.critic.largest]

    def as_of_newest_policy(self, steps: TeamSteps) -> TeamSteps:
        """See `OnPolicyAlgorithm.as_of_newest_policy`."""
        return as_of_newest_policy(steps, self.network, self.device, self.sequence_length)

    def in_units(self, steps: TeamSteps) -> TeamSteps:
        """The steps of an update with returns and baselines in the units in which the critic learns.

        These count the returns first.
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
