"""Counterfactual multi-agent policy gradients (Foerster et al. 2018, arXiv 1705.08926).

A centralised critic says what each action of an agent is worth, given the state and what all others did. An
action is judged against what the agent does on average; so each member learns from its own share in what the
team earns. Here with the clipped objective and the epochs of PPO, or, with `clip: false`, as first published.

What COMA needs of a behaviour.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from ....agent_processor.trajectory import Rollout
from ....envs.base import STATE
from ...buffers.rollout_buffer import RolloutEvaluation
from ...networks.modules.exploration import ExplorationSchedule
from ...networks.modules.normalizer import Normalizer
from ...networks.multi_actor import MultiActor, Network
from ...networks.observation_kinds import UnsupportedObservationError
from ...settings.models.algorithms import COMASettings
from ...settings.models.behavior import TrainerSettings
from ...utils.suggestions import nearest
from ..base import OnPolicyAlgorithm, Traits
from ..base import require_discrete as require_discrete_alone
from ..common.observations import to_tensors
from ..common.optim import CheckedAdam, FlatParameters
from ..common.returns import lambda_returns
from ..common.schedules import ClippedSchedules
from ..common.threads import UpdateThreads
from .critic import CentralCritic
from .evaluation import Evaluator
from .minibatches import Rates, RosterMinibatches
from .networks import COMANetworks
from .steps import RosterSteps, roster_steps

SMALLEST_DEVIATION = 1e-4
"""Of targets: values are not learnt in smaller units."""


class COMA(OnPolicyAlgorithm[RosterSteps]):
    """The networks, the evaluation of rollouts, and the update."""

    name = "COMA"
    steps_type = RosterSteps
    hyper: COMASettings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, COMASettings)
        require_discrete(self.spec)
        self.traits = Traits(
            is_team=True, is_greedy=True, roster_size=hyper.max_num_agents, team_reward=hyper.reward
        )
        init = torch.Generator().manual_seed(seed)
        self.networks = _networks(self.spec, settings, hyper, self.device, init)
        actors = self.networks.actors
        self.network = actors if actors.differ else actors.member(0)
        self.target_weights = FlatParameters(self.networks.target.parameters())
        rate = hyper.learning_rate
        self.actor_optimizer = CheckedAdam(actors.parameters(), rate, self.non_finite)
        self.critic_optimizer = CheckedAdam(self.networks.critic.parameters(), rate, self.non_finite)
        self.target_statistics = Normalizer(len(self.signals)).to(self.device)
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.sampler = torch.Generator().manual_seed(seed + 3)
        self.evaluator = Evaluator(self.networks, self.sampler)
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)
        self.exploring = ExplorationSchedule(
            hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps
        )
        self.exploration = self.exploring(0)
        self.updates = 0

    def modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.modules`."""
        return {"Policy": self.network, "Critic": self.networks.critic, "Target": self.networks.target}

    def optimizers(self) -> dict[str, CheckedAdam]:
        """See `Algorithm.optimizers`."""
        return {"Optimizer": self.actor_optimizer, "Optimizer:critic": self.critic_optimizer}

    def generators(self) -> dict[str, torch.Generator]:
        """See `Algorithm.generators`."""
        return {"shuffler": self.shuffler, "sampler": self.sampler}

    @property
    def policy(self) -> Network:
        """The actors of all slots, also where one network acts for them."""
        return self.networks.actors

    # Evaluation -----------------------------------------------------------------------------------------

    def update_normalizer(self, rollout: Rollout) -> None:
        """See `Algorithm.update_normalizer`; the critic has normalizers of its own."""
        obs = [column[: rollout.steps] for column in rollout.obs]
        rows = to_tensors(obs, self.device)
        fine = [n.update_normalization(rows) for n in (self.networks.actors, self.networks.critic)]
        if not all(fine):
            self.actor_optimizer.leave_out(self.spec, obs)

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> RolloutEvaluation[RosterSteps]:
        """The target critic's TD(lambda) targets, and the critic's counterfactual advantages.

        Where nobody goes on the bootstrap value is zero, whatever the signal; else it is what the target
        critic expects of the next state under pi'.
        """
        judged = self.evaluator(rollout, self.exploration)
        targets = np.empty_like(judged.taken)
        for s, name in enumerate(self.signals):
            targets[:, s] = lambda_returns(
                rewards[name],
                judged.taken[:, s],
                judged.following[:, s],
                self.gammas[s],
                self.hyper.lambd,
                rollout.lengths,
            )
        steps = roster_steps(rollout, targets, judged.advantages, judged.critic_states)
        return RolloutEvaluation(steps, {"Value Estimate": judged.expected})

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the critics' states of these agents; see `Algorithm.reset_agents`."""
        self.evaluator.reset_agents(env, agent_ids)

    # The update ---------------------------------------------------------------------------------------

    def update(self, steps: RosterSteps, policy_step: int, threads: UpdateThreads) -> dict[str, float]:
        """Learn from all steps; mean losses and the schedules' values."""
        rates = Rates(*self.schedules.at(policy_step), policy_step)
        if self.hyper.normalize_values:
            self._rescale(self.networks.tensor(steps.returns))
        learning = RosterMinibatches(
            self.networks,
            steps,
            self.precision,
            normalize_advantages=self.hyper.clip,
        )
        learn = self._clipped_epochs if self.hyper.clip else self._as_published
        losses = learn(learning, rates, threads)
        self._let_target_follow()
        self.exploration = self.exploring(policy_step)
        return losses | {
            "Policy/Learning Rate": rates.learning_rate,
            "Policy/Epsilon": rates.epsilon,
            "Policy/Beta": rates.beta,
            "Policy/Exploration Epsilon": self.exploration,
        }

    def _clipped_epochs(
        self, learning: RosterMinibatches, rates: Rates, threads: UpdateThreads
    ) -> dict[str, float]:
        """Actor and critic together, minibatch by minibatch."""
        losses = [
            torch.stack(learning.clipped_step(batch, self.actor_optimizer, self.critic_optimizer, rates))
            for _ in range(self.hyper.num_epoch)
            for batch in threads.over(learning.shuffled(self.hyper.batch_size, self.shuffler))
        ]
        if not losses:
            return {}
        policy, value = torch.stack(losses).abs().mean(0).tolist()
        return {"Losses/Policy Loss": policy, "Losses/Value Loss": value}

    def _as_published(
        self, learning: RosterMinibatches, rates: Rates, threads: UpdateThreads
    ) -> dict[str, float]:
        """The critic minibatch by minibatch, then the actor once along the gradient of all steps."""
        losses = [
            learning.critic_step(batch, self.critic_optimizer, rates)
            for _ in range(self.hyper.num_epoch)
            for batch in threads.over(learning.shuffled(self.hyper.batch_size, self.shuffler))
        ]
        policy = learning.policy_step(self.hyper.batch_size, self.actor_optimizer, rates)
        figures = {"Losses/Policy Loss": policy.item()}
        return figures | ({"Losses/Value Loss": torch.stack(losses).mean().item()} if losses else {})

    def _rescale(self, targets: Tensor) -> None:
        """Learn values in the units of all targets so far."""
        if self.target_statistics.update(targets):
            mean = self.target_statistics.mean
            deviation = self.target_statistics.deviation().clamp(min=SMALLEST_DEVIATION)
            for network in (self.networks.critic, self.networks.target):
                network.rescale(mean, deviation)

    @torch.no_grad()
    def _let_target_follow(self) -> None:
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

    def state_dict(self) -> dict[str, Any]:
        """See `Algorithm.state_dict`."""
        return super().state_dict() | {
            "target_statistics": self.target_statistics.state_dict(),
            "exploration": self.exploration,
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.target_statistics.load_state_dict(state["target_statistics"])
        self.exploration, self.updates = float(state["exploration"]), int(state["updates"])


def _networks(
    spec: BehaviorSpec,
    settings: TrainerSettings,
    hyper: COMASettings,
    device: torch.device,
    generator: torch.Generator,
) -> COMANetworks:
    """Fresh ones; the target begins as the critic's copy."""
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


def require_discrete(spec: BehaviorSpec) -> None:
    """Refuse continuous actions.

    Raises:
        UnsupportedActionError: there are some.
    """
    require_discrete_alone(
        spec.action_spec,
        "COMA weighs every action that an agent could have taken, so it needs discrete ones alone",
        "Use trainer_type: poca for teams with continuous actions.",
    )


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

    It is the last sensor then, and has a name of its own.
    """
    if len(spec.observation_specs) < 2 or spec.observation_specs[-1].name != STATE:
        return settings
    hyper = settings.hyperparameters.model_copy(update={"state_observation": STATE})
    return settings.model_copy(update={"hyperparameters": hyper})
