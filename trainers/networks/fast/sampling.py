"""Actions of a few agents, drawn in arrays with as few calls as the arithmetic needs.

What comes out is what `ActionDistribution` gives, bit for bit
(tests/trainers/networks/fast/test_sampling.py). So torch draws all random numbers and computes whatever
libraries round each in their own way: exponentials, logarithms, sums, fused multiplication and addition.
NumPy, whose calls cost less, computes the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ..modules.distributions import (
    BLOCKED_LOGIT,
    EPSILON,
    INSIDE,
    LOG_2PI_E,
    LOG_EPSILON,
    LOG_SQRT_2PI,
    Branches,
    clamp_log_sigma,
    gaussian_entropy,
)
from ..modules.heads import ActingHead

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Mask = NDArray[np.bool_]
"""A mask [n, sum of branch sizes], True where an action is forbidden."""

_LOG_2 = np.float32(math.log(2.0))


class DrawnActions(NamedTuple):
    """The actions of n agents, as in `Decision`."""

    continuous: Floats
    """The continuous actions [n, A], as sampled."""
    for_engine: Floats
    """The continuous actions [n, A] for the engine, from -1 to 1."""
    discrete: Ints
    """The discrete actions [n, K]."""
    log_probs: Floats
    """The log-probabilities [n, A + K]."""
    entropy: Floats
    """The entropies [n]."""


class _Random(NamedTuple):
    """The random numbers of n agents."""

    noise: Tensor | None
    """[n, A] standard Gaussian numbers; None without continuous actions."""
    clocks: Tensor | None
    """[n, K, widest branch] exponential numbers; None without discrete actions."""

    @classmethod
    def joined(cls, parts: Sequence[_Random]) -> _Random:
        """The random numbers of the agents of several policies, one policy after another."""
        return cls(*(None if part[0] is None else torch.cat(part) for part in zip(*parts, strict=True)))


class ActionSampler:
    """Draws from the distributions of a head, whose log sigmas it follows when they change in place."""

    def __init__(self, head: ActingHead) -> None:
        branches = head.branches
        self.logits = sum(branches.sizes)
        """The number of columns of discrete actions."""
        self._widths = (head.continuous_size, head.continuous_size + self.logits)
        self._gaussians = _Gaussians(head) if head.continuous_size else None
        self._categoricals = _Categoricals(branches) if branches.sizes else None

    @property
    def kind(self) -> tuple[object, ...] | None:
        """What heads have to share for a `JointSampler`; None: they round by the places of their rows."""
        if self._gaussians is not None and self._gaussians.squashed:
            return None
        of_state = self._gaussians is not None and self._gaussians.of_state
        sizes = () if self._categoricals is None else self._categoricals.sizes
        return self._widths, of_state, sizes

    def __call__(
        self,
        columns: Tensor,
        forbidden: Mask | None,
        generator: torch.Generator | None,
        exploration: float = 0.0,
        noise: Tensor | None = None,
    ) -> DrawnActions:
        """The actions of n agents.

        Args:
            columns: [n, columns] of the head.
            forbidden: or None, if nothing is.
            generator: of the noise; None: the likeliest actions.
            exploration: as of `ExploringDistribution`.
            noise: [n, A] standard Gaussian numbers; None: of the generator.
        """
        random = None if generator is None else self._random(len(columns), generator, noise)
        return self._draw(columns, forbidden, random, exploration, self._constant_sigma())

    def _random(self, count: int, generator: torch.Generator, noise: Tensor | None = None) -> _Random:
        clocks = None
        if self._gaussians is not None and noise is None:
            noise = torch.randn((count, self._widths[0]), generator=generator)
        if self._categoricals is not None:
            clocks = torch.empty((count, *self._categoricals.shape)).exponential_(generator=generator)
        return _Random(noise, clocks)

    def _constant_sigma(self) -> _Sigma | None:
        return None if self._gaussians is None else self._gaussians.constant_sigma()

    def _draw(
        self,
        columns: Tensor,
        forbidden: Mask | None,
        random: _Random | None,
        exploration: float,
        sigma: _Sigma | None,
    ) -> DrawnActions:
        """Draw as `__call__`, with given random numbers; `sigma`, [A] or [n, A], where it is constant."""
        size, end = self._widths
        count = len(columns)
        continuous = for_engine = log_probs = np.zeros((count, 0), np.float32)
        discrete = np.zeros((count, 0), np.int32)
        entropy = np.zeros(count, np.float32)
        noise, clocks = (None, None) if random is None else random
        if self._gaussians is not None:
            means = columns if size == columns.shape[1] else columns[:, :size]
            scales = self._gaussians.sigma_of(columns[:, end:]) if sigma is None else sigma
            continuous, for_engine, log_probs, mean_entropy = self._gaussians(means, scales, noise)
            entropy += mean_entropy
        if self._categoricals is not None:
            logits = columns if end - size == columns.shape[1] else columns[:, size:end]
            discrete, branch_log_probs, loss = self._categoricals(logits, forbidden, clocks, exploration)
            entropy -= loss
            log_probs = np.concatenate((log_probs, branch_log_probs), 1) if size else branch_log_probs
        return DrawnActions(continuous, for_engine, discrete, log_probs, entropy)

    def greatest(self, values: Tensor, forbidden: Mask | None) -> NDArray[np.int64]:
        """[n, K]: the actions of greatest value, of [n, sum of branch sizes]; the first ones of several."""
        assert self._categoricals is not None, "there are no discrete actions"
        return np.asarray(self._categoricals.rectangular(values, forbidden).numpy().argmax(-1))


class JointSampler:
    """Draws for several heads of one kind in as many calls as for one; the same bits as each by itself."""

    def __init__(self, samplers: Sequence[ActionSampler]) -> None:
        """Take the `samplers`, at least two."""
        self._samplers = samplers
        self._known: tuple[list[int], list[_Sigma | None]] = ([], [])
        self._sigma: _Sigma | None = None

    def __call__(
        self,
        columns: Tensor,
        counts: list[int],
        forbidden: Sequence[Mask | None],
        generators: Sequence[torch.Generator | None],
        exploration: float = 0.0,
    ) -> DrawnActions:
        """The actions of the agents of all heads, in their order.

        Args:
            columns: [n, columns] of all heads, one after the other.
            counts: the number of agents of each.
            forbidden: by head, as of `ActionSampler`.
            generators: the same; either all are None, or none is.
            exploration: as of `ActionSampler`.
        """
        random = [
            sampler._random(count, generator)
            for sampler, count, generator in zip(self._samplers, counts, generators, strict=True)
            if generator is not None
        ]
        mask = None
        if any(own is not None for own in forbidden):
            parts = zip(forbidden, counts, strict=True)
            width = self._samplers[0].logits
            masks = [np.zeros((n, width), np.bool_) if own is None else own for own, n in parts]
            mask = np.concatenate(masks)
        joined = _Random.joined(random) if random else None
        sigma = self._sigma_of_rows(counts)
        return self._samplers[0]._draw(columns, mask, joined, exploration, sigma)

    def _sigma_of_rows(self, counts: list[int]) -> _Sigma | None:
        """[n, A] the sigmas of all agents; computed again only after something has changed."""
        sigmas = [sampler._constant_sigma() for sampler in self._samplers]
        known, same = self._known
        if counts != known or any(a is not b for a, b in zip(sigmas, same, strict=True)):
            self._known = counts, sigmas
            constant = [sigma for sigma in sigmas if sigma is not None]
            self._sigma = _Sigma.of_rows(constant, counts) if constant else None
        return self._sigma


class _Sigma(NamedTuple):
    """What depends on log sigma alone."""

    sigma: Floats
    scale: Floats
    """The divisor -(2 sigma^2 + 1e-7) of squared deviations."""
    log: Floats
    """The term ln(sigma + 1e-7) + ln sqrt(2 pi)."""
    entropy: Floats
    """The entropy, mean over the components."""

    @classmethod
    def of(cls, log_sigma: Tensor) -> _Sigma:
        """Compute all from log sigma as torch rounds it; [A], or [n, A] with n entropies."""
        exponential = log_sigma.exp()
        logs = (exponential + EPSILON).log_().numpy() + np.float32(LOG_SQRT_2PI)
        sigma = exponential.numpy()
        scale = np.asarray(-(2.0 * sigma * sigma + EPSILON), np.float32)
        return cls(sigma, scale, logs, gaussian_entropy(log_sigma).numpy())

    @classmethod
    def of_rows(cls, sigmas: Sequence[_Sigma], counts: Sequence[int]) -> _Sigma:
        """Repeat several heads' numbers [A] as [n, A] for all their agents, with n entropies."""
        return cls(*(np.repeat(np.stack(part), counts, axis=0) for part in zip(*sigmas, strict=True)))

    @classmethod
    def by_numpy(cls, log_sigma: Floats) -> _Sigma:
        """Compute all from log sigma [A] as NumPy rounds it."""
        sigma = np.exp(log_sigma)
        entropy = 0.5 * np.logaddexp(2.0 * log_sigma + LOG_2PI_E, LOG_EPSILON).mean()
        scale = np.asarray(-(2.0 * sigma * sigma + EPSILON), np.float32)
        logs = np.asarray(np.log(sigma + EPSILON) + LOG_SQRT_2PI, np.float32)
        return cls(sigma, scale, logs, np.asarray(entropy, np.float32))


