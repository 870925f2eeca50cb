"""The hidden layers of a network, for several networks of one shape at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...settings.models.networks import Activation, Initialization, NetworkSettings
from ..observations import ObservationEncoder
from .attention import LAYER_NORM_EPS
from .hypernetwork import HyperLayer
from .layers import DenseStack, activate

__all__ = ["Body", "DenseStack", "body_on"]


class Body(nn.Module):
    """`layers` dense layers of width `hidden`, each with its activation, of S networks of one shape.

    An actor and its critic are two streams of one body: a pass through both takes as many calls as one. Where
    agents have goals, the last layer's weights may be made from these.
    """

    def __init__(
        self,
        streams: int,
        input_size: int,
        hidden: int,
        layers: int | None,
        generator: torch.Generator | None = None,
        gain: float = 1.0,
        *,
        activation: Activation = Activation.SWISH,
        initialization: Initialization = Initialization.KAIMING_NORMAL,
        layer_norm: bool = False,
        goal_columns: Sequence[slice] = (),
        goals_encoded: bool = True,
    ) -> None:
        """Build the layers with fresh weights, drawn from `generator` or torch's own.

        Args:
            streams: S.
            input_size: of what is read.
            hidden: of each layer and so of the output.
            layers: their number, of which 0 is read as 1; None for none at all, which passes inputs on.
            generator: of the first weights.
            gain: of the first weights, see `initialize_`.
            activation: what follows each layer.
            initialization: of its weights.
            layer_norm: whether its sums become of mean 0 and deviation 1 before the activation.
            goal_columns: where the goals stand in the inputs; by them the last layer is made.
            goals_encoded: whether they come from encoders that learn.
        """
        super().__init__()
        self.streams = streams
        self.hidden = hidden if layers is not None else input_size
        self.activation, self.layer_norm = activation, layer_norm
        # ML-Agents builds one layer even if num_layers is 0.
        sizes = [input_size] + [hidden] * (0 if layers is None else max(layers, 1))
        shapes = list(pairwise(sizes))
        self.conditioned: HyperLayer | None = None
        made = shapes.pop() if goal_columns else None
        self.layers = nn.ModuleList(
            DenseStack(streams, fan_in, fan_out, generator, gain, initialization)
            for fan_in, fan_out in shapes
        )
        if made is not None:
            self.conditioned = HyperLayer(
                streams, *made, goal_columns, hidden, generator, goals_encoded=goals_encoded
            )

    @property
    def is_dense_mlp(self) -> bool:
        """Whether it is nothing but dense layers with Swish."""
        dense = self.conditioned is None and len(self.layers) > 0
        return dense and self.activation is Activation.SWISH and not self.layer_norm

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, in] (the same for every network) or [S, B, in] -> [S, B, hidden]."""
        if inputs.dim() == 2:
            inputs = inputs.expand(self.streams, -1, -1)
        goals = inputs
        for layer in self.layers:
            inputs = self._after(layer(inputs))
        if self.conditioned is None:
            return inputs
        return self._after(self.conditioned(inputs, goals))

    def stream(self, index: int, inputs: Tensor, offset: Tensor | None = None) -> Tensor:
        """One network alone: [B, in] -> [B, hidden].

        `offset` [B, hidden] is added to the sums of the first layer.
        """
        goals = inputs
        for layer in self.layers:
            assert isinstance(layer, DenseStack)
            inputs = self._after(_moved(layer.stream(index, inputs), offset))
            offset = None
        if self.conditioned is None:
            return inputs
        made = self.conditioned.stream(index, inputs, self.conditioned.goals(goals))
        return self._after(_moved(made, offset))

    def first_bias(self) -> nn.Parameter:
        """[S, 1, hidden], of the layer that takes `stream`'s offset."""
        first = self.layers[0] if len(self.layers) else self.conditioned
        assert isinstance(first, DenseStack | HyperLayer)
        return first.bias

    def _after(self, sums: Tensor) -> Tensor:
        if self.layer_norm:
            sums = functional.layer_norm(sums, (self.hidden,), eps=LAYER_NORM_EPS)
        return activate(self.activation, sums)


def body_on(
    encoder: ObservationEncoder,
    streams: int,
    settings: NetworkSettings,
    generator: torch.Generator | None = None,
) -> Body:
    """The body that the settings ask for, on what `encoder` gives.

    Raises:
        UnsupportedObservationError: weights are to be made from a goal of variable length.
    """
    return Body(
        streams,
        encoder.size,
        settings.hidden_units,
        None if encoder.whole is not None else settings.num_layers,
        generator,
        activation=settings.activation,
        initialization=settings.initialization,
        layer_norm=settings.layer_norm,
        goal_columns=encoder.goal_columns(),
        goals_encoded=encoder.goals_encoded,
    )


def _moved(sums: Tensor, offset: Tensor | None) -> Tensor:
    return sums if offset is None else sums + offset
