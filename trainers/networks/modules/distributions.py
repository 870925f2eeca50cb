"""Action distributions: Gaussians for continuous, categoricals for discrete actions, and greedy policies.

Small batches are bound by the number of torch calls, not by arithmetic: all branches are computed together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from .passes import widened

EPSILON = 1e-7
"""Keeps logarithms and divisions finite. Part of ML-Agents' formulas, and so of what its settings mean."""
BLOCKED_LOGIT = -1e8
LOG_SIGMA_RANGE = (-20.0, 2.0)
ENGINE_RANGE = 3.0
"""Continuous samples beyond this are clipped for the engine, and all are divided by it, as in ML-Agents; the
default of `network_settings.action_range`."""
INSIDE = 1.0 - 2.0**-24
"""The largest float32 below 1."""
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
LOG_2PI_E = math.log(2.0 * math.pi * math.e)
LOG_EPSILON = math.log(EPSILON)


class Actions(NamedTuple):
    """The actions of B agents, as sampled."""

    continuous: Tensor
    """[B, continuous_size] float32, before clipping and scaling; [B, 0] without continuous actions."""
    discrete: Tensor
    """[B, branches] int64 (int32 is taken too); [B, 0] without discrete actions."""


def flat_actions(continuous: Tensor, discrete: Tensor, branches: Sequence[int]) -> Tensor:
    """Actions as the input of a network, [R, A + sum b]: as sampled, then one-hot branch by branch."""
    hot = [
        torch.nn.functional.one_hot(discrete[:, k].long(), size).to(continuous.dtype)
        for k, size in enumerate(branches)
    ]
    return torch.cat((continuous, *hot), 1)


def gaussian_log_prob(mu: Tensor, log_sigma: Tensor, actions: Tensor) -> Tensor:
    """Log-probability of each component: -(a - mu)^2 / (2 sigma^2 + 1e-7) - ln(sigma + 1e-7) - ln sqrt(2 pi).

    `mu` and `actions` are [B, A]; `log_sigma` is [A], [1, A] or [B, A]. Returns [B, A].
    """
    sigma, deviation = log_sigma.exp(), actions - mu
    exponent = deviation * deviation / (2.0 * sigma * sigma + EPSILON)
    return -exponent - ((sigma + EPSILON).log() + LOG_SQRT_2PI)


def squashed_log_prob(mu: Tensor, log_sigma: Tensor, actions: Tensor) -> Tensor:
    """Log-probability of each component of tanh(a Gaussian's sample): the Gaussian's, less ln(1 - tanh^2).

    Shapes as of `gaussian_log_prob`. Actions of exactly -1 or 1, which rounding makes, count as the nearest
    number inside.
    """
    raw = actions.clamp(-INSIDE, INSIDE).atanh()
    slope = 2.0 * (math.log(2.0) - raw - torch.nn.functional.softplus(-2.0 * raw))
    return gaussian_log_prob(mu, log_sigma, raw) - slope


def gaussian_entropy(log_sigma: Tensor) -> Tensor:
    """Entropy per row: the mean over components of 0.5 ln(2 pi e sigma^2 + 1e-7). [..., A] -> [...].

    The mean, not the sum: settings of `beta` in use are tuned to it.
    """
    # The logarithm of the sum as ln(exp(x) + exp(y)): fewer calls, and no overflow.
    log_variance = 2.0 * log_sigma + LOG_2PI_E
    return 0.5 * torch.logaddexp(log_variance, log_sigma.new_full((), LOG_EPSILON)).mean(-1)


def clamp_log_sigma(log_sigma: Tensor) -> Tensor:
    """A log sigma that a network computed, kept within [-20, 2]."""
    return log_sigma.clamp(*LOG_SIGMA_RANGE)


def to_engine(continuous: Tensor, action_range: float = ENGINE_RANGE) -> Tensor:
    """Raw samples as the engine takes them: clamp(a, -range, range) / range. Any shape."""
    return continuous.clamp(-action_range, action_range) / action_range


