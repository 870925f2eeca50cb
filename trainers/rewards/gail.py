"""Generative adversarial imitation learning (Ho and Ermon 2016, arXiv 1606.03476).

A discriminator learns to distinguish the expert's steps from the agents'; agents are rewarded for steps that
it classifies as the expert's. With `use_vail`, a variational bottleneck limits how well it can distinguish
them (Peng et al. 2018, arXiv 1810.00821). Gradient penalty: Gulrajani et al. 2017, arXiv 1704.00028.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ...agent_processor.trajectory import Rollout
from ...envs.validation import NonFinitePolicy
from ..buffers.demonstrations import Demonstrations
from ..networks.modules.body import Body
from ..networks.modules.distributions import Actions, flat_actions, to_engine
from ..networks.modules.layers import Dense, xavier_uniform_
from ..networks.modules.normalizer import LIMIT, Normalizer
from ..networks.modules.passes import chunked_forward
from ..networks.observation_kinds import ObservationKind
from ..networks.observations import ObservationEncoder, as_float, to_tensors
from ..settings.models.rewards import GAILSettings
from ..utils.distributed import sums, world_size
from .base import NetworkSignal
from .transitions import Transitions

LATENT_SIZE = 128
"""The size of the bottleneck."""
LATENT_GAIN = 0.1
ESTIMATE_GAIN = 0.2
EPSILON = 1e-7
PENALTY_WEIGHT = 10.0
MUTUAL_INFORMATION = 0.5
"""The information that may pass the bottleneck: I_c of the paper."""


_ATTENTION = threading.Lock()


@contextmanager
def twice_differentiable() -> Iterator[None]:
    """Attention within this context can be differentiated twice, which a fused kernel cannot.

    PyTorch has one choice of kernels for all threads, of which several may learn: they take turns, so that
    none ends the choice of another.
    """
    with _ATTENTION, sdpa_kernel(SDPBackend.MATH):
        yield


class Sample(NamedTuple):
    """B steps, of the expert or of agents."""

    obs: list[Tensor]
    """The observations per sensor, [B, *shape]."""
    acted: Tensor | None
    """[B, flat actions + 1]: the actions, and whether they ended the episode; None: not used.

    With `absorbing_states`: the actions, if they are used, and whether the row is of the absorbing state."""

    def rows(self, some: slice) -> Sample:
        """Some of the steps."""
        return Sample([rows[some] for rows in self.obs], None if self.acted is None else self.acted[some])


class RandomDraws(NamedTuple):
    """The random numbers of one loss."""

    mix: list[Tensor]
    """Uniform numbers in [0, 1), in the shapes of a sample's tensors: the agents' share in a mixture."""
    noise: tuple[Tensor, Tensor, Tensor] | None
    """Normal numbers [B, 128] in the bottleneck: agents' steps, the expert's, mixtures. None without one."""


class Estimate(NamedTuple):
    """The discriminator's outputs for B steps."""

    expert: Tensor
    """[B] D: the probability that a step is the expert's."""
    logit: Tensor
    """[B] ln D - ln(1 - D)."""
    latent_mean: Tensor
    """[B, 128] the mean in the bottleneck; without one, the output of the hidden layers."""


class DiscriminatorLosses(NamedTuple):
    """The discriminator's losses, all scalars."""

    total: Tensor
    """The loss that is differentiated."""
    policy_estimate: Tensor
    expert_estimate: Tensor
    classification: Tensor
    penalty: Tensor
    """The weighted gradient penalty."""
    information: Tensor | None
    """The KL divergence in the bottleneck; None without one."""


