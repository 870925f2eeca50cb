"""Implicit Q-learning: what recorded actions were worth (Kostrikov et al. 2022, arXiv 2110.06169).

Q(o, a) is what a recorded action returns, V(o) approaches the best of these at o. Neither is asked about an
action that nobody took, as a policy would ask: so they learn from records alone. The policy then imitates the
actions, those with more advantage more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.rollout import first_steps
from ....envs.validation import NonFinitePolicy
from ...buffers.demonstrations import Demonstrations
from ...networks.critics import TWINS, ActionCritics, ValueNetwork
from ...networks.modules.distributions import flat_actions
from ...networks.observations import to_tensors
from ...settings.models.networks import NetworkSettings
from ...settings.models.rewards import IQLSettings
from ..common.optim import CheckedAdam, TargetNetwork

VALUE_LOSS, Q_LOSS, EFFECTIVE_SHARE = "Losses/Value Loss", "Losses/Q Loss", "Cloning/Effective Share"
LARGEST_WEIGHT = 100.0
"""The greatest weight of a step, as in the paper's code."""
SCALE_STEP = 0.01
"""How far the scale of advantages moves towards that of each minibatch."""


class ImplicitQLearning:
    """V, twin Q of all recorded actions, continuous and discrete, and the slow copy of both."""

    def __init__(
        self,
        demos: Demonstrations,
        network: NetworkSettings,
        settings: IQLSettings,
        *,
        gamma: float,
        learning_rate: float,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
    ) -> None:
        """Make the networks.

        Args:
            demos: N steps, with their rewards.
            network: of V and of each Q.
            settings: of the section `clone.iql`.
            gamma: the discount of rewards.
            learning_rate: of V and Q, from beginning to end.
            device: the learner's.
            seed: of the initial weights.
            non_finite: how to handle gradients that are not finite.

        Errors are those of `ObservationEncoder`.
        """
        self.settings, self.learning_rate = settings, learning_rate
        spec, actions = demos.spec, demos.spec.action_spec
        size = int(actions.continuous_size) + sum(actions.discrete_branches)
        flat = BehaviorSpec(spec.observation_specs, ActionSpec.create_continuous(size))
        init = torch.Generator().manual_seed(seed)
        self.value = ValueNetwork(flat, network, ["extrinsic"], init).to(device)
        self.q = ActionCritics(TWINS, flat, network, 1, init).to(device)
        self.target = TargetNetwork(self.q)
        self.value_optimizer, self.q_optimizer = (
            CheckedAdam(part.parameters(), learning_rate, non_finite, of="implicit Q-learning")
            for part in (self.value, self.q)
        )
        continuous, discrete, reward, going = to_tensors(
            [demos.continuous, demos.discrete, demos.rewards, ~demos.done | demos.interrupted], device
        )
        self._acted = flat_actions(continuous.clamp(-1.0, 1.0), discrete, actions.discrete_branches)
        """[N, A + sum of branch sizes] the actions as the engine got them."""
        self._rewards, self._discounts = reward[:, None], gamma * going.float()[:, None]
        """The rewards and discounts, [N, 1] each."""
        self._ends = torch.from_numpy(_ends(demos.lengths)).to(device)
        self._final_obs = to_tensors(demos.next_obs, device)
        self.scale = torch.zeros((), device=device)
        """The root mean square of advantages; 0 before the first."""
        self._statistics: list[Tensor] = []

    def next_obs(self, obs: Sequence[Tensor], rows: Tensor) -> list[Tensor]:
        """[B, *shape] per sensor, the observations after the steps `rows` [B] of all, [N, *shape]."""
        ends = self._ends.index_select(0, rows)
        last = ends >= 0
        following = [column.index_select(0, (rows + 1).clamp(max=len(self._ends) - 1)) for column in obs]
        for column, final in zip(following, self._final_obs, strict=True):
            column[last] = final.index_select(0, ends[last])
        return following

    def step(
        self, rows: Tensor, inputs: Sequence[Tensor], next_inputs: Sequence[Tensor], policy_step: int
    ) -> Tensor:
        """Take one gradient step of V and of Q; return the weight of each of the steps `rows`, [B].

        Args:
            rows: [B] of the demonstrations.
            inputs: their prepared observations.
            next_inputs: those that followed them.
            policy_step: for messages.

        Raises:
            FloatingPointError: a gradient is not finite, and `non_finite` is STOP.
        """
        acted, own = self._acted.index_select(0, rows), self.settings
        with torch.no_grad():
            q_target = self.target.network(inputs, acted).amin(0)
            next_value = self.value(next_inputs)
            y = self._rewards.index_select(0, rows) + self._discounts.index_select(0, rows) * next_value
        # E L(min Q'(o, a) - V(o)) with L(u) = |expectile - 1[u < 0]| u^2
        advantages = q_target - self.value(inputs)
        value_loss = expectile_loss(advantages, own.expectile)
        self._descend(self.value_optimizer, value_loss, policy_step)
        # E (r + gamma V(o') - Q(o, a))^2, of both
        q_loss = (y - self.q(inputs, acted)).square().mean((1, 2)).sum()
        self._descend(self.q_optimizer, q_loss, policy_step)
        self.target.update(self.q_optimizer.flat, own.tau)
        weights = self._weights(advantages.detach()[:, 0])
        effective = weights.sum().square() / weights.square().sum() / len(weights)
        self._statistics.append(torch.stack((value_loss.detach(), q_loss.detach(), effective)))
        return weights

    def _descend(self, optimizer: CheckedAdam, loss: Tensor, policy_step: int) -> None:
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step(self.learning_rate, policy_step)

    def _weights(self, advantages: Tensor) -> Tensor:
        """exp(beta A / scale), [B]; the scale, so that beta means the same for rewards of any size.

        Wang et al. 2018, "Exponentially Weighted Imitation Learning for Batched Historical Data", divide so.
        """
        found = advantages.square().mean().sqrt()
        self.scale = torch.where(self.scale > 0, self.scale.lerp(found, SCALE_STEP), found)
        return advantage_weights(advantages / self.scale.clamp(min=1e-8), self.settings.inverse_temperature)

    def pop_metrics(self) -> dict[str, float]:
        """The means since the last call, by statistics' names."""
        if not self._statistics:
            return {}
        means = torch.stack(self._statistics).mean(0).tolist()
        self._statistics.clear()
        return dict(zip((VALUE_LOSS, Q_LOSS, EFFECTIVE_SHARE), means, strict=True))

    # Saving -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Networks, optimizers and scale: all that the next step depends on."""
        return {
            **{name: part.state_dict() for name, part in self._parts().items()},
            "scale": self.scale.item(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.scale.fill_(state["scale"])

    def _parts(self) -> dict[str, Any]:
        optimizers = {"Optimizer:value": self.value_optimizer, "Optimizer:q": self.q_optimizer}
        return {"Value": self.value, "Q": self.q, "Target": self.target.network, **optimizers}


def expectile_loss(errors: Tensor, expectile: float) -> Tensor:
    """The mean of |expectile - 1[u < 0]| u^2 over errors u, target less estimate (equation 5)."""
    weights = torch.where(errors < 0, 1.0 - expectile, expectile)
    return (weights * errors.square()).mean()


def advantage_weights(advantages: Tensor, inverse_temperature: float) -> Tensor:
    """exp(beta A), at most `LARGEST_WEIGHT` (equation 7)."""
    return (inverse_temperature * advantages).exp().clamp(max=LARGEST_WEIGHT)


def _ends(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """[N] the episode that ends with each step; -1: none."""
    ends = np.full(int(lengths.sum()), -1, np.int64)
    ends[first_steps(lengths) + lengths - 1] = np.arange(len(lengths))
    return ends
