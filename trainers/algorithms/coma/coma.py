"""Counterfactual multi-agent policy gradients (Foerster et al. 2018, arXiv 1705.08926).

A centralized critic values each action of an agent, given the state and the actions of all others. An action
is compared with the agent's average action, so that each member learns from its own contribution to what the
team earns. The actors learn with PPO's clipped objective and epochs, or, with `clip: false`, as published.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ....envs.base import STATE, ObsArray
from ...buffers.rollout_buffer import RolloutEvaluation, explained_variance
from ...networks.modules.distributions import ExplorationSchedule, ExploringDistribution
from ...networks.modules.normalizer import Normalizer, SharedMoments
from ...networks.modules.passes import widened
from ...networks.multi_actor import MultiActor, Network
from ...networks.observation_kinds import UnsupportedObservationError
from ...networks.observations import to_tensors
from ...settings.models.algorithms import COMASettings
from ...settings.models.behavior import TrainerSettings
from ...utils import distributed
from ...utils.errors import nearest
from ..base import OnPolicyAlgorithm, Traits
from ..common.actions import require_actions
from ..common.optim import CheckedAdam, ClippedSchedules, FlatParameters, Schedule
from ..common.popart import SMALLEST_DEVIATION
from ..common.returns import lambda_returns
from ..ppo.losses import clipped_surrogate, ratio_statistics
from .critic import CentralCritic, COMANetworks, flat
from .evaluation import CounterfactualEvaluator, action_values, of_actions
from .minibatches import RosterMinibatch, RosterMinibatches, RosterSteps, roster_steps


class COMA(OnPolicyAlgorithm[RosterSteps]):
    """The networks, the evaluation of rollouts, and the update."""

    name = "COMA"
    steps_type = RosterSteps
    hyper: COMASettings
    saved_numbers: Mapping[str, str] = {"exploration": "exploration", "updates": "updates"}

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and register actors, critic, target critic, optimizers and random generators."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, COMASettings)
        require_actions(
            self.spec.action_spec,
            "discrete",
            "COMA weighs every action that an agent could have taken, so it needs discrete actions only",
            "Use trainer_type: poca for teams with continuous actions.",
        )
        self.traits = Traits(
            is_team=True, is_greedy=True, roster_size=hyper.max_num_agents, team_reward=hyper.reward
        )
        init = torch.Generator().manual_seed(seed)
        self.networks = _networks(self.spec, settings, hyper, self.device, init)
        actors = self.networks.actors
        self.network = actors if actors.differ else actors.member(0)
        self.target_weights = FlatParameters(self.networks.target.parameters())
        rate, critic_rate = hyper.learning_rate, hyper.critic_learning_rate
        critic_rate = rate if critic_rate is None else critic_rate
        self.actor_optimizer = CheckedAdam(actors.parameters(), rate, self.non_finite)
        self.critic_optimizer = CheckedAdam(self.networks.critic.parameters(), critic_rate, self.non_finite)
        self.target_statistics = Normalizer(len(self.signals)).to(self.device)
        self.shared_statistics = SharedMoments([self.target_statistics])
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.sampler = torch.Generator().manual_seed(seed + 3)
        self.evaluator = CounterfactualEvaluator(self.networks, self.sampler)
        self.critic_states = [self.evaluator.memories, self.evaluator.target_memories]
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)
        schedule = self.schedules.learning_rate
        assert isinstance(schedule, Schedule), "only the rates of PPO, POCA and MAPPO adapt"
        self.critic_schedule = replace(schedule, initial=critic_rate)
        self.exploring = ExplorationSchedule(
            hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps
        )
        self.exploration = self.exploring(0)
        self.updates = 0
        critic, target = self.networks.critic, self.networks.target
        self.register(
            {"Policy": self.network, "Critic": critic, "Target": target},
            {"Optimizer": self.actor_optimizer, "Optimizer:critic": self.critic_optimizer},
            {"shuffler": self.shuffler, "sampler": self.sampler},
            {"target_statistics": self.target_statistics},
        )

    @property
    def policy(self) -> Network:
        """The actors of all slots, also where one network acts for them."""
        return self.networks.actors

    def dense_products(self, batch_size: int) -> int | None:
        """Return None: rollouts are evaluated whole, and each slot's networks get the rows of its own."""
        return None

    # Evaluation -----------------------------------------------------------------------------------------

    def update_normalizer(self, obs: Sequence[ObsArray]) -> None:
        """Let the running observation statistics of actors and critic, which are separate, see N steps."""
        rows = to_tensors(obs, self.device)
        fine = [n.update_normalization(rows) for n in (self.networks.actors, self.networks.critic)]
        if not all(fine):
            self.actor_optimizer.report_overflow(self.spec, obs)

    def evaluate(
        self, rollout: Rollout, rewards: Mapping[str, NDArray[np.float32]], ignores_done: Mapping[str, bool]
    ) -> RolloutEvaluation[RosterSteps]:
        """The target critic's TD(lambda) targets; advantages come with the update.

        Where no member continues, the bootstrap value is zero, whatever the signal; otherwise it is the
        target critic's expectation of the next state under pi'.
        """
        estimates = self.evaluator(rollout, self.exploration)
        targets = np.empty_like(estimates.taken)
        for s, name in enumerate(self.signals):
            targets[:, s] = lambda_returns(
                rewards[name],
                estimates.taken[:, s],
                estimates.following[:, s],
                self.gammas[s],
                self.hyper.lambd,
                rollout.lengths,
            )
        steps = roster_steps(rollout, targets, estimates.critic_states)
        return RolloutEvaluation(steps, {"Value Estimate": estimates.expected})

    def terminated(self, rollout: Rollout) -> NDArray[np.bool_]:
        """[J] whether no member continues."""
        assert rollout.next_roster is not None, "values of teams need their rosters"
        return np.asarray((rollout.next_roster < 0).all(axis=1))

    # Update ---------------------------------------------------------------------------------------------

    def update(self, steps: RosterSteps, policy_step: int) -> dict[str, float]:
        """Learn from all steps: the critic first, then the actors by that critic's advantages.

        Returns:
            Mean losses and statistics, and the values of the schedules.
        """
        if self.hyper.normalize_values:
            self._rescale(self.networks.tensor(steps.returns))
        source = RosterMinibatches(self.networks, steps)
        metrics = self._update_critic(source, policy_step)
        source.set_advantages(self._advantages(source), normalize=self.hyper.clip)
        if self.hyper.clip:
            metrics |= self._clipped_update(source, policy_step)
        else:
            metrics |= self._published_update(source, policy_step)
        self.exploration = self.exploring(policy_step)
        metrics |= self.schedules.metrics(policy_step)
        return metrics | {"Policy/Exploration Epsilon": self.exploration}

    def _update_critic(self, source: RosterMinibatches, policy_step: int) -> dict[str, float]:
        """Minimize (y - Q(s, u))^2 for `critic_epochs` epochs; the target critic follows.

        The explained variance is that of the first epoch, in which the critic has not seen the steps before.
        """
        learning_rate = self.critic_schedule(policy_step)
        losses: list[Tensor] = []
        estimates: list[Tensor] = []
        targets: list[Tensor] = []
        for epoch in range(self.hyper.critic_epochs):
            for batch in distributed.in_step(source.shuffled(self.hyper.batch_size, self.shuffler)):
                errors = batch.targets.unsqueeze(2) - self._values_of_actions(batch)
                loss = ((errors / self.networks.critic.scale[:, None]) ** 2).mean()
                self.critic_optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self.critic_optimizer.step(learning_rate, policy_step)
                self._update_target()
                losses.append(loss.detach())
                if epoch == 0:
                    estimates.append(batch.targets - errors.detach().mean(2))
                    targets.append(batch.targets)
        if not losses:
            return {}
        estimated, wanted = (torch.cat(column).float().cpu().numpy() for column in (estimates, targets))
        explained = explained_variance("Losses/Value Explained Variance", estimated, wanted, None)
        return {"Losses/Value Loss": torch.stack(losses).mean().item(), **explained}

    @torch.no_grad()
    def _advantages(self, source: RosterMinibatches) -> Tensor:
        """[N, branches] Q(u) - sum over u' of pi'(u') Q(u'), by the critic that has seen these steps."""
        advantages = []
        for batch in source.in_order(self.hyper.batch_size):
            with self.precision.passes(self.device):
                values = self.networks.critic(batch.table, batch.steps, batch.critic_sequences)
            actions, branches = batch.actions.discrete, self.networks.branches
            of_steps = action_values(widened(values), flat(self._policy(batch)), actions, branches)
            advantages.append(of_steps.advantages.mean(1))
        return torch.cat(advantages)

    def _clipped_update(self, source: RosterMinibatches, policy_step: int) -> dict[str, float]:
        """Update the actors by PPO's clipped objective, with an advantage of each branch's own."""
        learning_rate, epsilon, beta = self.schedules.at(policy_step)
        statistics: list[Tensor] = []
        for _ in range(self.hyper.num_epoch):
            for batch in distributed.in_step(source.shuffled(self.hyper.batch_size, self.shuffler)):
                policy = self._policy(batch)
                log_ratio = policy.log_probs(batch.actions) - batch.old_log_probs
                ratio = torch.exp(log_ratio)
                policy_loss = -clipped_surrogate(ratio, batch.advantages, epsilon)
                loss = policy_loss - beta * policy.entropy().mean()
                self.actor_optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                self.actor_optimizer.step(learning_rate, policy_step)
                kl_and_clipped = ratio_statistics(log_ratio, ratio, epsilon)
                statistics.append(torch.cat((policy_loss.detach().abs()[None], kl_and_clipped)))
        if not statistics:
            return {}
        tags = ("Losses/Policy Loss", "Policy/Approximate KL", "Policy/Clip Fraction")
        return dict(zip(tags, torch.stack(statistics).mean(0).tolist(), strict=True))

    def _published_update(self, source: RosterMinibatches, policy_step: int) -> dict[str, float]:
        """Take one step of the actors along the policy gradient of all steps.

        g = sum over branches of grad ln pi'(u) A, mean over the steps (Foerster et al. 2018, equation 5).
        """
        learning_rate, _, beta = self.schedules.at(policy_step)
        self.actor_optimizer.zero_grad()
        total = torch.zeros((), device=self.device)
        for batch in source.in_order(self.hyper.batch_size):
            policy, share = self._policy(batch), len(batch.targets) / len(source)
            log_probs = policy.log_probs(batch.actions)
            objective = (log_probs * batch.advantages).sum(1).mean()
            loss = -objective - beta * policy.entropy().mean()
            (loss * share).backward()  # type: ignore[no-untyped-call]
            total += objective.detach() * share
        self.actor_optimizer.step(learning_rate, policy_step)
        return {"Losses/Policy Loss": abs(total.item())}

    def _policy(self, batch: RosterMinibatch) -> ExploringDistribution:
        """The exploring policy pi' at a minibatch's steps."""
        with self.precision.passes(self.device):
            policy = self.networks.policy(
                batch.inputs, batch.steps, batch.action_mask, batch.exploration, batch.actor_sequences
            )
        return policy.widened()

    def _values_of_actions(self, batch: RosterMinibatch) -> Tensor:
        """[B, signals, branches] the critic's values of the actions taken."""
        with self.precision.passes(self.device):
            values = self.networks.critic(batch.table, batch.steps, batch.critic_sequences)
        return of_actions(widened(values), batch.actions.discrete, self.networks.branches)

    def _rescale(self, targets: Tensor) -> None:
        """Learn values in units of the mean and deviation of all targets so far."""
        counted = distributed.all_true(self.target_statistics.update(targets))
        self.shared_statistics.merge()
        if counted:
            mean = self.target_statistics.mean
            deviation = self.target_statistics.deviation().clamp(min=SMALLEST_DEVIATION)
            for network in (self.networks.critic, self.networks.target):
                network.rescale(mean, deviation)

    @torch.no_grad()
    def _update_target(self) -> None:
        self.updates += 1
        weights, target = self.critic_optimizer.flat.vector.data, self.target_weights.vector.data
        if self.hyper.tau is not None:
            target.lerp_(weights, self.hyper.tau)
        elif self.updates % self.hyper.target_update_interval == 0:
            target.copy_(weights)

    # Transfer and state ---------------------------------------------------------------------------------

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """Actors that do not see the state lose their weights for it."""
        if not self.networks.actors.hide():
            return []
        hidden = self.hyper.state_observation
        return [f"Policy.body.layers.0 (the inputs of {hidden!r}, which actors do not see here)"]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.shared_statistics.rebase()