class Discriminator(nn.Module):
    """D(o), or D(o, a, done): an encoder, hidden layers, an optional bottleneck, and one sigmoid.

    With `absorbing_states` D(o, absorbing), or D(o, a, absorbing).
    """

    def __init__(self, spec: BehaviorSpec, settings: GAILSettings, generator: torch.Generator) -> None:
        """Build the discriminator with initial weights.

        Errors are those of `ObservationEncoder`.
        """
        super().__init__()
        network, actions = settings.network_settings, spec.action_spec
        self.encoder = ObservationEncoder(spec.observation_specs, network, generator)
        acted = int(actions.continuous_size) + sum(actions.discrete_branches) + 1
        self.absorbing = settings.absorbing_states
        beside = acted if settings.use_actions else int(self.absorbing)
        input_size = self.encoder.size + beside
        self.body = Body(1, input_size, network, generator, encoder=self.encoder)
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
        """The inputs of `forward`, normalized, from one [B, *shape] tensor per observation."""
        return self.encoder.prepare(obs)

    def cleared(self, inputs: list[Tensor], acted: Tensor | None) -> list[Tensor]:
        """Prepared observations (floats) with zeros in the rows of the absorbing state, if there is one."""
        if not self.absorbing or acted is None:
            return inputs
        real = (acted[:, -1] == 0).to(acted.dtype)
        return [rows * real.view(-1, *[1] * (rows.dim() - 1)) for rows in inputs]

    def forward(
        self, inputs: Sequence[Tensor], acted: Tensor | None, noise: Tensor | None = None
    ) -> Estimate:
        """Judge B steps by prepared observations and a sample's `acted`; `noise` [B, 128] while it learns."""
        encoding = self.encoder(inputs)
        hidden = self.body.stream(0, encoding if acted is None else torch.cat((encoding, acted), 1))
        mean = hidden if self.latent is None else self.latent(hidden)
        latent = mean if noise is None or self.sigma is None else mean + noise * self.sigma
        logit = self.estimate(latent).squeeze(1)
        return Estimate(logit.sigmoid(), logit, mean)


def discriminator_losses(
    network: Discriminator,
    policy: Sample,
    expert: Sample,
    draws: RandomDraws,
    beta: float,
    penalty_of: Callable[[Discriminator, Sample, Sample, RandomDraws], Tensor],
) -> DiscriminatorLosses:
    """-E_expert ln D - E_policy ln(1 - D) + 10 penalty, and beta (KL - I_c) where there is a bottleneck.

    Args:
        network: the discriminator.
        policy: B steps of agents.
        expert: as many of the expert.
        draws: the random numbers.
        beta: the weight of the bottleneck's information.
        penalty_of: computes the gradient penalty.
    """
    count, noise = len(policy.obs[0]), draws.noise
    both = [torch.cat((as_float(ours), as_float(theirs))) for ours, theirs in zip(policy.obs, expert.obs)]
    acted = None
    if policy.acted is not None and expert.acted is not None:
        acted = torch.cat((policy.acted, expert.acted))
    inputs = network.cleared(network.prepare(both), acted)
    estimates = network(inputs, acted, None if noise is None else torch.cat(noise[:2]))
    of_policy, of_expert = estimates.expert[:count], estimates.expert[count:]
    classification = -((of_expert + EPSILON).log() + (1.0 - of_policy + EPSILON).log()).mean()
    penalty = PENALTY_WEIGHT * penalty_of(network, policy, expert, draws)
    total, information = classification + penalty, None
    if network.sigma is not None:
        means = estimates.latent_mean[:count], estimates.latent_mean[count:]
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
    with twice_differentiable():
        estimate = network(inputs, acted, None if draws.noise is None else draws.noise[2])
    slopes = torch.autograd.grad(estimate.expert.sum(), inputs, create_graph=True)
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


BETA_STEP = 0.0005
"""The step size of beta, the weight of the bottleneck's information: alpha_beta of the paper."""