class Branches:
    """The layout of K discrete branches: flat [B, sum b] logits to rectangular [B, K, max b] and back."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self.widest = max(self.sizes, default=0)
        self.equal = len(set(self.sizes)) <= 1
        self._columns = torch.tensor(
            [k * self.widest + j for k, size in enumerate(self.sizes) for j in range(size)], dtype=torch.int64
        )

    def rectangular(self, logits: Tensor) -> Tensor:
        """[B, sum b] -> [B, K, max b]; the columns that a narrower branch lacks are -inf."""
        shape = (logits.shape[0], len(self.sizes), self.widest)
        if self.equal:
            return logits.reshape(shape)
        padded = logits.new_full((logits.shape[0], len(self.sizes) * self.widest), -math.inf)
        return padded.index_copy(1, self._on(logits.device), logits).view(shape)

    def flat(self, rectangular: Tensor) -> Tensor:
        """[B, K, max b] -> [B, sum b]."""
        flat = rectangular.flatten(1)
        return flat if self.equal else flat.index_select(1, self._on(flat.device))

    def _on(self, device: torch.device) -> Tensor:
        if self._columns.device != device:
            self._columns = self._columns.to(device)
        return self._columns


D = TypeVar("D", bound="ActionDistribution")


@dataclass(eq=False)
class ActionDistribution:
    """The distributions of the actions of B agents.

    Continuous components are independent Gaussians, or tanh of these (entropies are the Gaussians'); each
    branch is a categorical over p = softmax(logits), where the logits of forbidden actions are -1e8, with
    ln p taken as ln(p + 1e-7).
    """

    mu: Tensor
    """[B, A]."""
    log_sigma: Tensor
    """[A] or [B, A]."""
    logits: Tensor
    """[B, sum of branch sizes], branches side by side."""
    branches: Branches
    action_mask: Tensor | None = None
    """[B, sum of branch sizes] bool, True where forbidden, as in DecisionSteps; None: nothing is."""
    squashed: bool = False
    """Continuous actions are tanh of what the Gaussians give, and so in an engine's range already."""
    action_range: float = ENGINE_RANGE
    """What is 1 for the engine, of actions that are not squashed."""

    @cached_property
    def probabilities(self) -> Tensor:
        """[B, K, widest branch]; 0 in the columns that a narrower branch lacks."""
        logits = self.logits
        if self.action_mask is not None:
            # Equal to logits * allow - 1e8 * (1 - allow), also in its gradient.
            logits = logits.masked_fill(self.action_mask, BLOCKED_LOGIT)
        return self.branches.rectangular(logits).softmax(-1)

    @cached_property
    def log_probabilities(self) -> Tensor:
        """ln(p + 1e-7) of every action: [B, K, widest branch]."""
        return (self.probabilities + EPSILON).log()

    def widened(self: D) -> D:
        """The same in float32 where its network computed in bfloat16."""
        mu, log_sigma, logits = map(widened, (self.mu, self.log_sigma, self.logits))
        return replace(self, mu=mu, log_sigma=log_sigma, logits=logits)

    @property
    def _has_continuous(self) -> bool:
        return self.mu.shape[-1] > 0

    def sample(self, generator: torch.Generator | None = None) -> Actions:
        """Draw one action for each agent, from `generator` or torch's own.

        One of the CPU draws for tensors of any device.
        """
        return Actions(self._sample_continuous(generator), self._sample_discrete(generator))

    def _sample_continuous(self, generator: torch.Generator | None) -> Tensor:
        if not self._has_continuous:
            return self.mu
        device = self.mu.device if generator is None else generator.device
        noise = torch.randn(self.mu.shape, generator=generator, dtype=self.mu.dtype, device=device)
        return self.squash(torch.addcmul(self.mu, self.log_sigma.exp(), noise.to(self.mu.device)))

    def squash(self, raw: Tensor) -> Tensor:
        """What the Gaussians give, as it is sampled: tanh of it, or itself."""
        return raw.tanh() if self.squashed else raw

    def _sample_discrete(self, generator: torch.Generator | None) -> Tensor:
        if not self.branches.sizes:
            return self.logits.new_zeros((self.logits.shape[0], 0), dtype=torch.int64)
        # The first of exponential clocks with rates p to ring is distributed as p; a rate of 0 never rings.
        device = self.logits.device if generator is None else generator.device
        clocks = torch.empty_like(self.probabilities, device=device).exponential_(generator=generator)
        return (self.probabilities / clocks.to(self.logits.device)).argmax(-1)

    def deterministic(self) -> Actions:
        """The mean of each Gaussian, squashed if samples are, and the likeliest action of each branch.

        Of several likeliest it is the first.
        """
        continuous = self.squash(self.mu)
        if not self.branches.sizes:
            return Actions(continuous, self._sample_discrete(None))
        return Actions(continuous, self.probabilities.argmax(-1))

    def shortfall(self, chosen: Tensor) -> Tensor:
        """[B, K]: by how much these discrete actions [B, K] are less probable than the likeliest."""
        taken = self.probabilities.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        return self.probabilities.max(-1).values - taken

    def log_probs(self, actions: Actions) -> Tensor:
        """[B, A + K]: one column per continuous component, then one per branch. Never a joint probability."""
        columns: list[Tensor] = []
        if self._has_continuous:
            log_prob = squashed_log_prob if self.squashed else gaussian_log_prob
            columns.append(log_prob(self.mu, self.log_sigma, actions.continuous))
        if self.branches.sizes:
            chosen = actions.discrete.long().unsqueeze(-1)
            columns.append(self.log_probabilities.gather(-1, chosen).squeeze(-1))
        if not columns:
            return self.mu.new_zeros(self.mu.shape)
        return columns[0] if len(columns) == 1 else torch.cat(columns, 1)

    def entropy(self) -> Tensor:
        """[B]: the mean of the Gaussian entropies plus the sum of the branches' -sum p ln(p + 1e-7)."""
        total: Tensor | None = None
        if self._has_continuous:
            total = gaussian_entropy(self.log_sigma)
        if self.branches.sizes:
            discrete = -(self.probabilities * self.log_probabilities).sum((1, 2))
            total = discrete if total is None else total + discrete
        if total is None:
            total = self.mu.new_zeros(())
        return total.expand(self.mu.shape[0])

    def to_engine(self, continuous: Tensor) -> Tensor:
        """Continuous actions as sampled, as the engine takes them; see the function `to_engine`."""
        return continuous if self.squashed else to_engine(continuous, self.action_range)


@dataclass(eq=False)
class GreedyDistribution(ActionDistribution):
    """All of the probability lies on one action.

    `logits` are the values of the discrete actions, of which the greatest that is not forbidden is taken (the
    first of several); `mu` are the continuous actions before tanh. Samples are the deterministic actions.
    """

    @cached_property
    def values(self) -> Tensor:
        """[B, K, widest branch]: of each action; -1e8 where it is forbidden, -inf where it is lacking."""
        values = self.logits
        if self.action_mask is not None:
            values = values.masked_fill(self.action_mask, BLOCKED_LOGIT)
        return self.branches.rectangular(values)

    @cached_property
    def probabilities(self) -> Tensor:
        """[B, K, widest branch]: 1 for the action that is taken, 0 for all others."""
        best = self.values.argmax(-1, keepdim=True)
        return torch.zeros_like(self.values).scatter_(-1, best, 1.0)

    def sample(self, generator: torch.Generator | None = None) -> Actions:
        """The deterministic actions; nothing is drawn."""
        return self.deterministic()

    def deterministic(self) -> Actions:
        """tanh(mu), and the best action of each branch."""
        continuous = self.squash(self.mu)
        if not self.branches.sizes:
            return Actions(continuous, self._sample_discrete(None))
        return Actions(continuous, self.values.argmax(-1))

    def log_probs(self, actions: Actions) -> Tensor:
        """[B, A + K] of zeros: there is nothing else that could have been done."""
        return self.mu.new_zeros((self.mu.shape[0], self.mu.shape[1] + len(self.branches.sizes)))

    def entropy(self) -> Tensor:
        """[B] of zeros."""
        return self.mu.new_zeros(self.mu.shape[0])

    def shortfall(self, chosen: Tensor) -> Tensor:
        """[B, K]: by how much the values of these actions [B, K] lie below the greatest, in parts of it."""
        greatest = self.values.max(-1).values
        deficit = greatest - self.values.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        return deficit / greatest.abs().clamp(min=1.0)


@dataclass(eq=False)
class ExploringDistribution(ActionDistribution):
    """pi' = (1 - e) softmax + e / n over the n available actions of each branch (Foerster et al. 2018).

    Samples, log-probabilities and entropy are those of pi'. Continuous actions are as they were.
    """

    exploration: Tensor | float = 0.0
    """e, 0 to 1: one number, or [B]."""

    @cached_property
    def probabilities(self) -> Tensor:
        """[B, K, widest branch] of pi'; 0 where an action is forbidden or lacking."""
        chance = self.exploration
        if isinstance(chance, Tensor):
            chance = chance.reshape(-1, 1, 1)
        available = self.logits.new_ones(self.logits.shape)
        if self.action_mask is not None:
            available = available.masked_fill(self.action_mask, 0.0)
        available = self.branches.rectangular(available).clamp(min=0.0)
        evenly = available / available.sum(-1, keepdim=True).clamp(min=1.0)
        chosen = super().probabilities
        return chosen + chance * (evenly - chosen)


def explore(distribution: ActionDistribution, exploration: Tensor | float) -> ExploringDistribution:
    """The same policy, exploring by so much (a number, or one per row)."""
    parts = {field.name: getattr(distribution, field.name) for field in fields(ActionDistribution)}
    return ExploringDistribution(**parts, exploration=exploration)


@dataclass(frozen=True)
class ExplorationSchedule:
    """A straight line from `start` to `end`, reached after `decay_steps`, and level from there on."""

    start: float
    end: float
    decay_steps: int

    def __call__(self, step: int) -> float:
        """How much to explore at this step of the trainer."""
        progress = min(step, self.decay_steps) / self.decay_steps if self.decay_steps > 0 else 1.0
        return self.start * (1.0 - progress) + self.end * progress
