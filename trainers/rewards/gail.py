"""Generative adversarial imitation learning (Ho and Ermon 2016, arXiv 1606.03476).

A discriminator learns to tell the expert's steps from the agents'; agents are rewarded for steps that it
takes for the expert's. With `use_vail`, a variational bottleneck keeps it from telling them apart too well
(Peng et al. 2018, arXiv 1810.00821).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ...agent_processor.trajectory import Rollout
from ...envs.validation import NonFinitePolicy
from ..algorithms.common.observations import to_tensors
from ..buffers.demonstrations import Demonstrations
from ..networks.modules.chunking import chunked_forward
from ..networks.modules.distributions import Actions, to_engine
from ..settings.models.rewards import GAILSettings
from .base import NetworkSignal, flat_actions
from .discriminator import (
    EPSILON,
    LATENT_SIZE,
    MUTUAL_INFORMATION,
    Chances,
    Discriminator,
    DiscriminatorLosses,
    Sample,
    discriminator_losses,
)
from .transitions import Transitions

BETA_STEP = 0.0005
"""How fast the price of information follows what the bottleneck lets through: alpha_beta of the paper."""


class GAIL(NetworkSignal):
    """Reward = -ln(1 - D), which is never negative: who looks like the expert wants to go on."""

    name = "gail"
    ignores_done = False
    looks_ahead = False

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: GAILSettings,
        demos: Demonstrations,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
        *,
        squashed: bool,
    ) -> None:
        """Build the discriminator.

        Args:
            spec: of the behaviour.
            settings: of the signal.
            demos: of the expert; the statistics that normalise observations are theirs.
            device: the learner's.
            seed: of the first weights, and of what is drawn.
            non_finite: what to do about gradients that are no numbers.
            squashed: the policy draws continuous actions as the engine takes them.

        Raises:
            UnsupportedObservationError: an observation cannot be encoded; the message names it.
        """
        init = torch.Generator().manual_seed(seed)
        self.discriminator = Discriminator(spec, settings, init).to(device)
        networks = {"discriminator": self.discriminator}
        super().__init__(spec, settings, networks, self.discriminator.encoder, device, non_finite)
        self.use_actions, self.use_vail = settings.use_actions, settings.use_vail
        self.as_engine = settings.engine_actions
        self._scaled = not squashed
        self.beta = 0.0
        """The price of information in the bottleneck."""
        self.random = torch.Generator().manual_seed(seed + 1)
        self._expert_obs = to_tensors(demos.obs, device)
        self._expert_acted = self._demonstrated(demos)
        self.discriminator.encoder.update_normalization(self._expert_obs)

    def observe(self, rollout: Rollout) -> None:
        """What agents see leaves no trace: observations are normalised by what the expert saw."""

    @torch.no_grad()
    def rewards(self, steps: Transitions) -> Tensor:
        """[B]"""
        obs, acted = self.sample(steps)
        inputs = self.discriminator.prepare(obs)
        if acted is None:
            expert = chunked_forward(lambda some: self.discriminator(some, None).expert, inputs)
        else:
            of_obs = len(inputs)
            expert = chunked_forward(
                lambda some: self.discriminator(some[:of_obs], some[of_obs]).expert, [*inputs, acted]
            )
        return -(1.0 - expert * (1.0 - EPSILON)).log()

    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """One step of the discriminator, by these steps and as many of the expert."""
        expert, chances = self._drawn(steps), self._chances(steps)
        return self.learn_from(self.sample(steps), expert, chances, policy_step)

    def learn_from(
        self, policy: Sample, expert: Sample, chances: Chances, policy_step: int
    ) -> dict[str, float]:
        """The same by given samples and draws; then the price of information moves."""
        losses = discriminator_losses(self.discriminator, policy, expert, chances, self.beta)
        self._descend(losses.total, policy_step)
        return self._figures(losses)

    def _figures(self, losses: DiscriminatorLosses) -> dict[str, float]:
        figures = {
            "Policy/GAIL Policy Estimate": losses.policy_estimate.item(),
            "Policy/GAIL Expert Estimate": losses.expert_estimate.item(),
            "Losses/GAIL Loss": losses.classification.item(),
            "Policy/GAIL Grad Mag Loss": losses.penalty.item(),
        }
        if losses.information is None:
            return figures
        information = losses.information.item()
        self.beta = max(0.0, self.beta + BETA_STEP * (information - MUTUAL_INFORMATION))
        return figures | {"Policy/GAIL Beta": self.beta, "Losses/GAIL KL Loss": information}

    # Samples ------------------------------------------------------------------------------------------

    def sample(self, steps: Transitions) -> Sample:
        """Agents' steps as the discriminator looks at them."""
        if not self.use_actions:
            return Sample(steps.obs, None)
        continuous = steps.actions.continuous
        if self.as_engine and self._scaled:
            continuous = to_engine(continuous)
        return Sample(steps.obs, self._acted(Actions(continuous, steps.actions.discrete), steps.done))

    def _acted(self, actions: Actions, done: Tensor) -> Tensor:
        flat = flat_actions(actions, self.spec.action_spec.discrete_branches)
        return torch.cat((flat, done.unsqueeze(1)), 1)

    def _demonstrated(self, demos: Demonstrations) -> Tensor | None:
        if not self.use_actions:
            return None
        continuous = torch.from_numpy(demos.continuous)
        if self.as_engine:
            continuous = continuous.clamp(-1.0, 1.0)
        discrete = torch.from_numpy(demos.discrete.astype(np.int64))
        done = torch.from_numpy(demos.done).float()
        return self._acted(Actions(continuous, discrete), done).to(self.device)

    def _drawn(self, steps: Transitions) -> Sample:
        """As many steps of the expert, any of them several times."""
        length = len(self._expert_obs[0])
        which = torch.randint(length, (len(steps),), generator=self.random, device="cpu").to(self.device)
        acted = None if self._expert_acted is None else self._expert_acted.index_select(0, which)
        return Sample([column.index_select(0, which) for column in self._expert_obs], acted)

    def _chances(self, steps: Transitions) -> Chances:
        rows = len(steps)
        shapes = [column.shape[1:] for column in steps.obs]
        if self._expert_acted is not None:
            shapes.append(self._expert_acted.shape[1:])
        mix = [torch.rand((rows, *shape), generator=self.random).to(self.device) for shape in shapes]
        if not self.use_vail:
            return Chances(mix, None)
        noise = torch.randn((3, rows, LATENT_SIZE), generator=self.random).to(self.device)
        return Chances(mix, (noise[0], noise[1], noise[2]))

    # Saving -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Weights, normaliser, optimiser, the price of information and random state."""
        return super().state_dict() | {"beta": self.beta, "random": self.random.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        super().load_state_dict(state)
        self.beta = float(state["beta"])
        self.random.set_state(state["random"].cpu())
