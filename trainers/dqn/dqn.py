"""Deep Q-learning (Mnih et al. 2015), with the double estimator (van Hasselt et al. 2015, arXiv 1509.06461).

Dueling values: Wang et al. 2015, arXiv 1511.06581. Several branches of actions: Tavakoli et al. 2017, arXiv
1711.08946. With a memory whole sequences are learnt from, each from the state in which it was made, as in
Kapturowski et al. 2019, "R2D2".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ...agent_processor.trajectory import Rollout
from ...envs.finite import NonFinite
from ..action_kinds import require_discrete
from ..exploration import ExplorationSchedule
from ..explorers import EpsilonGreedy
from ..gradient import GuardedAdam
from ..initial_weights import take_over_moments, take_over_weights
from ..networks.actor import Actor
from ..networks.head_kinds import HeadKind
from ..observed import count_observations, tensors
from ..off_policy import Learnt
from ..portions import in_portions
from ..precision import Precision, widened
from ..replay.batch import ReplayBatch
from ..schedules import LEARNING_RATE_FLOOR, Schedule
from ..settings.behavior import TrainerSettings
from ..target import Target
from ..threads import UpdateThreads
from .learning import BranchColumns, encodings, head_of, loss, targets
from .settings import DQNSettings


class DQN:
    """The network of action values, its target, and the update."""

    looks_at_mates = False
    learns_as_team = False
    greedy_when_tested = True
    places = 0
    exploration = 0.0

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
            UnsupportedObservationError: an observation cannot be encoded; it is named.
        """
        hyper = settings.hyperparameters
        assert isinstance(hyper, DQNSettings)
        require_discrete(
            spec.action_spec,
            "DQN compares the values of all actions, so it needs discrete ones alone",
            "Use trainer_type: sac, td3, ddpg or ppo for continuous actions; sac or ppo for both kinds.",
        )
        self.hyper, self.spec, self.device, self.precision = hyper, spec, device, precision
        self.signals = list(settings.reward_signals)
        self.gammas = [s.gamma for s in settings.reward_signals.values()]
        head = HeadKind(values=len(self.signals), dueling=hyper.dueling)
        init = torch.Generator().manual_seed(seed)
        self.network = Actor(spec, settings.network_settings, init, head=head).to(device)
        self.target = Target(self.network)
        self.optimizer = GuardedAdam(self.network.parameters(), hyper.learning_rate, non_finite)
        memory = settings.network_settings.memory
        self.sequence_length = 1 if memory is None else memory.sequence_length
        self.columns = BranchColumns([int(b) for b in spec.action_spec.discrete_branches], device)
        linear = hyper.learning_rate_schedule == "linear"
        self.rate = Schedule(hyper.learning_rate, LEARNING_RATE_FLOOR, settings.max_steps, linear)
        self.explorer = EpsilonGreedy(
            spec.action_spec,
            ExplorationSchedule(hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps),
        )
        """How agents explore while they learn."""
        self.updates = 0
        """Gradient steps so far."""

    # What comes in ------------------------------------------------------------------------------------

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        network = self.network
        count_observations(
            rollout, network.encoder, network.update_normalization, self.optimizer, self.spec, self.device
        )

    @torch.no_grad()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """The values [steps, signals] of what a greedy agent would do; the mean over branches."""
        own = slice(rollout.steps)
        inputs = self.network.prepare(tensors([o[own] for o in rollout.obs], self.device))
        encoded = in_portions(self.network.actor_encoding, inputs)
        if rollout.memory is not None:
            (states,) = tensors([rollout.memory[own]], self.device)
            encoded = self.network.memory(0)(encoded, states, 1)[0]
        mask = None
        if rollout.action_mask is not None:
            mask = torch.from_numpy(rollout.action_mask[own]).to(self.device)
        head = head_of(self.network)
        best = head(encoded, mask).deterministic().discrete
        return {"Value": self.columns.taken(head.q(encoded), best).mean(2).cpu().numpy()}

    # The update ---------------------------------------------------------------------------------------

    def update(self, batch: ReplayBatch, policy_step: int, threads: UpdateThreads) -> Learnt:
        """One gradient step towards the targets y, and the target network's."""
        network, length = self.network, self.sequence_length
        with torch.no_grad(), self.precision.passes(self.device):
            inputs, following = network.prepare(batch.obs), network.prepare(batch.next_obs)
            wanted = targets(
                network,
                self.target.network,
                inputs,
                following,
                batch,
                self.columns,
                length,
                double=self.hyper.double,
            )
        with self.precision.passes(self.device):
            q = head_of(network).q(encodings(network, inputs, batch.states, length))
        taken = self.columns.taken(widened(q), batch.actions.discrete)
        value_loss, errors = loss(taken, widened(wanted), batch.weights, batch.real)
        self.optimizer.zero_gradient()
        value_loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.rate(policy_step), policy_step, batch.part)
        self._let_target_follow()
        return Learnt({"Losses/Value Loss": value_loss.item()}, errors)

    def _let_target_follow(self) -> None:
        self.updates += 1
        if self.hyper.tau is not None:
            self.target.follow(self.optimizer.flat, self.hyper.tau)
        elif self.updates % self.hyper.target_update_interval == 0:
            self.target.follow(self.optimizer.flat)

    def figures(self, policy_step: int) -> dict[str, float]:
        """The schedules' values at this step."""
        return {
            "Policy/Learning Rate": self.rate(policy_step),
            self.explorer.statistic: self.explorer.schedule(policy_step),
        }

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """These agents' unfinished episodes will never end; nothing is kept of them here."""

    # Saving -------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        misfits = take_over_weights({"Policy": self.network}, state)
        self.target.follow(self.optimizer.flat)
        if not misfits:
            take_over_moments(self.optimizer, state)
        return misfits

    def state_dict(self) -> dict[str, Any]:
        """Weights, normaliser and optimiser: all that the next update depends on."""
        return {
            "Policy": self.network.state_dict(),
            "Target": self.target.network.state_dict(),
            "Optimizer": self.optimizer.state_dict(),
            "gradient_steps": self.updates,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.network.load_state_dict(state["Policy"])
        self.target.network.load_state_dict(state["Target"])
        self.optimizer.load_state_dict(state["Optimizer"])
        self.updates = int(state["gradient_steps"])
