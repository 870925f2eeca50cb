"""The network that embeds observations for reward signals."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import ObservationSpec
from torch import Tensor, nn

from ..networks.modules.body import body_on
from ..networks.observations import ObservationEncoder
from ..settings.models.networks import NetworkSettings


class Embedding(nn.Module):
    """From observations to a vector, by the encoders and hidden layers of policies; no memory."""

    def __init__(
        self,
        specs: Sequence[ObservationSpec],
        settings: NetworkSettings,
        generator: torch.Generator,
        *,
        normalize: bool | None = None,
    ) -> None:
        """Build it with initial weights.

        Args:
            specs: of the behavior.
            settings: the signal's `network_settings`.
            generator: of the initial weights.
            normalize: overrides the settings; False to read what another embedding has prepared.

        Raises:
            UnsupportedObservationError: an observation cannot be encoded; the message names it.
            TrainerError: a custom network cannot be built.
        """
        super().__init__()
        self.encoder = ObservationEncoder(specs, settings, generator, normalize=normalize)
        self.body = body_on(self.encoder, 1, settings, generator)

    @property
    def size(self) -> int:
        """Of the vector."""
        return self.body.hidden

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """One [B, *shape] tensor per observation -> the inputs of `forward`, normalized."""
        return self.encoder.prepare(obs)

    def forward(self, inputs: Sequence[Tensor]) -> Tensor:
        """[B, size]."""
        return self.body.stream(0, self.encoder(inputs))
