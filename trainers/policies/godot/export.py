"""Exports a network as a brain that plays in GDScript, after verifying it.

For its verification the brain is played in NumPy: layer by layer as the addon's scripts do.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...networks.actor import ActingNetwork
from ...networks.modules.attention import LAYER_NORM_EPS
from ...networks.modules.distributions import LOG_SIGMA_RANGE
from ...networks.modules.layers import GELU_CUBE, GELU_SCALE, LEAK
from ...utils.atomic_files import atomic_write_bytes
from ..onnx.graph import BrainVerificationError
from ..onnx.verify import BATCHES, STEPS, agree, random_observations
from .program import GodotBrain, addon_unit, build_program

Floats = NDArray[np.floating[Any]]


def columns(brain: GodotBrain, obs: Sequence[Floats], state: Floats) -> tuple[Floats, Floats]:
    """The columns of the head, [n, means, logits, log deviations], and the new states.

    Args:
        brain: to play.
        obs: [n, *shape] per observation.
        state: [n, memory size], as torch's; [n, 0] without a memory.
    """
    weights = _Weights(brain.weights)
    rows: Floats = np.hstack([_encode(weights, settings, obs) for settings in brain.encoders])
    for layer in brain.layers:
        if layer["layer"] in ("lstm", "gru"):
            rows, state = _RECURRENT[layer["layer"]](weights, layer, rows, state)
        else:
            rows = _LAYERS[layer["layer"]](weights, layer, rows)
    continuous = sum(a["size"] for a in brain.actions if a["action_type"] == "continuous")
    if brain.head["sigma"] == "constant":
        rows = np.hstack([rows, np.tile(weights.take(continuous), (len(rows), 1))])
    elif brain.head["sigma"] == "of_state":
        shown, raw = np.split(rows, [rows.shape[1] - continuous], axis=1)
        rows = np.hstack([shown, np.clip(raw, *LOG_SIGMA_RANGE)])
    assert weights.is_empty, "a brain's weights are those of its layers and head"
    return rows, state


def _encode(weights: _Weights, settings: Mapping[str, Any], obs: Sequence[Floats]) -> Floats:
    """[n, size]: vectors side by side, or what is read of an image [n, C, H, W]."""
    chosen = [obs[index] for index in settings["observations"]]
    rows = np.moveaxis(chosen[0], 1, -1) if chosen[0].ndim == 4 else np.hstack(chosen)
    for layer in settings["layers"]:
        rows = _LAYERS[layer["layer"]](weights, layer, rows)
    return rows.reshape(len(rows), settings["size"])


class _Weights:
    """Hands out weights in their order."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self._values, self._position = values, 0

    def take(self, *shape: int) -> NDArray[np.float32]:
        """The next ones, in this shape."""
        start = self._position
        self._position += int(np.prod(shape))
        return self._values[start : self._position].reshape(shape)

    def dense(self, inputs: int, outputs: int, rows: Floats) -> Floats:
        """[n, inputs] -> [n, outputs]."""
        weight, bias = self.take(outputs, inputs), self.take(outputs)
        return rows @ weight.T + bias

    @property
    def is_empty(self) -> bool:
        """Whether all have been taken."""
        return self._position == len(self._values)


def _normalize(weights: _Weights, layer: Mapping[str, Any], rows: Floats) -> Floats:
    mean, deviation = weights.take(layer["size"]), weights.take(layer["size"])
    return np.asarray(np.clip((rows - mean) / deviation, -layer["limit"], layer["limit"]))


def _dense(weights: _Weights, layer: Mapping[str, Any], rows: Floats) -> Floats:
    sums = weights.dense(layer["inputs"], layer["outputs"], rows)
    return _activate(layer["activation"], _layer_norm(sums) if layer["layer_norm"] else sums)


def _explored(weights: _Weights, layer: Mapping[str, Any], rows: Floats) -> Floats:
    size = layer["inputs"]
    shown = weights.dense(size, layer["outputs"], rows)
    return np.hstack([shown, 0.5 * np.log(weights.dense(size, layer["deviations"], rows**2))])


def _residual(weights: _Weights, layer: Mapping[str, Any], rows: Floats) -> Floats:
    size, width = layer["size"], layer["hidden"]
    hidden = _activate(layer["activation"], weights.dense(size, width, _layer_norm(rows)))
    return rows + weights.dense(width, size, hidden)


def _layer_norm(rows: Floats) -> Floats:
    centered = rows - rows.mean(1, keepdims=True)
    return np.asarray(centered / np.sqrt((centered**2).mean(1, keepdims=True) + LAYER_NORM_EPS))


def _convolution(weights: _Weights, layer: Mapping[str, Any], images: Floats) -> Floats:
    """[n, H, W, C] -> [n, H', W', filters]."""
    kernel, stride = layer["kernel"], layer["stride"]
    weight, bias = weights.take(layer["filters"], *kernel, layer["channels"]), weights.take(layer["filters"])
    windows = np.lib.stride_tricks.sliding_window_view(images, kernel, (1, 2))[:, ::stride, ::stride]
    return _activate(layer["activation"], np.einsum("nyxcij,fijc->nyxf", windows, weight) + bias)


