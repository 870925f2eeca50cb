"""The hidden layers of a network, for several networks of one shape at once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...settings.models.networks import Activation, Initialization, NetworkSettings
from ..observation_kinds import UnsupportedObservationError
from ..observations import ObservationEncoder
from .attention import LAYER_NORM_EPS
from .hypernetwork import HyperLayer
from .layers import ORTHOGONAL_GAIN, DenseStack, activate

__all__ = ["Body", "DenseStack", "body_on"]

EXPANSION = 4
"""The width of the layer within a residual block, in widths of the body."""


class Body(nn.Module):
    """Dense layers, each with its activation, of S networks of one shape; `hidden` is the last one's width.

    An actor and its critic are two streams of one body: a pass through both takes as many calls as one. Where
    agents have goals, the last layer's weights may be made from these.

    If `residual`, a linear layer is followed by blocks x + W2 activation(W1 LN(x)) and a last LN
    (SimBa: Lee et al. 2025, arXiv 2410.09754), with LN the layer normalization without parameters: linear
    layers follow each of them.
    """

    def __init__(
        self,
        streams: int,
        input_size: int,
        settings: NetworkSettings,
        generator: torch.Generator | None = None,
        gain: float = 1.0,
        *,
        encoder: ObservationEncoder | None = None,
        has_layers: bool = True,
    ) -> None:
        """Build the layers with fresh weights, drawn from `generator` or torch's own.

        Args:
            streams: S.
            input_size: of what is read.
            settings: widths of the layers or blocks, their activation, initialization and layer
                normalization.
            generator: of the first weights.
            gain: of the first weights, see `initialize_`; orthogonal ones have `ORTHOGONAL_GAIN`.
            encoder: of the inputs, whose goals make the weights of the last layer; None: no layer is made so.
            has_layers: False for none at all, which passes inputs on.

        Raises:
            UnsupportedObservationError: weights are to be made from a goal of variable length, or of residual
                blocks.
        """
        super().__init__()
        self.streams = streams
        widths = settings.layer_sizes if has_layers else ()
        self.hidden = hidden = widths[-1] if widths else input_size
        self.activation, self.layer_norm = settings.activation, settings.layer_norm
        self.residual = settings.residual and has_layers
        sizes = [input_size, *widths]
        if self.residual:
            sizes = [input_size, hidden, *(EXPANSION * hidden, hidden) * len(widths)]
        shapes = list(pairwise(sizes))
        if settings.initialization is Initialization.ORTHOGONAL and not self.residual:
            gain = ORTHOGONAL_GAIN
        self.conditioned: HyperLayer | None = None
        goals = [] if encoder is None else encoder.goal_columns()
        if goals and self.residual:
            raise UnsupportedObservationError(
                "There is a goal signal, from which weights of the last layer would be made; a network with "
                "network_settings.residual has no such layer. Set goal_conditioning_type: none to read the "
                "goal like any other observation."
            )
        made = shapes.pop() if goals else None
        self.layers = nn.ModuleList(
            DenseStack(streams, *shape, generator, gain, settings.initialization) for shape in shapes
        )
        if encoder is not None and made is not None:
            encoded = encoder.goals_encoded
            self.conditioned = HyperLayer(streams, *made, goals, hidden, generator, goals_encoded=encoded)

    @property
    def is_dense_mlp(self) -> bool:
        """Whether it is nothing but dense layers with Swish."""
        dense = self.conditioned is None and len(self.layers) > 0
        plain = not self.layer_norm and not self.residual
        return dense and plain and self.activation is Activation.SWISH

    def forward(self, inputs: Tensor) -> Tensor:
        """[B, in] (the same for every network) or [S, B, in] -> [S, B, hidden]."""
        if inputs.dim() == 2:
            inputs = inputs.expand(self.streams, -1, -1)
        goals = inputs
        if self.residual:
            return self._blocks(self.layers[0](inputs), lambda k, x: self.layers[k](x))
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
        layers = [layer for layer in self.layers if isinstance(layer, DenseStack)]
        if self.residual:
            embedded = _moved(layers[0].stream(index, inputs), offset)
            return self._blocks(embedded, lambda k, x: layers[k].stream(index, x))
        for layer in layers:
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

    def _blocks(self, x: Tensor, layer: Callable[[int, Tensor], Tensor]) -> Tensor:
        """The residual blocks and the last normalization; `layer` applies the layer of an index."""
        for k in range(1, len(self.layers), 2):
            x = x + layer(k + 1, activate(self.activation, layer(k, self._normalized(x))))
        return self._normalized(x)

    def _after(self, sums: Tensor) -> Tensor:
        return activate(self.activation, self._normalized(sums) if self.layer_norm else sums)

    def _normalized(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, x.shape[-1:], eps=LAYER_NORM_EPS)


def body_on(
    encoder: ObservationEncoder,
    streams: int,
    settings: NetworkSettings,
    generator: torch.Generator | None = None,
) -> Body:
    """The body that the settings ask for, on what `encoder` gives.

    Raises:
        UnsupportedObservationError: as of `Body`.
    """
    return Body(streams, encoder.size, settings, generator, encoder=encoder, has_layers=encoder.whole is None)


def _moved(sums: Tensor, offset: Tensor | None) -> Tensor:
    return sums if offset is None else sums + offset
