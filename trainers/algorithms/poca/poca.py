"""Multi-agent posthumous credit assignment (Cohen et al. 2021, arXiv 2111.05992).

A team's value is estimated from what all members see; what a member did is judged against a baseline that
knows the others' actions, but not its own. A member that dies goes on earning what its team earns: its last
step is bootstrapped by the survivors' value until the whole team has ended.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....agent_processor.trajectory import Rollout
from ...buffers.rollout_buffer import RolloutEvaluation
from ...networks.actor import Actor
from ...networks.modules.distributions import ActionDistribution
from ...networks.modules.precision import widened
from ...networks.observations import require_equal_groups
from ...networks.team_critic import TeamCritic
from ...settings.models.algorithms import POCASettings
from ...settings.models.behavior import TrainerSettings
from ..base import OnPolicyAlgorithm, Traits
from ..common.optim import CheckedAdam
from ..common.returns import lambda_returns
from ..common.schedules import ClippedSchedules
from ..common.threads import UpdateThreads
from .losses import poca_losses
from .minibatches import TeamMinibatch, TeamMinibatches
from .steps import TeamSteps, padded
from .team_values import TeamEvaluator


class POCA(OnPolicyAlgorithm[TeamSteps]):
    """The networks, the evaluation of rollouts, and the update."""

    name = "POCA"
    traits = Traits(is_team=True, needs_teammates=True, loads_mlagents=True)
    steps_type = TeamSteps
    network: Actor
    hyper: POCASettings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        hyper, network = settings.hyperparameters, settings.network_settings
        assert isinstance(hyper, POCASettings)
        init = torch.Generator().manual_seed(seed)
        self.network = Actor(self.spec, network, init).to(self.device)
        self.critic = TeamCritic(self.spec, network.critic or network, self.signals, init).to(self.device)
        require_equal_groups(self.network.encoder, self.critic.encoder)
        length = self.sequence_length if self.is_recurrent else 0
        self.evaluator = TeamEvaluator(self.network, self.critic, self.device, length)
        parameters = [*self.network.parameters(), *self.critic.parameters()]
        self.optimizer = CheckedAdam(parameters, hyper.learning_rate, self.non_finite)
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)

    def modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.modules`."""
        return {"Policy": self.network, "Critic": self.critic}

    def optimizers(self) -> dict[str, CheckedAdam]:
        """See `Algorithm.optimizers`."""
        return {"Optimizer": self.optimizer}

    def generators(self) -> dict[str, torch.Generator]:
        """See `Algorithm.generators`."""
        return {"shuffler": self.shuffler}

    # Evaluation -----------------------------------------------------------------------------------------

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> RolloutEvaluation[TeamSteps]:
        """Values, baselines and TD(lambda) returns per signal.

        Nothing more is earned only once the whole team has truly ended: then the bootstrap value is zero,
        unless the signal goes on regardless.
        """
        found = self.evaluator.evaluate(rollout)
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
        steps = TeamSteps.of(rollout, found.baselines, returns)
        if found.value_starts is not None and found.baseline_starts is not None:
            steps = padded(steps, rollout, self.sequence_length, found.value_starts, found.baseline_starts)
        return RolloutEvaluation(
            steps, {"Baseline Estimate": found.baselines, "Value Estimate": found.values}
        )

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the critic's states of these agents; see `Algorithm.reset_agents`."""
        self.evaluator.reset_agents(env, agent_ids)

    # The update ---------------------------------------------------------------------------------------

    def update(self, steps: TeamSteps, policy_step: int, threads: UpdateThreads) -> dict[str, float]:
        """Several epochs over all moments in shuffled minibatches; mean losses and the schedules' values."""
        rate, epsilon, beta = self.schedules.at(policy_step)
        learning = TeamMinibatches(self.evaluator, steps)
        losses = []
        for _ in range(self.hyper.num_epoch):
            for minibatch in threads.over(learning.minibatches(self.hyper.batch_size, self.shuffler)):
                losses.append(self._gradient(minibatch, epsilon, beta))
                self.optimizer.step(rate, policy_step)
        figures = {"Policy/Learning Rate": rate, "Policy/Epsilon": epsilon, "Policy/Beta": beta}
        if not losses:
            found = f"{len(steps)} steps are no whole minibatch of batch_size {self.hyper.batch_size}"
            self.optimizer.warn_once("Nothing was learnt", found)
            return figures
        policy, value, baseline = torch.stack(losses).abs().mean(0).tolist()
        return {
            "Losses/Policy Loss": policy,
            "Losses/Value Loss": value,
            **figures,
            "Losses/Baseline Loss": baseline,
        }

    def _gradient(self, batch: TeamMinibatch, epsilon: float, beta: float) -> Tensor:
        """The gradient of one minibatch; its policy, value and baseline loss as [3].

        Of a part of a minibatch, the losses are weighed by that.
        """
        with self.precision.passes(self.device):
            values, baselines = self._estimates(batch)
            distribution = self._distribution(batch).widened()
        losses = poca_losses(
            distribution.log_probs(batch.actions),
            batch.old_log_probs,
            batch.advantages,
            distribution.entropy(),
            widened(values),
            widened(baselines),
            batch.old_baselines,
            batch.returns,
            epsilon,
            beta,
            batch.real,
        )
        self.optimizer.zero_grad()
        losses.total.backward()  # type: ignore[no-untyped-call]
        return torch.stack((losses.policy.detach(), losses.value.detach(), losses.baseline.detach()))

    def _distribution(self, batch: TeamMinibatch) -> ActionDistribution:
        if batch.actor_states is None:
            return self.network.act(batch.inputs, batch.action_mask)
        distribution, _ = self.network.act_with_memory(
            batch.inputs, batch.actor_states, self.sequence_length, batch.action_mask
        )
        return distribution

    def _estimates(self, batch: TeamMinibatch) -> tuple[Tensor, Tensor]:
        """The values and baselines of a minibatch's rows, [B, S] each."""
        encoded = self.evaluator.encode(batch.rows, batch.moments)
        of_values, of_baselines, counts = encoded
        if batch.order is not None:
            of_values, of_baselines, counts = (column.index_select(0, batch.order) for column in encoded)
        if batch.value_states is not None and batch.baseline_states is not None:
            memory, length = self.critic.memory, self.sequence_length
            of_values, _ = memory(of_values, batch.value_states, length)
            of_baselines, _ = memory(of_baselines, batch.baseline_states, length)
        heads = self.critic.heads(torch.cat((of_values, of_baselines)), counts.repeat(2))
        return heads[: len(counts)], heads[len(counts) :]
