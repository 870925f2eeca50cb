"""Makes a `GodotBrain` of a network, the file of a brain that plays in GDScript: a text resource (.tres).

Its script, `envs/godot/addon/brains/brain.gd`, reads it. Every property is one line, `name = value`, and all
values but the weights are JSON, which Godot's own syntax includes. docs/into-godot.md describes the format.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ....envs.named_actions import actions_of
from ...networks.actor import ActingNetwork
from ...networks.custom import reference_of
from ...networks.modules.body import Body, DenseStack
from ...networks.modules.distributions import ENGINE_RANGE
from ...networks.modules.heads import VARIANCE_FLOOR, Head
from ...networks.modules.memory import Memory
from ...networks.modules.normalizer import LIMIT, Normalizer
from ...networks.modules.visual import Convolution, VisualEncoder
from ...networks.observation_kinds import ObservationKind
from ...networks.observations import ObservationEncoder, ObservationGroup
from ...settings.models.networks import Activation, EncoderType, MemoryType
from ..onnx.graph import BrainVerificationError, array

FORMAT_VERSION = 1
"""The version of the properties below; the addon refuses others than its own."""
SCRIPT = "res://addons/lanista/brains/brain.gd"
"""Where `lanista godot install` puts the player in a game."""
_HEADER = f"""\
[gd_resource type="Resource" script_class="LanistaBrain" load_steps=2 format=4]

[ext_resource type="Script" path="{SCRIPT}" id="1"]

[resource]
script = ExtResource("1")
"""
_BYTES = re.compile(r'PackedByteArray\("(.*)"\)')


@dataclass(frozen=True, eq=False)
class GodotBrain:
    """A policy as the player reads it; each field is a property of the resource."""

    behavior: str
    step: int
    observations: list[dict[str, Any]]
    """The `name` and `shape` of each observation, in the order in which agents give them."""
    encoders: list[dict[str, Any]]
    """The encoders, in order: `observations` are the indices of neighboring vectors or of one image, `layers`
    what encodes these, `size` the length of the row that comes out. The trunk reads the rows."""
    actions: list[dict[str, Any]]
    """The `name`, `size` and `action_type` of each action, in the order of `NamedActionSpec`."""
    layers: list[dict[str, Any]]
    """The trunk's layers: `layer` is the kind, the rest its settings; the last gives the head's columns."""
    head: dict[str, Any]
    """The head's `squashed`, `greedy`, and `sigma`: none, constant, of_state or of_features (not clamped)."""
    weights: NDArray[np.float32]
    """The weights of the encoders' layers and the trunk's in order, then the log deviations if constant."""
    format_version: int = FORMAT_VERSION

    def to_text(self) -> str:
        """The file's text.

        Letters beyond ASCII stand for themselves: Godot's parser cannot read them escaped.
        """
        encoded = base64.b64encode(self.weights.astype("<f4").tobytes()).decode("ascii")
        written = {
            field.name: json.dumps(getattr(self, field.name), ensure_ascii=False)
            for field in fields(self)
            if field.name != "weights"
        }
        written["weights"] = f'PackedByteArray("{encoded}")'
        return _HEADER + "".join(f"{name} = {value}\n" for name, value in written.items())

    @classmethod
    def from_text(cls, text: str) -> GodotBrain:
        """The brain of a text that `to_text` wrote."""
        lines = text.removeprefix(_HEADER).rstrip("\n").split("\n")
        properties = {name: value for name, _, value in (line.partition(" = ") for line in lines)}
        match = _BYTES.fullmatch(properties.pop("weights"))
        assert match is not None
        weights = np.frombuffer(base64.b64decode(match[1]), "<f4")
        return cls(weights=weights, **{name: json.loads(value) for name, value in properties.items()})


Floats = NDArray[np.float32]


