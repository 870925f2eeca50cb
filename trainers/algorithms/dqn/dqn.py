"""Deep Q-learning (Mnih et al. 2015), with the double estimator (van Hasselt et al. 2015, arXiv 1509.06461).

Dueling values: Wang et al. 2015, arXiv 1511.06581. Several branches of actions: Tavakoli et al. 2017, arXiv
1711.08946. With a memory whole sequences are learnt from, each from the state in which it was made, as in
Kapturowski et al. 2019, "R2D2".

What DQN learns from a batch: which values it compares, and the loss.

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

from ....agent_processor.trajectory import Rollout
from ...buffers.replay.sampler import ReplayBatch
from ...networks.actor import Actor
from ...networks.modules.chunking import chunked_forward
from ...networks.modules.exploration import ExplorationSchedule
from ...networks.modules.heads import HeadConfig, QHead
from ...networks.modules.precision import widened
from ...policies.exploration import EpsilonGreedy
from ...settings.models.algorithms import DQNSettings
from ...settings.models.behavior import TrainerSettings
from ..base import OffPolicyAlgorithm, Traits, UpdateResult, require_discrete
from ..common.observations import to_tensors
from ..common.optim import CheckedAdam
from ..common.target_network import Target


class DQN(OffPolicyAlgorithm):
    """The network of action values, its target, and the update."""

    name = "DQN"
    traits = Traits(is_greedy=True)
    network: Actor
    hyper: DQNSettings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        hyper, actions = settings.hyperparameters, self.spec.action_spec
        assert isinstance(hyper, DQNSettings)
        require_discrete(
            actions,
            "DQN compares the values of all actions, so it needs discrete ones alone",
            "Use trainer_type: sac, td3, ddpg or ppo for continuous actions; sac or ppo for both kinds.",
        )
        head = HeadConfig(values=len(self.signals), dueling=hyper.dueling)
        init = torch.Generator().manual_seed(seed)
        self.network = Actor(self.spec, settings.network_settings, init, head=head).to(self.device)
        self.target = Target(self.network)
        self.optimizer = CheckedAdam(self.network.parameters(), hyper.learning_rate, self.non_finite)
        self.columns = BranchColumns([int(b) for b in actions.discrete_branches], self.device)
        schedule = ExplorationSchedule(hyper.epsilon_start, hyper.epsilon_end, hyper.epsilon_decay_steps)
        self.explorer: EpsilonGreedy = EpsilonGreedy(actions, schedule)
        self.updates = 0
        """Gradient steps so far."""

    def modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.modules`."""
        return {"Policy": self.network}

    def target_modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.target_modules`."""
        return {"Target": self.target.network}

    def optimizers(self) -> dict[str, CheckedAdam]:
        """See `Algorithm.optimizers`."""
        return {"Optimizer": self.optimizer}

    @torch.no_grad()
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """The values [steps, signals] of what a greedy agent would do; the mean over branches."""
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
        return {"Value": self.columns.taken(head.q(encoded), best).mean(2).cpu().numpy()}

    # The update ---------------------------------------------------------------------------------------

    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
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
        self.optimizer.zero_grad()
        value_loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.learning_rate(policy_step), policy_step)
        self._let_target_follow()
        return UpdateResult({"Losses/Value Loss": value_loss.item()}, errors)

    def _let_target_follow(self) -> None:
        self.updates += 1
        if self.hyper.tau is not None:
            self.target.follow(self.optimizer.flat, self.hyper.tau)
        elif self.updates % self.hyper.target_update_interval == 0:
            self.target.follow(self.optimizer.flat)

    def metrics(self, policy_step: int) -> dict[str, float]:
        """The values of the schedules."""
        return {
            "Policy/Learning Rate": self.learning_rate(policy_step),
            self.explorer.statistic: self.explorer.schedule(policy_step),
        }

    # Transfer and state ---------------------------------------------------------------------------------

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """The target becomes a copy of the network."""
        self.target.follow(self.optimizer.flat)
        return []

    def state_dict(self) -> dict[str, Any]:
        """See `Algorithm.state_dict`."""
        return super().state_dict() | {"gradient_steps": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        super().load_state_dict(state)
        self.updates = int(state["gradient_steps"])


class BranchColumns:
    """Where the actions of each branch stand among all."""

    def __init__(self, sizes: Sequence[int], device: torch.device) -> None:
        starts = [sum(sizes[:k]) for k in range(len(sizes))]
        self.starts = torch.tensor(starts, device=device)

    def taken(self, q: Tensor, actions: Tensor) -> Tensor:
        """[B, S, n] values and [B, K] actions, counted within each branch -> their values [B, S, K]."""
        columns = (actions + self.starts).unsqueeze(1)
        return q.gather(2, columns.expand(-1, q.shape[1], -1))


def head_of(network: Actor) -> QHead:
    """The head of a network of action values."""
    assert isinstance(network.actions, QHead)
    return network.actions


def encodings(network: Actor, inputs: Sequence[Tensor], states: Tensor | None, length: int) -> Tensor:
    """What stands before the head [B, encoding]; with a memory over sequences that begin in `states`."""
    encoded = network.actor_encoding(inputs)
    return encoded if states is None else network.memory(0)(encoded, states, length)[0]


def next_encodings(
    network: Actor, inputs: Sequence[Tensor], following: Sequence[Tensor], states: Tensor | None, length: int
) -> Tensor:
    """The same of what follows each step.

    With a memory a sequence is gone through from its first observation on to what follows its last one: what
    the memory says there has seen all that lies before. (So a step's return must be that of one step.)
    """
    if states is None:
        alone: Tensor = network.actor_encoding(following)
        return alone
    memory = network.memory(0)
    first = network.actor_encoding([rows[::length] for rows in inputs])
    behind = network.actor_encoding(following).view(-1, length, first.shape[1])
    through = torch.cat((first.unsqueeze(1), behind), 1).flatten(0, 1)
    said: Tensor = memory(through, states, length + 1)[0]
    return said.view(-1, length + 1, memory.output_size)[:, 1:].flatten(0, 1)


def targets(
    network: Actor,
    target: Actor,
    inputs: Sequence[Tensor],
    following: Sequence[Tensor],
    batch: ReplayBatch,
    columns: BranchColumns,
    length: int,
    *,
    double: bool,
) -> Tensor:
    """Y = r + discount * mean over branches of Q'(o', a*): [B, S].

    a* is, in each branch, the best available action by the sum over signals: as the network sees it, valued
    by the target network (van Hasselt et al. 2015, arXiv 1509.06461), or, without `double`, as the target
    network sees it. The mean over branches: Tavakoli et al. 2017, arXiv 1711.08946, equation 6.
    """
    valued = next_encodings(target, inputs, following, batch.states, length)
    chooser = network if double else target
    chosen = next_encodings(network, inputs, following, batch.states, length) if double else valued
    best = chooser.actions(chosen, batch.next_action_mask).deterministic().discrete
    values = columns.taken(head_of(target).q(valued), best).mean(2)
    return batch.rewards + batch.discounts * values


def loss(
    taken: Tensor, targets: Tensor, weights: Tensor | None, real: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Huber's loss, and the errors |y - Q| for priorities.

    Args:
        taken: Q of the actions that were taken, [B, S, K].
        targets: [B, S]; all branches have the same.
        weights: [B] of the steps, or None.
        real: [B] which steps count, or None for all.

    Returns:
        The weighted mean over steps of the means over signals and branches, and [B] the mean errors.
    """
    wanted = targets.unsqueeze(2).expand_as(taken)
    with torch.no_grad():
        errors = (wanted - taken).abs().mean((1, 2))
    if weights is None and real is None:
        return functional.smooth_l1_loss(taken, wanted), errors
    of_steps = functional.smooth_l1_loss(taken, wanted, reduction="none").mean((1, 2))
    if weights is not None:
        of_steps = of_steps * weights
    if real is None:
        return of_steps.mean(), errors
    return of_steps.masked_fill(~real, 0.0).sum() / real.sum().clamp(min=1), errors