class GAIL(NetworkSignal):
    """Reward = -ln(1 - D), never negative: agents that resemble the expert gain from longer episodes."""

    name = "gail"
    ignores_done = False
    needs_next_obs = False
    _penalty = staticmethod(gradient_penalty)

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: GAILSettings,
        demos: Demonstrations,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
        *,
        action_range: float | None,
    ) -> None:
        """Build the discriminator.

        Args:
            spec: of the behavior.
            settings: of the signal.
            demos: of the expert; observations are normalized with their statistics.
            device: the learner's.
            seed: of the initial weights and of the sampling.
            non_finite: how to handle gradients that are not finite.
            action_range: what of the policy's continuous actions is 1 for the engine; None: they are the
                engine's.

        Errors are those of `ObservationEncoder`.
        """
        init = torch.Generator().manual_seed(seed)
        self.discriminator = Discriminator(spec, settings, init).to(device)
        networks = {"discriminator": self.discriminator}
        super().__init__(spec, settings, networks, self.discriminator.encoder, device, non_finite)
        self.use_actions, self.use_vail = settings.use_actions, settings.use_vail
        self.as_engine = settings.engine_actions
        self._action_range = action_range
        self.beta = 0.0
        """The weight of the information in the bottleneck."""
        self.random = torch.Generator().manual_seed(seed + 1)
        self._expert_obs = to_tensors(demos.obs, device)
        self._expert_acted = self._expert_actions(demos)
        self.discriminator.encoder.update_normalization(self._expert_obs)

    def update_normalizer(self, rollout: Rollout) -> None:
        """Change nothing: observations are normalized with the expert's statistics."""

    @torch.no_grad()
    def rewards(self, steps: Transitions) -> Tensor:
        """[B] the rewards -ln(1 - D) of the steps."""
        expert = self._estimated(self.sample(steps), lambda estimate: estimate.expert)
        return -(1.0 - expert * (1.0 - EPSILON)).log()

    def _estimated(self, sample: Sample, of: Callable[[Estimate], Tensor]) -> Tensor:
        """[B] one of the discriminator's outputs for real steps."""
        inputs, acted = self.discriminator.prepare(sample.obs), sample.acted
        if acted is None:
            return chunked_forward(lambda some: of(self.discriminator(some, None)), inputs)
        of_obs = len(inputs)
        return chunked_forward(
            lambda some: of(self.discriminator(some[:of_obs], some[of_obs])), [*inputs, acted]
        )

    def learn(self, steps: Transitions, policy_step: int) -> dict[str, float]:
        """Take one step of the discriminator, by these steps and as many of the expert."""
        policy = self._learned_from(steps)
        expert, draws = self._expert_sample(len(policy.obs[0])), self._random_draws(policy.obs)
        return self.learn_from(policy, expert, draws, policy_step)

    def _learned_from(self, steps: Transitions) -> Sample:
        """What the discriminator learns from these steps of agents."""
        return self.sample(steps)

    def learn_from(
        self, policy: Sample, expert: Sample, draws: RandomDraws, policy_step: int
    ) -> dict[str, float]:
        """Learn as `learn` does, from given samples and random numbers; then adjust beta."""
        losses = discriminator_losses(self.discriminator, policy, expert, draws, self.beta, self._penalty)
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
        continuous = steps.actions.continuous
        if self.as_engine and self._action_range is not None:
            continuous = to_engine(continuous, self._action_range)
        return Sample(steps.obs, self._read_beside(Actions(continuous, steps.actions.discrete), steps.done))

    def _read_beside(self, actions: Actions, done: Tensor) -> Tensor | None:
        """What the discriminator reads of B steps beside their observations, see `Sample`."""
        if not self.use_actions:
            return None
        flat = flat_actions(*actions, self.spec.action_spec.discrete_branches)
        return torch.cat((flat, done.unsqueeze(1)), 1)

    def _expert_actions(self, demos: Demonstrations) -> Tensor | None:
        continuous = torch.from_numpy(demos.continuous)
        if self.as_engine:
            continuous = continuous.clamp(-1.0, 1.0)
        discrete = torch.from_numpy(demos.discrete.astype(np.int64))
        done = torch.from_numpy(demos.done).float()
        beside = self._read_beside(Actions(continuous, discrete), done)
        return None if beside is None else beside.to(self.device)

    def _expert_sample(self, count: int) -> Sample:
        """So many steps of the expert, sampled with replacement."""
        length = len(self._expert_obs[0])
        rows = torch.randint(length, (count,), generator=self.random, device="cpu").to(self.device)
        acted = None if self._expert_acted is None else self._expert_acted.index_select(0, rows)
        return Sample([column.index_select(0, rows) for column in self._expert_obs], acted)

    def _mixed_shapes(self, obs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        """The shapes, without the batch, of the numbers that mix samples with these observations."""
        beside = [] if self._expert_acted is None else [self._expert_acted]
        return [tuple(column.shape[1:]) for column in (*obs, *beside)]

    def _random_draws(self, obs: Sequence[Tensor]) -> RandomDraws:
        """The random numbers of the loss of a sample with these observations."""
        rows, shapes = len(obs[0]), self._mixed_shapes(obs)
        mix = [torch.rand((rows, *shape), generator=self.random).to(self.device) for shape in shapes]
        if not self.use_vail:
            return RandomDraws(mix, None)
        noise = torch.randn((3, rows, LATENT_SIZE), generator=self.random).to(self.device)
        return RandomDraws(mix, (noise[0], noise[1], noise[2]))

    # Saving -------------------------------------------------------------------------------------------

    def initialize_from(self, state: Mapping[str, Any]) -> list[str]:
        """Take over another run's weights that fit; the statistics stay those of the demonstrations."""
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
        """Restore the demonstrations' statistics after this context, in which they may be overwritten."""
        normalizers = self.discriminator.encoder.normalizers
        kept = None if normalizers is None else copy.deepcopy(normalizers.state_dict())
        yield
        if normalizers is not None and kept is not None:
            normalizers.load_state_dict(kept)