class Program:
    """Some layers and their weights, in order."""

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

    def explored(self, weight: Floats, bias: Floats, variances: Floats, floor: float) -> None:
        """Append what gives the columns x W + b, and beside them 0.5 ln(x^2 V + floor); V: `variances`."""
        inputs, outputs = weight.shape
        deviations = variances.shape[1]
        arrays = [weight.T, bias, variances.T, np.full(deviations, floor, np.float32)]
        self.add("explored", arrays, inputs=inputs, outputs=outputs, deviations=deviations)

    def convolution(
        self, weight: Floats, bias: Floats, shape: tuple[int, int, int], stride: int = 1
    ) -> tuple[int, int, int]:
        """Append leaky_relu(W window + b) for images of a shape [C, H, W]; returns the shape after it.

        `weight` is [out, C, kernel rows, kernel columns] and written with the channels last.
        """
        filters, channels, *kernel = weight.shape
        settings = {"channels": channels, "height": shape[1], "width": shape[2], "filters": filters}
        settings |= {"kernel": kernel, "stride": stride, "activation": Activation.LEAKY_RELU.value}
        self.add("convolution", [weight.transpose(0, 2, 3, 1), bias], **settings)
        height, width = ((side - k) // stride + 1 for side, k in zip(shape[1:], kernel, strict=True))
        return filters, height, width


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
    encoders = [_encoder(network.encoder, group) for group in network.encoder.read]
    trunk = Program()
    _body(trunk, network.body)
    if network.memory_size:
        _memory(trunk, network.memory(0))
    head = network.actions
    weight, bias, log_sigma = _in_addon_units(head)
    if head.exploration is None:
        trunk.dense(weight, bias)
    else:
        trunk.explored(weight, bias, np.exp(2.0 * log_sigma), VARIANCE_FLOOR * addon_unit(head) ** 2)
    weights = [one for program, _ in encoders for one in program.arrays] + trunk.arrays
    if head.exploration is None and len(log_sigma):
        weights.append(log_sigma)
    specs = network.spec.observation_specs
    return GodotBrain(
        behavior=behavior,
        step=step,
        observations=[{"name": str(s.name), "shape": [int(n) for n in s.shape]} for s in specs],
        encoders=[
            {"observations": list(group.indices), "layers": program.layers, "size": size}
            for group, (program, size) in zip(network.encoder.read, encoders, strict=True)
        ],
        actions=[asdict(action) for action in actions_of(network.spec.action_spec)],
        layers=trunk.layers,
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
        if not isinstance(own, VisualEncoder):
            reasons.append(f"{name} {reference_of(own)}")
        elif own.kind is EncoderType.RESNET:
            reasons.append(f"{name} a resnet (train with another network_settings.vis_encode_type)")
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


def _encoder(encoder: ObservationEncoder, group: ObservationGroup) -> tuple[Program, int]:
    """What encodes neighboring vectors or one image, and the length of the row that comes out."""
    program = Program()
    if group.kind is ObservationKind.VISUAL:
        own = encoder.encoders[str(group.index)]
        assert isinstance(own, VisualEncoder)
        _image(program, own, encoder.specs[group.index].shape)
        return program, own.size
    if encoder.normalizers is not None:
        normalizer = encoder.normalizers[encoder.runs.index(group)]
        assert isinstance(normalizer, Normalizer)
        arrays = [array(normalizer.mean), array(normalizer.deviation())]
        program.add("normalize", arrays, size=group.size, limit=LIMIT)
    return program, group.size


def _image(program: Program, encoder: VisualEncoder, shape: tuple[int, int, int]) -> None:
    """Append an image's layers; the dense one at the end is a convolution whose kernel is the whole image."""
    for layer in encoder.convolutions:
        assert isinstance(layer, Convolution)
        shape = program.convolution(array(layer.weight), array(layer.bias), shape, layer.stride)
    dense = encoder.dense
    whole = array(dense.weight).T.reshape(-1, *encoder.flat_shape)
    program.convolution(whole, array(dense.bias), shape)


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
    """Append the gates as dense layers; a gate that reads both input and state reads them side by side."""
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


def addon_unit(head: Head) -> float:
    """How many of the addon's units one of the head's is, in continuous actions that are not squashed."""
    return 1.0 if head.squashed else ENGINE_RANGE / head.action_range


def _in_addon_units(head: Head) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Weight, bias and log deviations of the head, where 3 is 1 for the engine: the addon divides by that."""
    weight, bias = map(array, head.acting_layer())
    log_sigma, unit = array(head.log_sigma), addon_unit(head)
    if unit == 1.0:
        return weight, bias, log_sigma
    scale = np.ones(len(bias), np.float32)
    scale[: head.continuous_size] = unit
    return weight * scale, bias * scale, log_sigma + np.float32(math.log(unit))


def _sigma(head: Head) -> str:
    if head.exploration is not None:
        return "of_features"
    if head.sigma_of_state:
        return "of_state"
    return "constant" if head.log_sigma.numel() else "none"