class _Gaussians:
    """The continuous components.

    Components of constant sigma, without branches beside them, round in NumPy's way throughout, up to the
    last bit like `ActionDistribution`: so that recorded runs repeat.
    """

    def __init__(self, head: ActingHead) -> None:
        self.squashed, self.of_features = head.squashed, head.exploration is not None
        self.of_state = head.sigma_of_state or self.of_features
        self.range = head.action_range
        self._alone = not (head.squashed or self.of_state or head.branches.sizes)
        assert isinstance(head.log_sigma, Tensor)
        self._log_sigma = head.log_sigma.detach()
        self._array = self._log_sigma.numpy()
        self._known: tuple[bytes, _Sigma] | None = None

    def sigma_of(self, log_sigma: Tensor) -> _Sigma:
        """The sigmas of log sigmas that depend on the state, [n, A] before clamping, if they are clamped."""
        return _Sigma.of(log_sigma if self.of_features else clamp_log_sigma(log_sigma))

    def __call__(
        self, means: Tensor, scales: _Sigma, noise: Tensor | None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Actions as sampled and for the engine, log-probabilities; [n, A] each; entropy, [n] or [].

        `noise`: [n, A] standard Gaussian; None: the means.
        """
        mu = means.numpy()
        if self._alone:
            deviation = np.zeros_like(mu) if noise is None else noise.numpy()
            deviation *= scales.sigma
            sampled = mu + deviation
        else:
            raw = means if noise is None else torch.addcmul(means, torch.from_numpy(scales.sigma), noise)
            sampled, slope = raw.numpy(), None
            if self.squashed:
                sampled = raw.tanh().numpy()
                raw, slope = _unsquashed(sampled)
            deviation = raw.numpy() - mu
        log_probs = np.multiply(deviation, deviation, out=deviation)
        log_probs /= scales.scale
        log_probs -= scales.log
        if self.squashed:
            log_probs -= slope
            return sampled, sampled, log_probs, scales.entropy
        for_engine = np.minimum(np.maximum(sampled, -self.range), self.range)
        for_engine /= self.range
        return sampled, for_engine, log_probs, scales.entropy

    def constant_sigma(self) -> _Sigma | None:
        """The constant sigma, computed again only after a change; None where it depends on the state."""
        if self.of_state:
            return None
        now = self._array.tobytes()
        if self._known is None or self._known[0] != now:
            self._known = now, _Sigma.by_numpy(self._array) if self._alone else _Sigma.of(self._log_sigma)
        return self._known[1]


def _unsquashed(actions: Floats) -> tuple[Tensor, Floats]:
    """What tanh was taken of, and the logarithm of its slope there, [n, A], as in `squashed_log_prob`."""
    raw = torch.from_numpy(np.minimum(np.maximum(actions, -INSIDE), INSIDE)).atanh_()
    array = raw.numpy()
    bend = functional.softplus(torch.from_numpy(-2.0 * array)).numpy()
    return raw, 2.0 * (_LOG_2 - array - bend)


class _Categoricals:
    """The branches: K categoricals of n agents, [n, K, widest branch]."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches
        self.sizes = branches.sizes
        self.shape = len(branches.sizes), branches.widest
        """The pair (K, widest branch)."""
        self._first = np.zeros((0, 0), np.int64)
        """[n, K] the index at which the probabilities of each agent's branch begin."""

    def __call__(
        self, logits: Tensor, forbidden: Mask | None, clocks: Tensor | None, exploration: float
    ) -> tuple[Ints, Floats, Floats]:
        """Actions and log-probabilities, [n, K] each, and the sum of p ln(p + 1e-7) over all, [n]."""
        p = self.rectangular(logits, forbidden).softmax(-1)
        if exploration:
            p = torch.from_numpy(self._explored(p.numpy(), forbidden, exploration))
        if clocks is None:
            chosen = p.numpy().argmax(-1)
        else:
            chosen = torch.div(p, clocks, out=clocks).numpy().argmax(-1)
        logs = (p + EPSILON).log_()
        log_probs = logs.numpy().reshape(-1)[chosen + self._starts(len(chosen))]
        return chosen.astype(np.int32), log_probs, p.mul_(logs).sum((1, 2)).numpy()

    def rectangular(self, logits: Tensor, forbidden: Mask | None) -> Tensor:
        """Logits [n, sum of branch sizes] as [n, K, widest branch]; -1e8 if forbidden, -inf if lacking."""
        if forbidden is not None:
            logits = logits.masked_fill(torch.from_numpy(forbidden), BLOCKED_LOGIT)
        return self._branches.rectangular(logits)

    def _explored(self, p: Floats, forbidden: Mask | None, exploration: float) -> Floats:
        """The probabilities after exploration, as in `ExploringDistribution`."""
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
