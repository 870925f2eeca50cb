"""Encoders of images: convolutions, then one dense layer. Layers and first weights are ML-Agents'.

`simple`, `nature_cnn` (Mnih et al. 2015) and `match3` are chains of convolutions with leaky ReLUs, `resnet`
is the network of IMPALA (Espeholt et al. 2018, arXiv 1802.01561), and `fully_connected` has no convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from mlagents_envs.base_env import ObservationSpec
from torch import Tensor, nn
from torch.nn import functional

from ...settings.models.networks import EncoderType, Initialization
from ..observation_kinds import UnsupportedObservationError
from .layers import LEAK, Dense, initialize_, uniform_by_inputs_

MIN_SIDE = {
    EncoderType.FULLY_CONNECTED: 1,
    EncoderType.MATCH3: 5,
    EncoderType.RESNET: 15,
    EncoderType.SIMPLE: 20,
    EncoderType.NATURE_CNN: 36,
}
"""The least height and width, in pixels, that an encoder reads; from the smallest to the largest."""
CHAINS = {
    EncoderType.FULLY_CONNECTED: (),
    EncoderType.MATCH3: ((35, 3, 1), (144, 3, 1)),
    EncoderType.SIMPLE: ((16, 8, 4), (32, 4, 2)),
    EncoderType.NATURE_CNN: ((32, 8, 4), (64, 4, 2), (64, 3, 1)),
}
"""The (channels, kernel, stride) of each convolution."""
RESNET_CHANNELS = (16, 32, 32)
"""The channels of the three stages: a convolution, a pooling, two residual blocks of two convolutions."""
POOL, POOL_STRIDE = 3, 2
DENSE_GAIN = 1.41
RELU_GAIN = math.sqrt(2.0)
"""The gain that keeps the size of what flows through layers with ReLUs (He et al. 2015)."""


class Convolution(nn.Module):
    """A convolution: weights [out, in, k, k] and biases, at first from within 1 / sqrt(in k k) of 0."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.kernel, self.stride, self.padding = kernel, stride, padding
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel, kernel))
        self.bias = nn.Parameter(torch.empty(out_channels))
        for parameter in (self.weight, self.bias):
            uniform_by_inputs_(parameter, in_channels * kernel * kernel, generator)

    @torch.no_grad()
    def initialize(self, kind: Initialization, generator: torch.Generator | None = None) -> None:
        """Draw the weights anew as those of a hidden layer that reads k x k pixels of all channels."""
        matrix = torch.empty(1, self.weight[0].numel(), len(self.weight))
        initialize_(matrix, kind, RELU_GAIN, generator)
        self.weight.copy_(matrix[0].T.reshape(self.weight.shape))
        self.bias.zero_()

    def forward(self, images: Tensor) -> Tensor:
        """Convolve images [B, in, H, W] to [B, out, H', W']."""
        return functional.conv2d(images, self.weight, self.bias, self.stride, self.padding)

    def size(self, side: int) -> int:
        """The height H' for a height H, or the width W' for a width W."""
        return (side + 2 * self.padding - self.kernel) // self.stride + 1


class VisualEncoder(nn.Module):
    """The encoder of an image as `size` features."""

    def __init__(
        self,
        spec: ObservationSpec,
        kind: EncoderType,
        size: int,
        generator: torch.Generator | None = None,
        initialization: Initialization = Initialization.KAIMING_NORMAL,
    ) -> None:
        """Build the encoder with fresh weights, drawn from `generator` or torch's own.

        With `KAIMING_NORMAL` they are ML-Agents', whose convolutions are torch's.

        Raises:
            UnsupportedObservationError: the image is too small; the message names sensor, size and minimum.
        """
        super().__init__()
        require_size(spec, kind)
        self.kind = kind
        self.size = size
        channels, height, width = (int(n) for n in spec.shape)
        build = _resnet if kind is EncoderType.RESNET else _chain
        layers, self.flat_shape = build(kind, channels, (height, width), generator)
        self.convolutions = nn.ModuleList(layers)
        flat = math.prod(self.flat_shape)
        self.dense = Dense(flat, size, DENSE_GAIN / math.sqrt(flat), generator)
        if initialization is not Initialization.KAIMING_NORMAL:
            for convolution in layers:
                convolution.initialize(initialization, generator)
            initialize_(self.dense.weight.unsqueeze(0), initialization, RELU_GAIN, generator)

    def forward(self, images: Tensor) -> Tensor:
        """Encode images [B, C, H, W] float as [B, size]."""
        if self.kind is EncoderType.RESNET:
            return torch.relu(self.dense(self._residual(images).flatten(1)))
        for convolution in self.convolutions:
            images = functional.leaky_relu(convolution(images), LEAK)
        return functional.leaky_relu(self.dense(images.flatten(1)), LEAK)

    def _residual(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu":
            # So narrow convolutions and their poolings take 70 % of the time, forward and backward.
            x = x.contiguous(memory_format=torch.channels_last)
        for entrance, *blocks in self.stages():
            x = functional.max_pool2d(entrance(x), POOL, POOL_STRIDE)
            for first, second in zip(blocks[::2], blocks[1::2]):
                x = x + second(functional.silu(first(functional.silu(x))))
        return functional.silu(x)

    def stages(self) -> list[Sequence[Convolution]]:
        """The convolutions of a resnet's stages, five each."""
        found = [x for x in self.convolutions if isinstance(x, Convolution)]
        return [found[start : start + 5] for start in range(0, len(found), 5)]


def require_size(spec: ObservationSpec, kind: EncoderType) -> None:
    """Refuse an image that is too small.

    Raises:
        UnsupportedObservationError: it is, in height or width.
    """
    _, height, width = (int(n) for n in spec.shape)
    least = MIN_SIDE[kind]
    if min(height, width) >= least:
        return
    fitting = [other.value for other, side in MIN_SIDE.items() if min(height, width) >= side]
    if fitting:
        remedy = f"Let the sensor send larger images, or set vis_encode_type to {' or '.join(fitting[::-1])}"
    else:
        remedy = "Let the sensor send larger images"
    raise UnsupportedObservationError(
        f"Observation '{spec.name}' is an image of {width}x{height} (width x height), and the encoder "
        f"{kind.value} (network_settings.vis_encode_type) reads images of at least {least}x{least}. {remedy}."
    )


Built = tuple[list[Convolution], tuple[int, int, int]]
"""Convolutions, and the shape [C, H, W] of what comes out of them."""


def _chain(
    kind: EncoderType, channels: int, sides: tuple[int, int], generator: torch.Generator | None
) -> Built:
    layers: list[Convolution] = []
    height, width = sides
    for wider, kernel, stride in CHAINS[kind]:
        layers.append(Convolution(channels, wider, kernel, stride, generator=generator))
        channels, height, width = wider, layers[-1].size(height), layers[-1].size(width)
    return layers, (channels, height, width)


def _resnet(
    kind: EncoderType, channels: int, sides: tuple[int, int], generator: torch.Generator | None
) -> Built:
    layers: list[Convolution] = []
    height, width = sides
    for wider in RESNET_CHANNELS:
        layers += [
            Convolution(inputs, wider, 3, padding=1, generator=generator)
            for inputs in (channels, *[wider] * 4)
        ]
        channels = wider
        height, width = ((side - POOL) // POOL_STRIDE + 1 for side in (height, width))
    return layers, (channels, height, width)
