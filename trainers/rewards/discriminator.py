"""The discriminator between an expert's and an agent's steps, and its loss.

GAIL: Ho and Ermon 2016, arXiv 1606.03476. Bottleneck (VAIL): Peng et al. 2018, arXiv 1810.00821. Gradient
penalty: Gulrajani et al. 2017, arXiv 1704.00028.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..networks.modules.body import Body
from ..networks.modules.layers import Dense, xavier_uniform_
from ..networks.modules.normalizer import LIMIT, Normalizer
from ..networks.observation_kinds import ObservationKind
from ..networks.observations import ObservationEncoder, as_float
from ..settings.models.rewards import GAILSettings

LATENT_SIZE = 128
"""Of the bottleneck."""
LATENT_GAIN = 0.1
ESTIMATE_GAIN = 0.2
EPSILON = 1e-7
PENALTY_WEIGHT = 10.0
MUTUAL_INFORMATION = 0.5
"""The information that may pass the bottleneck: I_c of the paper."""


class Sample(NamedTuple):
    """B steps, of the expert or of agents."""

    obs: list[Tensor]
    """Per sensor [B, *shape]."""
    acted: Tensor | None
    """[B, flat actions + 1]: the actions, and whether they ended the episode; None: not used."""


class RandomDraws(NamedTuple):
    """The random numbers of one loss."""

    mix: list[Tensor]
    """Uniform in [0, 1), in the shapes of a sample's tensors: the share of the agents' step in a mixture."""
    noise: tuple[Tensor, Tensor, Tensor] | None
    """Normal [B, 128] in the bottleneck: at agents' steps, the expert's, and mixtures. None without one."""


class Estimate(NamedTuple):
    """The discriminator's outputs for B steps."""

    expert: Tensor
    """[B] D: the probability that a step is the expert's."""
    latent_mean: Tensor
    """[B, 128] in the bottleneck; without one, the output of the hidden layers."""


class DiscriminatorLosses(NamedTuple):
    """Scalars."""

    total: Tensor
    """What is differentiated."""
    policy_estimate: Tensor
    expert_estimate: Tensor
    classification: Tensor
    penalty: Tensor
    """Weighted."""
    information: Tensor | None
    """KL divergence in the bottleneck; None without one."""


class Discriminator(nn.Module):
    """D(o), or D(o, a, done): an encoder, hidden layers, an optional bottleneck, and one sigmoid."""

    def __init__(self, spec: BehaviorSpec, settings: GAILSettings, generator: torch.Generator) -> None:
        """Build it with initial weights.

        Errors are those of `ObservationEncoder`.
        """
        super().__init__()
        own, actions = settings.network_settings, spec.action_spec
        self.encoder = ObservationEncoder(spec.observation_specs, own, generator)
        acted = int(actions.continuous_size) + sum(actions.discrete_branches) + 1
        input_size = self.encoder.size + (acted if settings.use_actions else 0)
        self.body = Body(1, input_size, own, generator, encoder=self.encoder)
        if self.body.conditioned is not None:
            self.body.conditioned.goals_encoded = True  # the penalty's gradient is that by goals too
        size = self.body.hidden
        self.latent: Dense | None = None
        self.sigma: nn.Parameter | None = None
        if settings.use_vail:
            self.latent = Dense(size, LATENT_SIZE, LATENT_GAIN / math.sqrt(size), generator)
            self.sigma = nn.Parameter(torch.ones(LATENT_SIZE))
            size = LATENT_SIZE
        self.estimate = Dense(size, 1, 1.0, generator)
        xavier_uniform_(self.estimate.weight, size, 1, generator, ESTIMATE_GAIN)

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """One [B, *shape] tensor per observation -> the inputs of `forward`, normalized."""
        return self.encoder.prepare(obs)

    def forward(
        self, inputs: Sequence[Tensor], acted: Tensor | None, noise: Tensor | None = None
    ) -> Estimate:
        """Prepared observations, and a sample's `acted`, of B steps; `noise` [B, 128] while it learns."""
        encoding = self.encoder(inputs)
        hidden = self.body.stream(0, encoding if acted is None else torch.cat((encoding, acted), 1))
        mean = hidden if self.latent is None else self.latent(hidden)
        latent = mean if noise is None or self.sigma is None else mean + noise * self.sigma
        return Estimate(self.estimate(latent).squeeze(1).sigmoid(), mean)