def _lstm(weights: _Weights, layer: Mapping[str, Any], rows: Floats, state: Floats) -> tuple[Floats, Floats]:
    size = layer["outputs"]
    hidden, cell = np.hsplit(state, 2)
    both = np.hstack([rows, hidden])
    gates = [weights.dense(both.shape[1], size, both) for _ in range(4)]
    i, f, o = (_sigmoid(gates[k]) for k in (0, 1, 3))
    cell = f * cell + i * np.tanh(gates[2])
    hidden = o * np.tanh(cell)
    return hidden, np.hstack([hidden, cell])


def _gru(weights: _Weights, layer: Mapping[str, Any], rows: Floats, state: Floats) -> tuple[Floats, Floats]:
    size = layer["outputs"]
    both = np.hstack([rows, state])
    reset, update = (_sigmoid(weights.dense(both.shape[1], size, both)) for _ in range(2))
    input_sums = weights.dense(rows.shape[1], size, rows)
    new = np.tanh(input_sums + reset * weights.dense(size, size, state))
    hidden = new + update * (state - new)
    return hidden, hidden


def _sigmoid(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def _activate(kind: str, x: Floats) -> Floats:
    if kind == "swish":
        return x * _sigmoid(x)
    if kind == "gelu":
        return x * _sigmoid(GELU_SCALE * (x + GELU_CUBE * x**3))
    if kind == "elu":
        return np.asarray(np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))))
    if kind in ("relu", "leaky_relu"):
        return np.asarray(np.maximum(x, (LEAK if kind == "leaky_relu" else 0.0) * x))
    return np.asarray(np.tanh(x)) if kind == "tanh" else x


_LAYERS: Mapping[str, Callable[[_Weights, Mapping[str, Any], Floats], Floats]] = {
    "normalize": _normalize,
    "dense": _dense,
    "explored": _explored,
    "residual": _residual,
    "layer_norm": lambda weights, layer, rows: _layer_norm(rows),
    "convolution": _convolution,
}
_RECURRENT = {"lstm": _lstm, "gru": _gru}


@torch.no_grad()
def export_godot(
    network: ActingNetwork, path: str | os.PathLike[str], *, behavior: str, step: int = 0
) -> None:
    """Write the actor of `network` to `path` as a resource of Godot (.tres).

    Args:
        network: copied first: a trainer may keep changing it.
        path: replaced atomically, or unchanged if anything fails.
        behavior: the behavior's name.
        step: how many agent steps the policy was trained for.

    Raises:
        BrainVerificationError: the player does not know all parts of the network, or the file would not act
            as the network does.
        OSError: the file cannot be written.
    """
    snapshot = copy.deepcopy(network).cpu()
    text = build_program(snapshot, behavior=behavior, step=step).to_text()
    verify(text, snapshot)
    atomic_write_bytes(path, text.encode())


@torch.no_grad()
def verify(text: str, network: ActingNetwork) -> None:
    """Check that the file's text gives the columns of the network's head, and its memory's states.

    Raises:
        BrainVerificationError: it does not.
    """
    brain = GodotBrain.from_text(text)
    if not np.isfinite(brain.weights).all():
        raise BrainVerificationError(
            f"The brain of '{brain.behavior}' has weights that are not finite: training has diverged. "
            "Go back to an earlier checkpoint and lower the learning rate."
        )
    random = np.random.default_rng(0)
    for batch in BATCHES:
        state = random.uniform(-1.0, 1.0, (batch, network.memory_size)).astype(np.float32)
        for _ in range(STEPS if network.memory_size else 1):
            obs = random_observations(network, batch, random)
            wanted = _expected(network, obs, state)
            results = zip(("the network's outputs", "what it remembers"), columns(brain, obs, state), wanted)
            for index, (what, found, expected) in enumerate(results):
                _compare(brain.behavior, what, found, expected, partial(_rounding, network, index))
            state = wanted[1].numpy()


def _rounding(network: ActingNetwork, index: int) -> NDArray[Any]:
    """[size] the error of one of the results of `_expected`, at most, over a batch of random inputs."""
    random, batch = np.random.default_rng(0), BATCHES[-1]
    obs = random_observations(network, batch, random)
    state = random.uniform(-1.0, 1.0, (batch, network.memory_size)).astype(np.float32)
    exact = _expected(copy.deepcopy(network).double(), obs, state, torch.float64)[index]
    return np.asarray((_expected(network, obs, state)[index] - exact).abs().amax(0))


def _expected(
    network: ActingNetwork, given: list[Floats], state: Floats, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    obs = [torch.from_numpy(rows).to(dtype) for rows in given]
    after = torch.from_numpy(state).to(dtype)
    if network.memory_size:
        distribution, after = network.act_with_memory(network.prepare(obs), after)
    else:
        distribution = network.act(network.prepare(obs))
    unit = addon_unit(network.actions)
    mu, log_sigma = distribution.mu * unit, distribution.log_sigma + math.log(unit)
    return torch.cat([mu, distribution.logits, log_sigma.expand(len(mu), -1)], 1), after


def _compare(
    behavior: str, what: str, found: Floats, wanted: Tensor, rounding: Callable[[], NDArray[Any]]
) -> None:
    expected = wanted.numpy()
    if not agree(found, expected, rounding):
        wrong = np.abs(found - expected)
        raise BrainVerificationError(
            f"The brain of '{behavior}' and the network differ by {wrong.max():.3g} in {what}."
        )
