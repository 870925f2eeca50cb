"""Actions of a few agents, drawn in arrays with as few calls as the arithmetic needs.

What comes out is what `ActionDistribution` gives, bit for bit (tests/trainers/policies/test_sampling.py). So
torch draws all random numbers and computes whatever libraries round each in their own way: exponentials,
logarithms, sums, fused multiplication and addition. NumPy, whose calls cost less, computes the rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..networks.modules.distributions import (
    BLOCKED_LOGIT,
    ENGINE_RANGE,
    EPSILON,
    INSIDE,
    LOG_2PI_E,
    LOG_EPSILON,
    LOG_SQRT_2PI,
    Branches,
    clamp_log_sigma,
    gaussian_entropy,
)
from ..networks.modules.heads import ActingHead

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Mask = NDArray[np.bool_]
"""[n, sum of branch sizes], True where an action is forbidden."""

_LOG_2 = np.float32(math.log(2.0))


class DrawnActions(NamedTuple):
    """The actions of n agents, as in `Decision`."""

    continuous: Floats
    """[n, A], as sampled."""
    for_engine: Floats
    """[n, A], from -1 to 1."""
    discrete: Ints
    """[n, K]."""
    log_probs: Floats
    """[n, A + K]."""
    entropy: Floats
    """[n]."""


class ActionSampler:
    """Draws from the distributions of a head, whose log sigmas it follows when they change in place."""

    def __init__(self, head: ActingHead) -> None:
        branches = head.branches
        self._widths = (head.continuous_size, head.continuous_size + sum(branches.sizes))
        self._gaussians = _Gaussians(head) if head.continuous_size else None
        self._categoricals = _Categoricals(branches) if branches.sizes else None

    def __call__(
        self,
        columns: Tensor,
        forbidden: Mask | None,
        generator: torch.Generator | None,
        exploration: float = 0.0,
    ) -> DrawnActions:
        """The actions of n agents.

        Args:
            columns: [n, columns] of the head.
            forbidden: or None, if nothing is.
            generator: of the noise; None: the likeliest actions.
            exploration: as of `ExploringDistribution`.
        """
        size, end = self._widths
        count = len(columns)
        continuous = for_engine = log_probs = np.zeros((count, 0), np.float32)
        discrete = np.zeros((count, 0), np.int32)
        entropy = np.zeros(count, np.float32)
        if self._gaussians is not None:
            means = columns if size == columns.shape[1] else columns[:, :size]
            continuous, for_engine, log_probs, of_means = self._gaussians(means, columns[:, end:], generator)
            entropy += of_means
        if self._categoricals is not None:
            logits = columns if end - size == columns.shape[1] else columns[:, size:end]
            discrete, of_branches, loss = self._categoricals(logits, forbidden, generator, exploration)
            entropy -= loss
            log_probs = np.concatenate((log_probs, of_branches), 1) if size else of_branches
        return DrawnActions(continuous, for_engine, discrete, log_probs, entropy)

    def greatest(self, values: Tensor, forbidden: Mask | None) -> NDArray[np.int64]:
        """[n, K]: the actions of greatest value, of [n, sum of branch sizes]; the first ones of several."""
        assert self._categoricals is not None, "there are no discrete actions"
        return np.asarray(self._categoricals.rectangular(values, forbidden).numpy().argmax(-1))


class _Sigma(NamedTuple):
    """What depends on log sigma alone."""

    sigma: Floats
    scale: Floats
    """-(2 sigma^2 + 1e-7)."""
    log: Floats
    """ln(sigma + 1e-7) + ln sqrt(2 pi)."""
    entropy: Floats
    """The mean over the components."""

    @classmethod
    def of(cls, log_sigma: Tensor) -> _Sigma:
        """As torch rounds it; [A], or [n, A] with n entropies."""
        exponential = log_sigma.exp()
        logs = (exponential + EPSILON).log_().numpy() + np.float32(LOG_SQRT_2PI)
        sigma = exponential.numpy()
        scale = np.asarray(-(2.0 * sigma * sigma + EPSILON), np.float32)
        return cls(sigma, scale, logs, gaussian_entropy(log_sigma).numpy())

    @classmethod
    def by_numpy(cls, log_sigma: Floats) -> _Sigma:
        """As NumPy rounds it; [A]."""
        sigma = np.exp(log_sigma)
        entropy = 0.5 * np.logaddexp(2.0 * log_sigma + LOG_2PI_E, LOG_EPSILON).mean()
        scale = np.asarray(-(2.0 * sigma * sigma + EPSILON), np.float32)
        logs = np.asarray(np.log(sigma + EPSILON) + LOG_SQRT_2PI, np.float32)
        return cls(sigma, scale, logs, np.asarray(entropy, np.float32))


class _Gaussians:
    """The continuous components.

    Those of constant sigma, without branches beside them, round in NumPy's way throughout, up to the last bit
    like `ActionDistribution`: so that seeds of earlier releases repeat.
    """

    def __init__(self, head: ActingHead) -> None:
        self._squashed, self._of_state = head.squashed, head.sigma_of_state
        self._alone = not (head.squashed or head.sigma_of_state or head.branches.sizes)
        assert isinstance(head.log_sigma, Tensor)
        self._log_sigma = head.log_sigma.detach()
        self._array = self._log_sigma.numpy()
        self._known: tuple[bytes, _Sigma] | None = None

    def __call__(
        self, means: Tensor, log_sigma: Tensor, generator: torch.Generator | None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Actions as sampled and for the engine, log-probabilities; [n, A] each; entropy, [n] or [].

        `log_sigma`: [n, A] before clamping, of heads where it depends on the state.
        """
        of = _Sigma.of(clamp_log_sigma(log_sigma)) if self._of_state else self._constant_sigma()
        noise = None if generator is None else torch.randn(means.shape, generator=generator)
        mu = means.numpy()
        if self._alone:
            deviation = np.zeros_like(mu) if noise is None else noise.numpy()
            deviation *= of.sigma
            sampled = mu + deviation
        else:
            raw = means if noise is None else torch.addcmul(means, torch.from_numpy(of.sigma), noise)
            sampled, slope = raw.numpy(), None
            if self._squashed:
                sampled = raw.tanh().numpy()
                raw, slope = _unsquashed(sampled)
            deviation = raw.numpy() - mu
        log_probs = np.multiply(deviation, deviation, out=deviation)
        log_probs /= of.scale
        log_probs -= of.log
        if self._squashed:
            log_probs -= slope
            return sampled, sampled, log_probs, of.entropy
        for_engine = np.minimum(np.maximum(sampled, -ENGINE_RANGE), ENGINE_RANGE)
        for_engine /= ENGINE_RANGE
        return sampled, for_engine, log_probs, of.entropy

    def _constant_sigma(self) -> _Sigma:
        """Computed again only after it has changed."""
        now = self._array.tobytes()
        if self._known is None or self._known[0] != now:
            self._known = now, _Sigma.by_numpy(self._array) if self._alone else _Sigma.of(self._log_sigma)
        return self._known[1]