def _networks(
    spec: BehaviorSpec,
    settings: TrainerSettings,
    hyper: COMASettings,
    device: torch.device,
    generator: torch.Generator,
) -> COMANetworks:
    """New networks; the target starts as a copy of the critic."""
    state = state_position(spec, hyper.state_observation)
    actors = MultiActor(
        spec,
        settings.network_settings,
        hyper.max_num_agents,
        shared=hyper.share_parameters,
        indexed=hyper.index_on_actor,
        hidden=state,
        generator=generator,
    )
    critic = CentralCritic(
        spec,
        settings.network_settings.critic or settings.network_settings,
        hyper.max_num_agents,
        list(settings.reward_signals),
        state,
        streams=1 if hyper.share_parameters else hyper.max_num_agents,
        generator=generator,
    )
    branches = tuple(int(size) for size in spec.action_spec.discrete_branches)
    critic = critic.to(device)
    return COMANetworks(actors.to(device), critic, copy.deepcopy(critic), branches, device)


def state_position(spec: BehaviorSpec, name: str | None) -> int | None:
    """The position of the observation that is the state; None for a `name` of None.

    Raises:
        UnsupportedObservationError: there is no such observation, or there is no other one.
    """
    if name is None:
        return None
    names = [str(sensor.name) for sensor in spec.observation_specs]
    if name not in names:
        close = nearest(name, names)
        hint = f" Did you mean {close!r}?" if close else ""
        raise UnsupportedObservationError(
            f"hyperparameters.state_observation is {name!r}, and no sensor has that name.{hint} "
            f"Sensors: {', '.join(map(repr, names))}."
        )
    if len(names) == 1:
        raise UnsupportedObservationError(
            f"hyperparameters.state_observation is {name!r}, the only sensor. The critic alone reads the "
            "state, so that nothing would be left for the agents to act by; leave state_observation out."
        )
    return len(names) - 1 - names[::-1].index(name)


def with_offered_state(settings: TrainerSettings, spec: BehaviorSpec) -> TrainerSettings:
    """The settings with the environment's global state as `state_observation`, where it offers one.

    The state is the last sensor then, and has a name of its own.
    """
    if len(spec.observation_specs) < 2 or spec.observation_specs[-1].name != STATE:
        return settings
    hyper = settings.hyperparameters.model_copy(update={"state_observation": STATE})
    return settings.model_copy(update={"hyperparameters": hyper})
