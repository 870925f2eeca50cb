"""Generative adversarial imitation learning (Ho and Ermon 2016, arXiv 1606.03476).

A discriminator learns to distinguish the expert's steps from the agents'; agents are rewarded for steps that
it classifies as the expert's. With `use_vail`, a variational bottleneck limits how well it can distinguish
them (Peng et al. 2018, arXiv 1810.00821).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor

from ...agent_processor.trajectory import Rollout
from ...envs.validation import NonFinitePolicy
from ..buffers.demonstrations import Demonstrations
from ..networks.modules.distributions import Actions, flat_actions, to_engine
from ..networks.modules.passes import chunked_forward
from ..networks.observations import to_tensors
from ..settings.models.rewards import GAILSettings
from ..utils.distributed import sums, world_size
from .base import NetworkSignal
from .discriminator import (
    EPSILON,
    LATENT_SIZE,
    MUTUAL_INFORMATION,
    Discriminator,
    DiscriminatorLosses,
    RandomDraws,
    Sample,
    discriminator_losses,
)
from .transitions import Transitions

BETA_STEP = 0.0005
"""The step size of beta, the weight of the bottleneck's information: alpha_beta of the paper."""


class GAIL(NetworkSignal):
    """Reward = -ln(1 - D), never negative: agents that resemble the expert gain from longer episodes."""

    name = "gail"
    ignores_done = False
    needs_next_obs = False

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
            spec: of the behavior.
            settings: of the signal.
            demos: of the expert; observations are normalized with their statistics.
            device: the learner's.
            seed: of the initial weights and of the sampling.
            non_finite: how to handle gradients that are not finite.
            squashed: the policy samples continuous actions in the range of the engine.

        Errors are those of `ObservationEncoder`.
        """
        init = torch.Generator().manual_seed(seed)
        self.discriminator = Discriminator(spec, settings, init).to(device)
        networks = {"discriminator": self.discriminator}
        super().__init__(spec, settings, networks, self.discriminator.encoder, device, non_finite)
        self.use_actions, self.use_vail = settings.use_actions, settings.use_vail
        self.as_engine = settings.engine_actions
        self._scaled = not squashed
        self.beta = 0.0
        """The weight of the information in the bottleneck."""
        self.random = torch.Generator().manual_seed(seed + 1)
        self._expert_obs = to_tensors(demos.obs, device)
        self._expert_acted = self._expert_actions(demos)
        self.discriminator.encoder.update_normalization(self._expert_obs)

    def update_normalizer(self, rollout: Rollout) -> None:
        """Nothing changes: observations are normalized with the expert's statistics."""

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
        expert, draws = self._expert_sample(steps), self._random_draws(steps)
        return self.learn_from(self.sample(steps), expert, draws, policy_step)

    def learn_from(
        self, policy: Sample, expert: Sample, draws: RandomDraws, policy_step: int
    ) -> dict[str, float]:
        """The same with given samples and random numbers; then beta is adjusted."""
        losses = discriminator_losses(self.discriminator, policy, expert, draws, self.beta)
        self._descend(losses.total, policy_step)
        return self._metrics(losses)

    def _metrics(self, losses: DiscriminatorLosses) -> dict[str, float]:
        metrics = {
            "Policy/GAIL Policy Estimate": losses.policy_estimate.item(),
            "Policy/GAIL Expert Estimate": losses.expert_estimate.item(),
            "Losses/GAIL Loss": losses.classification.item(),
            "Policy/GAIL Grad Mag Loss": losses.penalty.item(),
        }
        if losses.information is None:
            return metrics
        information = sums(losses.information.item())[0] / world_size()
        self.beta = max(0.0, self.beta + BETA_STEP * (information - MUTUAL_INFORMATION))
        return metrics | {"Policy/GAIL Beta": self.beta, "Losses/GAIL KL Loss": information}

    # Samples ------------------------------------------------------------------------------------------

    def sample(self, steps: Transitions) -> Sample:
        """Agents' steps as the discriminator reads them."""
        if not self.use_actions:
            return Sample(steps.obs, None)
        continuous = steps.actions.continuous
        if self.as_engine and self._scaled:
            continuous = to_engine(continuous)
        return Sample(steps.obs, self._acted(Actions(continuous, steps.actions.discrete), steps.done))

    def _acted(self, actions: Actions, done: Tensor) -> Tensor:
        flat = flat_actions(*actions, self.spec.action_spec.discrete_branches)
        return torch.cat((flat, done.unsqueeze(1)), 1)

    def _expert_actions(self, demos: Demonstrations) -> Tensor | None:
        if not self.use_actions:
            return None
        continuous = torch.from_numpy(demos.continuous)
        if self.as_engine:
            continuous = continuous.clamp(-1.0, 1.0)
        discrete = torch.from_numpy(demos.discrete.astype(np.int64))
        done = torch.from_numpy(demos.done).float()
        return self._acted(Actions(continuous, discrete), done).to(self.device)

    def _expert_sample(self, steps: Transitions) -> Sample:
        """As many steps of the expert, sampled with replacement."""
        length = len(self._expert_obs[0])
        which = torch.randint(length, (len(steps),), generator=self.random, device="cpu").to(self.device)
        acted = None if self._expert_acted is None else self._expert_acted.index_select(0, which)
        return Sample([column.index_select(0, which) for column in self._expert_obs], acted)

    def _random_draws(self, steps: Transitions) -> RandomDraws:
        rows = len(steps)
        shapes = [column.shape[1:] for column in steps.obs]
        if self._expert_acted is not None:
            shapes.append(self._expert_acted.shape[1:])
        mix = [torch.rand((rows, *shape), generator=self.random).to(self.device) for shape in shapes]
        if not self.use_vail:
            return RandomDraws(mix, None)
        noise = torch.randn((3, rows, LATENT_SIZE), generator=self.random).to(self.device)
        return RandomDraws(mix, (noise[0], noise[1], noise[2]))

    # Saving -------------------------------------------------------------------------------------------

    def initialize_from(self, state: Mapping[str, Any]) -> list[str]:
        """See `NetworkSignal.initialize_from`; the statistics stay those of the demonstrations."""
        with self._own_statistics():
            return super().initialize_from(state)

    def state_dict(self) -> dict[str, Any]:
        """Weights, normalizer, optimizer, beta and random state."""
        return super().state_dict() | {"beta": self.beta, "random": self.random.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, but the statistics, which are those of the demonstrations."""
        with self._own_statistics():
            super().load_state_dict(state)
        self.beta = float(state["beta"])
        self.random.set_state(state["random"].cpu())

    @contextmanager
    def _own_statistics(self) -> Iterator[None]:
        """Within this context the statistics of the demonstrations may be overwritten."""
        normalizers = self.discriminator.encoder.normalizers
        kept = None if normalizers is None else copy.deepcopy(normalizers.state_dict())
        yield
        if normalizers is not None and kept is not None:
            normalizers.load_state_dict(kept)
