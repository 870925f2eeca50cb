"""Curiosity by self-supervised prediction (Pathak et al. 2017, arXiv 1705.05363).

A forward model predicts the embedding of the next observation from that of the current one and the action;
its error is the reward. The embedding is learned by an inverse model, which infers the action from the
embeddings before and after it, and so represents only what the agent's actions influence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from mlagents_envs.base_env import ActionSpec, BehaviorSpec
from torch import Tensor, nn
from torch.nn import functional

from ...envs.validation import NonFinitePolicy
from ..networks.modules.distributions import Actions, Branches, flat_actions
from ..networks.modules.layers import Dense, xavier_uniform_
from ..networks.modules.passes import chunked_forward
from ..settings.models.rewards import CuriositySettings
from .base import Embedding, NetworkSignal
from .transitions import Transitions

HIDDEN = 256
"""The number of units of the hidden layers of both models."""
FORWARD_WEIGHT = 0.2
"""The weight of the forward model's loss against the inverse one's: beta of the paper."""
LOSS_SCALE = 10.0
LOG_EPSILON = 1e-10


class Models(nn.Module):
    """The embedding phi with the forward model f and the inverse model g on it."""

    def __init__(self, spec: BehaviorSpec, settings: CuriositySettings, generator: torch.Generator) -> None:
        super().__init__()
        actions: ActionSpec = spec.action_spec
        self.continuous_size = int(actions.continuous_size)
        self.branches = Branches([int(size) for size in actions.discrete_branches])
        self.embedding = Embedding(spec.observation_specs, settings.network_settings, generator)
        size, of_action = self.embedding.size, self.continuous_size + sum(self.branches.sizes)
        self.forward_hidden = _hidden(size + of_action, generator)
        self.next_embedding = _output(HIDDEN, [size], generator)
        self.inverse_hidden = _hidden(2 * size, generator)
        self.action = _output(HIDDEN, [self.continuous_size, *self.branches.sizes], generator)

    def predict(self, current: Tensor, action: Tensor) -> Tensor:
        """f(phi(o), a): [B, size] from [B, size] and flat actions."""
        hidden = functional.silu(self.forward_hidden(torch.cat((current, action), 1)))
        predicted: Tensor = self.next_embedding(hidden)
        return predicted

    def infer(self, current: Tensor, following: Tensor) -> tuple[Tensor, Tensor]:
        """g(phi(o), phi(o')): continuous actions [B, A], and logits [B, sum of branch sizes]."""
        hidden = functional.silu(self.inverse_hidden(torch.cat((current, following), 1)))
        continuous, logits = self.action(hidden).tensor_split([self.continuous_size], dim=1)
        return continuous, logits


class Embeddings(NamedTuple):
    """phi(o) and phi(o') of B steps, [B, size] each."""

    current: Tensor
    following: Tensor


class Curiosity(NetworkSignal):
    """Reward = |phi(o') - f(phi(o), a)|^2 / 2, at most 1 / strength; 0 before the first gradient step."""

    name = "curiosity"
    ignores_done = True
    needs_next_obs = True

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: CuriositySettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
    ) -> None:
        """Build the models.

        Errors are those of `ObservationEncoder`.
        """
        init = torch.Generator().manual_seed(seed)
        self.models = Models(spec, settings, init).to(device)
        self.most = 1.0 / settings.strength if settings.strength > 0 else math.inf
        encoder = self.models.embedding.encoder
        super().__init__(spec, settings, {"models": self.models}, encoder, device, non_finite)

    @torch.no_grad()
    def rewards(self, steps: Transitions) -> Tensor:
        """[B] the errors of the forward model."""
        if not self.optimizer.adam.steps:
            return torch.zeros(len(steps), device=self.device)
        return self._errors(self._embeddings(steps), self._action(steps)).clamp(max=self.most)

    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """Take one gradient step of all three networks."""
        embeddings = self._embeddings(steps)
        forward_loss = self._errors(embeddings, self._action(steps)).mean()
        inferred = self.models.infer(*embeddings)
        inverse = inverse_loss(*inferred, steps.actions, self.models.branches)
        loss = FORWARD_WEIGHT * forward_loss + (1.0 - FORWARD_WEIGHT) * inverse
        self._descend(LOSS_SCALE * loss, policy_step)
        return {
            "Losses/Curiosity Forward Loss": forward_loss.item(),
            "Losses/Curiosity Inverse Loss": inverse.item(),
        }

    def _embeddings(self, steps: Transitions) -> Embeddings:
        """Embed all observations in one pass: most are both a current and a next one."""
        every = [torch.cat(both) for both in zip(steps.obs, steps.next_obs, strict=True)]
        inputs = self.models.embedding.prepare(every)
        network = self.models.embedding
        embedded = network(inputs) if torch.is_grad_enabled() else chunked_forward(network, inputs)
        current = embedded[: len(steps)]
        if steps.next_index is None:
            return Embeddings(current, embedded[len(steps) :])
        return Embeddings(current, embedded.index_select(0, steps.next_index))

    def _action(self, steps: Transitions) -> Tensor:
        return flat_actions(*steps.actions, self.models.branches.sizes)

    def _errors(self, embeddings: Embeddings, action: Tensor) -> Tensor:
        """[B] the errors |phi(o') - f(phi(o), a)|^2 / 2 of the forward model."""
        return 0.5 * (embeddings.following - self.models.predict(embeddings.current, action)).square().sum(1)


def inverse_loss(continuous: Tensor, logits: Tensor, actions: Actions, branches: Branches) -> Tensor:
    """The error of the inverse model's actions.

    The mean over steps of the squared errors of continuous actions, and that of -ln p of discrete ones.

    Args:
        continuous: [B, A], the inverse model's.
        logits: [B, sum of branch sizes], the same.
        actions: of the steps.
        branches: their layout.
    """
    loss = (continuous - actions.continuous).square().sum(1).mean()
    if branches.sizes:
        p = branches.rectangular(logits).softmax(-1)
        taken = p.gather(-1, actions.discrete.unsqueeze(-1)).squeeze(-1)
        loss = loss - (taken + LOG_EPSILON).log().sum(1).mean()
    return loss


def _hidden(size: int, generator: torch.Generator) -> Dense:
    return Dense(size, HIDDEN, 1.0 / math.sqrt(size), generator)


def _output(size: int, widths: Sequence[int], generator: torch.Generator) -> Dense:
    """One product for several outputs, each initialized as a layer of its own."""
    layer = Dense(size, sum(widths), 1.0, generator)
    for weight in torch.split(layer.weight.data, list(widths), dim=1):
        xavier_uniform_(weight, size, weight.shape[1], generator)
    return layer
