"""Deep Q-learning (Mnih et al. 2015), with the double estimator (van Hasselt et al. 2015, arXiv 1509.06461).

Dueling values: Wang et al. 2015, arXiv 1511.06581. Several branches of actions: Tavakoli et al. 2017, arXiv
1711.08946. With a memory, whole sequences are learned from, each starting with its stored state, as in
Kapturowski et al. 2019, "R2D2".

Notation: B steps, S reward signals, K branches, n the sum of their sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...agent_processor.trajectory import Rollout
from ..buffers.replay.sampler import ReplayBatch
from ..networks.actor import Actor
from ..networks.modules.distributions import ExplorationSchedule
from ..networks.modules.heads import HeadConfig, QHead
from ..networks.modules.passes import chunked_forward, widened
from ..networks.observations import to_tensors
from ..policies.exploration import EpsilonGreedy
from ..settings.models.algorithms import DQNSettings
from ..settings.models.behavior import TrainerSettings
from .base import OffPolicyAlgorithm, Traits, UpdateResult
from .common.actions import require_actions
from .common.optim import CheckedAdam, TargetNetwork
from .fast.cuda_graphs import CapturedStep


class DQN(OffPolicyAlgorithm):
    """The network of action values, its target, and the update."""

    name = "DQN"
    traits = Traits(is_greedy=True)
    network: Actor
    hyper: DQNSettings
    saved_numbers: Mapping[str, str] = {"gradient_steps": "updates"}

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and register the network of action values, its target, the optimizer and the explorer."""
        hyper, actions = settings.hyperparameters, self.spec.action_spec
        assert isinstance(hyper, DQNSettings)
        require_actions(
            actions,
            "discrete",
            "DQN compares the values of all actions, so it needs discrete actions only",
            "Use trainer_type: sac, td3, ddpg or ppo for continuous actions; sac or ppo for both kinds.",
        )
        head = HeadConfig(values=len(self.signals), dueling=hyper.dueling)
        init = torch.Generator().manual_seed(seed)
        self.network = Actor(self.spec, settings.network_settings, init, head=head).to(self.device)
        self.target = TargetNetwork(self.network)
        self.optimizer = CheckedAdam(self.network.parameters(), hyper.learning_rate, self.non_finite)
        self.captured: CapturedStep[ReplayBatch] | None = None
        """The gradient step as captured for a GPU; None where it is not captured."""
        if type(self) is DQN and CapturedStep.is_faster(settings, self.device):  # a plug-in's may do anything
            self.captured = CapturedStep(self._step_on_device, 1, self.optimizer.tensors())
        sizes = [int(size) for size in actions.discrete_branches]
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        self._branch_starts = torch.tensor(starts, device=self.device)
        schedule = ExplorationSchedule(hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps)
        self.explorer: EpsilonGreedy = EpsilonGreedy(actions, schedule)
        self.updates = 0
        """The number of gradient steps so far."""
        targets: dict[str, nn.Module] = {"Target": self.target.network}
        self.register({"Policy": self.network}, {"Optimizer": self.optimizer}, targets=targets)

    @torch.no_grad()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """The values [steps, signals] of the greedy actions, the mean over branches."""
        own = slice(rollout.steps)
        inputs = self.network.prepare(to_tensors([o[own] for o in rollout.obs], self.device))
        encoded = chunked_forward(self.network.actor_encoding, inputs)
        if rollout.memory is not None:
            (states,) = to_tensors([rollout.memory[own]], self.device)
            encoded = self.network.memory(0)(encoded, states, 1)[0]
        mask = None
        if rollout.action_mask is not None:
            mask = torch.from_numpy(rollout.action_mask[own]).to(self.device)
        head = head_of(self.network)
        best = head(encoded, mask).deterministic().discrete
        return {"Value": self._of_actions(head.q(encoded), best).mean(2).cpu().numpy()}

    # The update ---------------------------------------------------------------------------------------

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """One gradient step on the Huber loss of Q(o, a) - y, and an update of the target network.

        The target y = r + gamma Q'(o', a*) is the mean over branches (Tavakoli et al., equation 6), and the
        same for all of them. a* is the best available action of each branch by the sum over signals:
        according to the network (double Q-learning), or according to the target network.
        """
        learning_rate = self.learning_rate(policy_step)
        if self.captured is not None:
            results = self.captured(batch, learning_rate)
            self.optimizer.read_steps(policy_step)
            loss, td_errors = results[0], results[1:]
        else:
            loss, td_errors = self._gradient(batch)
            self.optimizer.step(learning_rate, policy_step)
        self.updates += 1
        if self.hyper.tau is not None:
            self.target.update(self.optimizer.flat, self.hyper.tau)
        elif self.updates % self.hyper.target_update_interval == 0:
            self.target.update(self.optimizer.flat)
        return UpdateResult({"Losses/Value Loss": loss.item()}, td_errors)

    def _gradient(self, batch: ReplayBatch) -> tuple[Tensor, Tensor]:
        """Write the gradient of the loss to each parameter's `grad`; the loss, and the errors [B]."""
        network, target = self.network, self.target.network
        with torch.no_grad(), self.precision.passes(self.device):
            inputs, next_inputs = network.prepare(batch.obs), network.prepare(batch.next_obs)
            encoding = choice = self._next_encoding(target, inputs, next_inputs, batch.states)
            if self.hyper.double:
                choice = self._next_encoding(network, inputs, next_inputs, batch.states)
            chooser = network if self.hyper.double else target
            best = chooser.actions(choice, batch.next_action_mask).deterministic().discrete
            next_q = self._of_actions(head_of(target).q(encoding), best).mean(2)
            target_q = batch.rewards + batch.discounts * next_q
        with self.precision.passes(self.device):
            encoding = network.actor_encoding(inputs)
            if batch.states is not None:
                encoding = network.memory(0)(encoding, batch.states, self.sequence_length)[0]
            q = head_of(network).q(encoding)
        q = self._of_actions(widened(q), batch.actions.discrete)
        loss, td_errors = huber_loss(q, widened(target_q), batch.weights, batch.real)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach(), td_errors

    def _step_on_device(self, batch: ReplayBatch, numbers: Tensor) -> Tensor:
        """Take a gradient step by the given learning rate; return loss and temporal-difference errors."""
        loss, td_errors = self._gradient(batch)
        self.optimizer.step_on_device(numbers[0])
        return torch.cat((loss.reshape(1), td_errors))

    def _next_encoding(
        self, network: Actor, inputs: Sequence[Tensor], next_inputs: Sequence[Tensor], states: Tensor | None
    ) -> Tensor:
        """The input of the head [B, encoding] at the observations after each step.

        With a memory each sequence runs from its first observation to the one after its last step, so that
        every output depends on all that precedes it. (Returns must therefore be of one step.)
        """
        if states is None:
            alone: Tensor = network.actor_encoding(next_inputs)
            return alone
        memory, length = network.memory(0), self.sequence_length
        first = network.actor_encoding([rows[::length] for rows in inputs])
        following = network.actor_encoding(next_inputs).view(-1, length, first.shape[1])
        sequences = torch.cat((first.unsqueeze(1), following), 1).flatten(0, 1)
        outputs: Tensor = memory(sequences, states, length + 1)[0]
        return outputs.view(-1, length + 1, memory.output_size)[:, 1:].flatten(0, 1)

    def _of_actions(self, q: Tensor, actions: Tensor) -> Tensor:
        """The values [B, S, K], of all values [B, S, n], of actions [B, K], counted within each branch."""
        columns = (actions + self._branch_starts).unsqueeze(1)
        return q.gather(2, columns.expand(-1, q.shape[1], -1))

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """The target becomes a copy of the network."""
        self.target.copy_from(self.network)
        return []


def head_of(network: Actor) -> QHead:
    """The head of a network of action values."""
    assert isinstance(network.actions, QHead)
    return network.actions


def huber_loss(
    q: Tensor, targets: Tensor, weights: Tensor | None, real: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The Huber loss, and the errors |y - Q| for priorities.

    Args:
        q: of the actions that were taken, [B, S, K].
        targets: [B, S], the same for all branches.
        weights: [B] of the steps, or None.
        real: [B] which steps count, or None for all.

    Returns:
        The weighted mean over steps of the means over signals and branches, and [B] the mean errors.
    """
    targets = targets.unsqueeze(2).expand_as(q)
    with torch.no_grad():
        errors = (targets - q).abs().mean((1, 2))
    if weights is None and real is None:
        return functional.smooth_l1_loss(q, targets), errors
    losses = functional.smooth_l1_loss(q, targets, reduction="none").mean((1, 2))
    if weights is not None:
        losses = losses * weights
    if real is None:
        return losses.mean(), errors
    return losses.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1), errors
