"""Random network distillation (Burda et al. 2018, arXiv 1810.12894).

A predictor learns what a fixed random network makes of observations. Where it has not seen the like often, it
fails: its error is the reward for what is new.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ...envs.validation import NonFinitePolicy
from ..networks.modules.chunking import chunked_forward
from ..settings.models.rewards import RNDSettings
from .base import NetworkSignal
from .encoder import Embedding
from .transitions import Transitions


class RND(NetworkSignal):
    """Reward = |predictor(o) - target(o)|^2. What is new does not end with an episode."""

    name = "rnd"
    ignores_done = True
    looks_ahead = False

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: RNDSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
    ) -> None:
        """Two networks of one shape, both of which read what the predictor's normaliser gives.

        Raises:
            UnsupportedObservationError: an observation cannot be encoded; the message names it.
        """
        init = torch.Generator().manual_seed(seed)
        specs, network = spec.observation_specs, settings.network_settings
        self.target = Embedding(specs, network, init, normalize=False).requires_grad_(False).to(device)
        self.predictor = Embedding(specs, network, init).to(device)
        networks = {"predictor": self.predictor, "target": self.target}
        super().__init__(spec, settings, networks, self.predictor.encoder, device, non_finite)

    @torch.no_grad()
    def rewards(self, steps: Transitions) -> Tensor:
        """[B] the squared errors."""
        return chunked_forward(self._errors, self.predictor.prepare(steps.obs))

    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """One step of the predictor down the mean squared error."""
        loss = self._errors(self.predictor.prepare(steps.obs)).mean()
        self._descend(loss, policy_step)
        return {"Losses/RND Loss": loss.item()}

    def _errors(self, inputs: Sequence[Tensor]) -> Tensor:
        with torch.no_grad():
            wanted = self.target(inputs)
        errors: Tensor = (self.predictor(inputs) - wanted).square().sum(1)
        return errors