def discriminator_losses(
    network: Discriminator, policy: Sample, expert: Sample, draws: RandomDraws, beta: float
) -> DiscriminatorLosses:
    """-E_expert ln D - E_policy ln(1 - D) + 10 penalty, and beta (KL - I_c) where there is a bottleneck.

    Args:
        network: the discriminator.
        policy: B steps of agents.
        expert: as many of the expert.
        draws: the random numbers.
        beta: the weight of the bottleneck's information.
    """
    count, noise = len(policy.obs[0]), draws.noise
    both = [torch.cat((as_float(ours), as_float(theirs))) for ours, theirs in zip(policy.obs, expert.obs)]
    acted = None
    if policy.acted is not None and expert.acted is not None:
        acted = torch.cat((policy.acted, expert.acted))
    found = network(network.prepare(both), acted, None if noise is None else torch.cat(noise[:2]))
    of_policy, of_expert = found.expert[:count], found.expert[count:]
    classification = -((of_expert + EPSILON).log() + (1.0 - of_policy + EPSILON).log()).mean()
    penalty = PENALTY_WEIGHT * gradient_penalty(network, policy, expert, draws)
    total, information = classification + penalty, None
    if network.sigma is not None:
        means = found.latent_mean[:count], found.latent_mean[count:]
        information = divergence(*means, network.sigma)
        total = total + beta * (information - MUTUAL_INFORMATION)
    return DiscriminatorLosses(
        total, of_policy.detach().mean(), of_expert.detach().mean(), classification, penalty, information
    )


def divergence(of_policy: Tensor, of_expert: Tensor, sigma: Tensor) -> Tensor:
    """KL divergence of the bottleneck's Gaussians from the unit one, the mean over both samples' steps."""
    variance = sigma * sigma
    squares = 0.5 * (of_expert * of_expert + of_policy * of_policy)
    return -(1.0 + variance.log() - squares - variance).sum(1).mean()


def gradient_penalty(network: Discriminator, policy: Sample, expert: Sample, draws: RandomDraws) -> Tensor:
    """E (|dD/do| - 1)^2 at mixtures of agents' and the expert's steps; o: all observations, as they come."""
    mixtures = [
        eps * as_float(ours) + (1.0 - eps) * as_float(theirs)
        for eps, ours, theirs in zip(draws.mix, policy.obs, expert.obs)
    ]
    acted = None
    if policy.acted is not None and expert.acted is not None:
        eps = draws.mix[-1]
        acted = eps * policy.acted + (1.0 - eps) * expert.acted
    inputs = [rows.detach().requires_grad_() for rows in network.prepare(mixtures)]
    with sdpa_kernel(SDPBackend.MATH):  # fused attention can be differentiated once
        found = network(inputs, acted, None if draws.noise is None else draws.noise[2])
    slopes = torch.autograd.grad(found.expert.sum(), inputs, create_graph=True)
    squares = [
        (slope * scale).square().flatten(1).sum(1)
        for slope, scale in zip(slopes, _scales(network.encoder, inputs))
    ]
    lengths = (torch.stack(squares).sum(0) + EPSILON).sqrt()
    return (lengths - 1.0).square().mean()


def _scales(encoder: ObservationEncoder, inputs: Sequence[Tensor]) -> list[Tensor | float]:
    """The derivative of each input by the observation that it was prepared from."""
    scales: list[Tensor | float] = [1.0] * len(inputs)
    normalizers = iter(encoder.normalizers or ())
    for k, (part, rows) in enumerate(zip(encoder.groups, inputs)):
        if encoder.normalizers is not None and part.kind is ObservationKind.VECTOR:
            normalizer = next(normalizers)
            assert isinstance(normalizer, Normalizer)
            scales[k] = (rows.detach().abs() < LIMIT) / normalizer.deviation()
    return scales