def _unsquashed(actions: Floats) -> tuple[Tensor, Floats]:
    """As of `squashed_log_prob`: what tanh was taken of, and the logarithm of its slope there, [n, A]."""
    raw = torch.from_numpy(np.minimum(np.maximum(actions, -INSIDE), INSIDE)).atanh_()
    array = raw.numpy()
    bend = functional.softplus(torch.from_numpy(-2.0 * array)).numpy()
    return raw, 2.0 * (_LOG_2 - array - bend)


class _Categoricals:
    """The branches: K categoricals of n agents, [n, K, widest branch]."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches
        self._first = np.zeros((0, 0), np.int64)
        """[n, K], where the probabilities of each branch of each agent begin."""

    def __call__(
        self, logits: Tensor, forbidden: Mask | None, generator: torch.Generator | None, exploration: float
    ) -> tuple[Ints, Floats, Floats]:
        """Actions and log-probabilities, [n, K] each, and the sum of p ln(p + 1e-7) over all, [n]."""
        p = self.rectangular(logits, forbidden).softmax(-1)
        if exploration:
            p = torch.from_numpy(self._explored(p.numpy(), forbidden, exploration))
        if generator is None:
            chosen = p.numpy().argmax(-1)
        else:
            clocks = torch.empty_like(p).exponential_(generator=generator)
            chosen = torch.div(p, clocks, out=clocks).numpy().argmax(-1)
        logs = (p + EPSILON).log_()
        log_probs = logs.numpy().reshape(-1)[chosen + self._starts(len(chosen))]
        return chosen.astype(np.int32), log_probs, p.mul_(logs).sum((1, 2)).numpy()

    def rectangular(self, logits: Tensor, forbidden: Mask | None) -> Tensor:
        """[n, sum of branch sizes] -> [n, K, widest branch]; -1e8 where forbidden, -inf where lacking."""
        if forbidden is not None:
            logits = logits.masked_fill(torch.from_numpy(forbidden), BLOCKED_LOGIT)
        return self._branches.rectangular(logits)

    def _explored(self, p: Floats, forbidden: Mask | None, exploration: float) -> Floats:
        """As of `ExploringDistribution`."""
        shape = (len(p), sum(self._branches.sizes))
        available = torch.ones(shape) if forbidden is None else torch.from_numpy(~forbidden).float()
        evenly: Floats = np.maximum(self._branches.rectangular(available).numpy(), 0.0)
        evenly /= np.maximum(evenly.sum(-1, keepdims=True), 1.0)
        evenly -= p
        evenly *= np.float32(exploration)
        evenly += p
        return evenly

    def _starts(self, count: int) -> NDArray[np.int64]:
        if len(self._first) != count:
            k, widest = len(self._branches.sizes), self._branches.widest
            self._first = np.arange(0, count * k * widest, widest).reshape(count, k)
        return self._first
