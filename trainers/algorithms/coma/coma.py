"""Counterfactual multi-agent policy gradients (Foerster et al. 2018, arXiv 1705.08926).

A centralised critic says what each action of an agent is worth, given the state and what all others did. An
action is judged against what the agent does on average; so each member learns from its own share in what the
team earns. Here with the clipped objective and the epochs of PPO, or, with `clip: false`, as first published.

What COMA needs of a behaviour.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ....envs.base import STATE
from ....envs.validation import NonFinite
from ...buffers.rollout_buffer import Evaluation
from ...checkpoints.transfer import load_matching_optimizer, load_matching_weights
from ...networks.actor import Actor
from ...networks.modules.exploration import ExplorationSchedule
from ...networks.modules.normalizer import Normalizer
from ...networks.modules.precision import Precision
from ...networks.multi_actor import Actors
from ...networks.observation_kinds import UnsupportedObservationError
from ...settings.models.algorithms import COMASettings
from ...settings.models.behavior import TrainerSettings
from ...utils.suggestions import nearest
from ..base import require_discrete as require_discrete_alone
from ..common.optim import FlatParameters, GuardedAdam
from ..common.returns import lambda_returns
from ..common.schedules import ClippedSchedules
from ..common.threads import UpdateThreads
from .critic import CentralCritic
from .evaluation import Evaluator
from .minibatches import Learning, Rates
from .networks import Networks
from .steps import RosterSteps, roster_steps

SMALLEST_DEVIATION = 1e-4
"""Of targets: values are not learnt in smaller units."""


class COMA:
    """The networks, what the critic makes of a rollout, and the update."""

    looks_at_mates = False
    learns_as_team = True
    greedy_when_tested = True
    steps_kind = RosterSteps

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinite,
        precision: Precision = Precision.FLOAT32,
    ) -> None:
        """Build the networks.

        Raises:
            UnsupportedActionError: some actions are continuous.
            UnsupportedObservationError: an observation cannot be encoded, or is not there; it is named.
        """
        hyper = settings.hyperparameters
        assert isinstance(hyper, COMASettings)
        require_discrete(spec)
        self.hyper = hyper
        self.spec = spec
        self.signals = list(settings.reward_signals)
        self.gammas = [s.gamma for s in settings.reward_signals.values()]
        self.networks = _networks(spec, settings, hyper, device, torch.Generator().manual_seed(seed))
        self.target_weights = FlatParameters(self.networks.target.parameters())
        rate = hyper.learning_rate
        self.actor_optimizer = GuardedAdam(self.networks.actors.parameters(), rate, non_finite)
        self.critic_optimizer = GuardedAdam(self.networks.critic.parameters(), rate, non_finite)
        self.target_statistics = Normalizer(len(self.signals)).to(device)
        self.precision = precision
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.sampler = torch.Generator().manual_seed(seed + 3)
        self.evaluator = Evaluator(self.networks, self.sampler)
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)
        self.exploring = ExplorationSchedule(
            hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps
        )
        self.exploration = self.exploring(0)
        """Share of chance in what the policy does until the next update."""
        self.updates = 0

    @property
    def places(self) -> int:
        """Of the rosters that rollouts must have."""
        return self.hyper.max_num_agents

    @property
    def network(self) -> Actor | Actors:
        """What acts: an `Actor`, or `Actors` that differ from place to place."""
        actors = self.networks.actors
        return actors if actors.differ else actors.member(0)

    # What comes in ------------------------------------------------------------------------------------

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        obs = [o[: rollout.steps] for o in rollout.obs]
        rows = [self.networks.tensor(o) for o in obs]
        fine = [n.update_normalization(rows) for n in (self.networks.actors, self.networks.critic)]
        if not all(fine):
            self.actor_optimizer.leave_out(self.spec, obs)

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> Evaluation[RosterSteps]:
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
        return Evaluation(steps, {"Value Estimate": judged.expected})

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """These agents' unfinished episodes will never end: what the critics remember of them goes."""
        self.evaluator.forget(env, agent_ids)

    # The update ---------------------------------------------------------------------------------------

    def update(self, steps: RosterSteps, policy_step: int, threads: UpdateThreads) -> dict[str, float]:
        """Learn from all steps; mean losses and the schedules' values."""
        rates = Rates(*self.schedules.at(policy_step), policy_step)
        if self.hyper.normalize_values:
            self._rescale(self.networks.tensor(steps.returns))
        learning = Learning(
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

    def _clipped_epochs(self, learning: Learning, rates: Rates, threads: UpdateThreads) -> dict[str, float]:
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

    def _as_published(self, learning: Learning, rates: Rates, threads: UpdateThreads) -> dict[str, float]:
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

    # Saving -------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        nets = self.networks
        mismatches = load_matching_weights(
            {"Policy": self.network, "Critic": nets.critic, "Target": nets.target}, state
        )
        if nets.actors.hide():
            hidden = self.hyper.state_observation
            mismatches.append(
                f"Policy.body.layers.0 (the inputs of {hidden!r}, which actors do not see here)"
            )
        if mismatches:
            return mismatches
        optimizers = {"Optimizer": self.actor_optimizer, "Optimizer:critic": self.critic_optimizer}
        for entry, optimizer in optimizers.items():
            unfit = load_matching_optimizer(optimizer, state, entry)
            mismatches += [f"{entry} ({unfit})"] if unfit else []
        return mismatches

    def state_dict(self) -> dict[str, Any]:
        """Weights, normalisers, optimisers and random states: all that the next update depends on."""
        return {
            "Policy": self.network.state_dict(),
            "Critic": self.networks.critic.state_dict(),
            "Target": self.networks.target.state_dict(),
            "Optimizer": self.actor_optimizer.state_dict(),
            "Optimizer:critic": self.critic_optimizer.state_dict(),
            "target_statistics": self.target_statistics.state_dict(),
            "shuffler": self.shuffler.get_state(),
            "sampler": self.sampler.get_state(),
            "exploration": self.exploration,
            "updates": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.network.load_state_dict(state["Policy"])
        self.networks.critic.load_state_dict(state["Critic"])
        self.networks.target.load_state_dict(state["Target"])
        self.actor_optimizer.load_state_dict(state["Optimizer"])
        self.critic_optimizer.load_state_dict(state["Optimizer:critic"])
        self.target_statistics.load_state_dict(state["target_statistics"])
        self.shuffler.set_state(state["shuffler"].cpu())
        self.sampler.set_state(state["sampler"].cpu())
        self.exploration, self.updates = float(state["exploration"]), int(state["updates"])


def _networks(
    spec: BehaviorSpec,
    settings: TrainerSettings,
    hyper: COMASettings,
    device: torch.device,
    generator: torch.Generator,
) -> Networks:
    """Fresh ones; the target begins as the critic's copy."""
    state = state_position(spec, hyper.state_observation)
    actors = Actors(
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
    return Networks(actors.to(device), critic, copy.deepcopy(critic), branches, device)


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
