"""Acting with as few calls as the arithmetic needs: what an `ActingNetwork` computes, if it is a dense MLP.

In each tick a handful of agents wait for one small product per layer, so the cost of acting is that of its
calls. The computations repeated here equal those of the networks to the last bit
(tests/trainers/policies/test_policy.py).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..actor import ActingNetwork
from ..modules.body import DenseStack
from ..modules.normalizer import LIMIT, Normalizer


class CachedNormalizer:
    """`Normalizer.forward` on a CPU, by NumPy, whose calls cost less.

    Computes the deviation again only after it has changed, and follows the normalizer to new buffers.
    """

    def __init__(self, normalizer: Normalizer) -> None:
        """The normalizer's buffers have to be on the CPU."""
        self._normalizer = normalizer
        self._read()

    def _read(self) -> None:
        """Take views of the buffers that the normalizer has now."""
        self._buffer = self._normalizer.mean
        self._mean, self._squares = self._buffer.numpy(), self._normalizer.squares.numpy()
        self._steps = self._normalizer.steps.numpy()
        self._known = b""
        self._deviation = self._squares

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalize rows [n, size]."""
        if self._normalizer.mean is not self._buffer:  # by `to`, or `load_state_dict` with `assign`
            self._read()
        now = self._squares.tobytes() + self._steps.tobytes()
        if now != self._known:
            self._known, self._deviation = now, self._normalizer.deviation().numpy()
        normalized = rows.numpy() - self._mean
        normalized /= self._deviation
        np.maximum(normalized, -LIMIT, out=normalized)
        return torch.from_numpy(np.minimum(normalized, LIMIT, out=normalized))


class NetworkActor:
    """The actor of any network."""

    def __init__(self, network: ActingNetwork) -> None:
        self.network = network

    def __call__(self, obs: Sequence[Tensor]) -> Tensor:
        """The columns of the action head from one [n, *shape] tensor per observation."""
        return self.head(self.encode(obs))

    def encode(self, obs: Sequence[Tensor]) -> Tensor:
        """The output of the body, [n, hidden], from one [n, *shape] tensor per observation."""
        return self.network.actor_encoding(self.network.prepare(obs))

    def head(self, encoding: Tensor) -> Tensor:
        """The columns of the action head from encodings [n, encoding]."""
        return self.network.actions.columns(encoding)


class DenseActor:
    """The actor of a network of dense layers on vectors.

    It holds the tensors of the weights and of the normalizer, and so follows whatever changes them in place,
    as optimizers, `load_state_dict` and the normalizer's own updates do.
    """

    def __init__(self, network: ActingNetwork) -> None:
        self.layers = [
            (layer.weight.detach()[0], layer.bias.detach()[0])
            for layer in network.body.layers
            if isinstance(layer, DenseStack)
        ]
        self.layers.append((network.actions.weight.detach(), network.actions.bias.detach()))
        self._normalize: CachedNormalizer | None = None
        if network.encoder.normalizers is not None:
            (normalizer,) = network.encoder.normalizers
            assert isinstance(normalizer, Normalizer)
            self._normalize = CachedNormalizer(normalizer)

    def __call__(self, obs: Sequence[Tensor]) -> Tensor:
        """The columns [n, means of components, logits of branches] from [n, size] of each observation."""
        weight, bias = self.layers[-1]
        return torch.addmm(bias, self.encode(obs), weight)

    def encode(self, obs: Sequence[Tensor]) -> Tensor:
        """The output of the body, [n, hidden], from one [n, size] tensor per observation."""
        x = obs[0] if len(obs) == 1 else torch.cat(list(obs), dim=1)
        if self._normalize is not None:
            x = self._normalize(x)
        for weight, bias in self.layers[:-1]:
            x = functional.silu(torch.addmm(bias, x, weight), inplace=True)
        return x

    def head(self, encoding: Tensor) -> Tensor:
        """The columns [n, means of components, logits of branches] from encodings [n, encoding]."""
        weight, bias = self.layers[-1]
        return torch.addmm(bias, encoding, weight)


def actor_of(network: ActingNetwork) -> NetworkActor | DenseActor:
    """The quickest actor of a network, which gives its action columns."""
    return DenseActor(network) if network.is_dense_mlp else NetworkActor(network)


class RecurrentActor:
    """The actor of a network with a memory; follows its weights as `DenseActor` does."""

    def __init__(self, network: ActingNetwork) -> None:
        self.actor = actor_of(network)
        self.memory = network.memory(0)

    def __call__(self, obs: Sequence[Tensor], states: Tensor) -> tuple[Tensor, Tensor]:
        """Act as `DenseActor`, with the states of n agents [n, memory_size] before and after the step."""
        encoding, states = self.encode(obs, states)
        return self.actor.head(encoding), states

    def encode(self, obs: Sequence[Tensor], states: Tensor) -> tuple[Tensor, Tensor]:
        """The output of the memory [n, encoding], and the states after the step."""
        encoding, states = self.memory(self.actor.encode(obs), states, 1)
        return encoding, states
