"""Multi-agent posthumous credit assignment (Cohen et al. 2021, arXiv 2111.05992).

A team's value is estimated from what all members see; what a member did is judged against a baseline that
knows the others' actions, but not its own. A member that dies goes on earning what its team earns: its last
step is bootstrapped by the survivors' value until the whole team has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ....envs.validation import NonFinite
from ...buffers.rollout_buffer import Evaluation
from ...checkpoints.transfer import load_matching
from ...networks.actor import Actor
from ...networks.modules.distributions import ActionDistribution
from ...networks.modules.precision import Precision, widened
from ...networks.observations import require_equal_parts
from ...networks.team_critic import TeamCritic
from ...settings.models.algorithms import POCASettings
from ...settings.models.behavior import TrainerSettings
from ..common.observations import count_observations
from ..common.optim import GuardedAdam
from ..common.returns import lambda_returns
from ..common.schedules import ClippedSchedules
from ..common.threads import UpdateThreads
from .losses import poca_losses
from .minibatches import Learning, Minibatch
from .steps import TeamSteps, padded
from .team_values import Judge


class POCA:
    """The networks, what the critic makes of a rollout, and the update."""

    looks_at_mates = True
    learns_as_team = True
    greedy_when_tested = False
    places = 0
    exploration = 0.0
    steps_kind = TeamSteps

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinite,
        precision: Precision = Precision.FLOAT32,
    ) -> None:
        hyper = settings.hyperparameters
        assert isinstance(hyper, POCASettings)
        self.hyper = hyper
        self.spec = spec
        self.signals = list(settings.reward_signals)
        self.gammas = [s.gamma for s in settings.reward_signals.values()]
        init = torch.Generator().manual_seed(seed)
        network = settings.network_settings
        self.network = Actor(spec, network, init).to(device)
        self.critic = TeamCritic(spec, network.critic or network, self.signals, init).to(device)
        require_equal_parts(self.network.encoder, self.critic.encoder)
        self.sequence_length = 0 if network.memory is None else network.memory.sequence_length
        self.judge = Judge(self.network, self.critic, device, self.sequence_length)
        parameters = [*self.network.parameters(), *self.critic.parameters()]
        self.optimizer = GuardedAdam(parameters, hyper.learning_rate, non_finite)
        self.precision = precision
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)

    # What comes in ------------------------------------------------------------------------------------

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        network = self.network
        count_observations(
            rollout,
            network.encoder,
            network.update_normalization,
            self.optimizer,
            self.spec,
            self.judge.device,
        )

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> Evaluation[TeamSteps]:
        """Values, baselines and TD(lambda) returns per signal.

        Nothing more is earned only once the whole team has truly ended: then the bootstrap value is zero,
        unless the signal goes on regardless.
        """
        found = self.judge.judge(rollout)
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
        return Evaluation(steps, {"Baseline Estimate": found.baselines, "Value Estimate": found.values})

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """These agents' unfinished episodes will never end: what the critic remembers of them goes."""
        self.judge.forget(env, agent_ids)

    # The update ---------------------------------------------------------------------------------------

    def update(self, steps: TeamSteps, policy_step: int, threads: UpdateThreads) -> dict[str, float]:
        """Several epochs over all moments in shuffled minibatches; mean losses and the schedules' values."""
        rate, epsilon, beta = self.schedules.at(policy_step)
        learning = Learning(self.judge, steps)
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

    def _gradient(self, batch: Minibatch, epsilon: float, beta: float) -> Tensor:
        """The gradient of one minibatch; its policy, value and baseline loss as [3]."""
        with self.precision.passes(self.judge.device):
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
        self.optimizer.zero_gradient()
        losses.total.backward()  # type: ignore[no-untyped-call]
        return torch.stack((losses.policy.detach(), losses.value.detach(), losses.baseline.detach()))

    def _distribution(self, batch: Minibatch) -> ActionDistribution:
        if batch.actor_states is None:
            return self.network.act(batch.inputs, batch.action_mask)
        distribution, _ = self.network.act_with_memory(
            batch.inputs, batch.actor_states, self.sequence_length, batch.action_mask
        )
        return distribution

    def _estimates(self, batch: Minibatch) -> tuple[Tensor, Tensor]:
        """The values and baselines of a minibatch's rows, [B, S] each."""
        encoded = self.judge.encode(batch.rows, batch.moments)
        of_values, of_baselines, counts = encoded
        if batch.order is not None:
            of_values, of_baselines, counts = (column.index_select(0, batch.order) for column in encoded)
        if batch.value_states is not None and batch.baseline_states is not None:
            memory, length = self.critic.memory, self.sequence_length
            of_values, _ = memory(of_values, batch.value_states, length)
            of_baselines, _ = memory(of_baselines, batch.baseline_states, length)
        heads = self.critic.heads(torch.cat((of_values, of_baselines)), counts.repeat(2))
        return heads[: len(counts)], heads[len(counts) :]

    # Saving -------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        return load_matching({"Policy": self.network, "Critic": self.critic}, self.optimizer, state)

    def state_dict(self) -> dict[str, Any]:
        """Weights, normaliser, optimiser and random state: all that the next update depends on."""
        return {
            "Policy": self.network.state_dict(),
            "Critic": self.critic.state_dict(),
            "Optimizer": self.optimizer.state_dict(),
            "shuffler": self.shuffler.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.network.load_state_dict(state["Policy"])
        self.critic.load_state_dict(state["Critic"])
        self.optimizer.load_state_dict(state["Optimizer"])
        self.shuffler.set_state(state["shuffler"].cpu())
