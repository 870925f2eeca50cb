"""Random network distillation (Burda et al. 2018, arXiv 1810.12894).

A predictor learns the outputs of a fixed random network. Its error is large for observations that it has
rarely seen, and is the reward for novelty.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ...envs.validation import NonFinitePolicy
from ..networks.modules.passes import chunked_forward
from ..settings.models.rewards import RNDSettings
from .base import Embedding, NetworkSignal
from .transitions import Transitions


class RND(NetworkSignal):
    """Reward = |predictor(o) - target(o)|^2. Novelty does not end with an episode."""

    name = "rnd"
    ignores_done = True
    needs_next_obs = False

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: RNDSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
    ) -> None:
        """Two networks of one shape, which both read what the predictor's normalizer returns.

        Errors are those of `ObservationEncoder`.
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
        """One gradient step of the predictor on the mean squared error."""
        loss = self._errors(self.predictor.prepare(steps.obs)).mean()
        self._descend(loss, policy_step)
        return {"Losses/RND Loss": loss.item()}

    def _errors(self, inputs: Sequence[Tensor]) -> Tensor:
        with torch.no_grad():
            target = self.target(inputs)
        errors: Tensor = (self.predictor(inputs) - target).square().sum(1)
        return errors
