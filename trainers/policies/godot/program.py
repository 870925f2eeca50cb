"""From a network to the layers of a `GodotBrain`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ....envs.named_actions import actions_of
from ...networks.actor import ActingNetwork
from ...networks.custom import reference_of
from ...networks.modules.body import Body, DenseStack
from ...networks.modules.heads import Head
from ...networks.modules.memory import Memory
from ...networks.modules.normalizer import LIMIT, Normalizer
from ...networks.modules.visual import VisualEncoder
from ...networks.observations import ObservationEncoder
from ...settings.models.networks import MemoryType
from ..onnx.graph import BrainVerificationError, array
from .resource import GodotBrain

Floats = NDArray[np.float32]


class Program:
    """The layers of a brain and their weights, in order."""

    def __init__(self) -> None:
        self.layers: list[dict[str, Any]] = []
        self.arrays: list[Floats] = []

    def add(self, layer: str, arrays: Sequence[Floats] = (), **settings: Any) -> None:
        """Append a layer of this kind."""
        self.layers.append({"layer": layer, **settings})
        self.arrays += arrays

    def dense(
        self, weight: Floats, bias: Floats, activation: str = "none", *, layer_norm: bool = False
    ) -> None:
        """Append activation(LN(x W + b)); `weight` is [in, out] and written as [out, in], `bias` is [out]."""
        inputs, outputs = weight.shape
        settings = {"inputs": inputs, "outputs": outputs, "activation": activation, "layer_norm": layer_norm}
        self.add("dense", [weight.T, bias], **settings)


@torch.no_grad()
def build_program(network: ActingNetwork, *, behavior: str, step: int) -> GodotBrain:
    """The actor of `network`, not yet verified.

    Raises:
        BrainVerificationError: the network has parts that the player in GDScript does not know.
    """
    refused = not_playable(network)
    if refused:
        raise BrainVerificationError(
            f"The network of '{behavior}' cannot be played in GDScript: {'; '.join(refused)}. The ONNX file "
            "that `lanista export` writes has all of it, for players of ONNX."
        )
    program = Program()
    _normalize(program, network.encoder)
    _body(program, network.body)
    if network.memory_size:
        _memory(program, network.memory(0))
    head = network.actions
    weight, bias = head.acting_layer()
    program.dense(array(weight), array(bias))
    constant = head.log_sigma.numel() > 0
    weights = [*program.arrays, *([array(head.log_sigma)] if constant else [])]
    specs = network.spec.observation_specs
    return GodotBrain(
        behavior=behavior,
        step=step,
        observations=[{"name": str(s.name), "shape": [int(n) for n in s.shape]} for s in specs],
        read=[index for group in network.encoder.read for index in group.indices],
        actions=[asdict(action) for action in actions_of(network.spec.action_spec)],
        layers=program.layers,
        head={"squashed": head.squashed, "greedy": head.greedy, "sigma": _sigma(head)},
        weights=np.concatenate([np.ravel(one) for one in weights]),
    )


def not_playable(network: ActingNetwork) -> list[str]:
    """Why the network cannot be played in GDScript; empty if it can."""
    encoder, reasons = network.encoder, []
    if encoder.whole is not None:
        reasons.append(f"network_settings.body is {reference_of(encoder.whole)}")
    for key, own in encoder.encoders.items():
        name = f"observation '{encoder.specs[int(key)].name}' is read by"
        if isinstance(own, VisualEncoder):
            reasons.append(f"{name} convolutions")
        else:
            reasons.append(f"{name} {reference_of(own)}")
    reasons += [
        f"observation '{encoder.specs[index].name}' is a set of entities, read by attention"
        for index in encoder.set_indices
    ]
    if network.body.conditioned is not None:
        reasons.append(
            "a hypernetwork makes the last layer's weights from the goal "
            "(train with network_settings.goal_conditioning_type: none)"
        )
    return reasons


def _normalize(program: Program, encoder: ObservationEncoder) -> None:
    """One layer for all vectors that are read."""
    if encoder.normalizers is None:
        return
    read = [encoder.normalizers[encoder.runs.index(group)] for group in encoder.read]
    normalizers = [normalizer for normalizer in read if isinstance(normalizer, Normalizer)]
    mean = np.concatenate([array(n.mean) for n in normalizers])
    deviation = np.concatenate([array(n.deviation()) for n in normalizers])
    program.add("normalize", [mean, deviation], size=len(mean), limit=LIMIT)


def _body(program: Program, body: Body) -> None:
    layers = [
        (array(layer.weight[0]), array(layer.bias[0, 0]))
        for layer in body.layers
        if isinstance(layer, DenseStack)
    ]
    activation = body.activation.value
    if not body.residual:
        for weight, bias in layers:
            program.dense(weight, bias, activation, layer_norm=body.layer_norm)
        return
    program.dense(*layers[0])
    for (inner, inner_bias), (outer, outer_bias) in zip(layers[1::2], layers[2::2], strict=True):
        size, hidden = inner.shape
        arrays = [inner.T, inner_bias, outer.T, outer_bias]
        program.add("residual", arrays, size=size, hidden=hidden, activation=activation)
    program.add("layer_norm", size=body.hidden)


def _memory(program: Program, memory: Memory) -> None:
    """The gates as dense layers: those that read both the input and the state read them side by side."""
    of_input, of_state = array(memory.weight_ih), array(memory.weight_hh)
    input_bias, state_bias = array(memory.bias_ih), array(memory.bias_hh)
    lstm, hidden = memory.kind is MemoryType.LSTM, memory.output_size
    arrays: list[Floats] = []
    for gate in range(4 if lstm else 2):
        rows = slice(gate * hidden, (gate + 1) * hidden)
        arrays += [np.hstack([of_input[rows], of_state[rows]]), input_bias[rows] + state_bias[rows]]
    if not lstm:
        new = slice(2 * hidden, 3 * hidden)
        arrays += [of_input[new], input_bias[new], of_state[new], state_bias[new]]
    program.add("lstm" if lstm else "gru", arrays, inputs=of_input.shape[1], outputs=hidden)


def _sigma(head: Head) -> str:
    if head.sigma_of_state:
        return "of_state"
    return "constant" if head.log_sigma.numel() else "none"
