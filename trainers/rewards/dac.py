"""Imitation without a bias for staying or ending: Discriminator-Actor-Critic's reward.

Kostrikov et al. 2019, arXiv 1809.02925. GAIL's reward -ln(1 - D) is never negative, so that an agent earns
more the longer its episode is, and avoids an end that the expert seeks. Here

- the reward is ln D - ln(1 - D), the discriminator's logit, which has either sign;
- an episode that ends goes on in an absorbing state, whose reward is learned (`absorbing.py` has what it is
  worth). The discriminator sees it once for each episode of the expert or of an agent that ended, and not for
  those that were interrupted or are not over.

An indicator among the discriminator's inputs is not 0 in the absorbing state and 0 elsewhere; what is read
beside it is zeros there. It takes the place of GAIL's flag for an episode's end. The gradient penalty holds
the slope of the logit, by all that the discriminator reads, at most at 1: it limits how much rewards differ.
`normalize: true` brings observations to a scale at which that is little. The absorbing state's reward is not
held near those of real states, for the indicator is large there: with one of 1, an end that the expert avoids
was better than real states far from the expert's, and agents sought it. The paper's penalty holds the slope
at 1, also where agents cannot be distinguished from the expert; their rewards then differ all the same, and
an end may be rewarded that the expert avoids. So it is one-sided here (Petzka et al. 2018, arXiv 1709.08894).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..buffers.demonstrations import Demonstrations
from ..networks.modules.distributions import Actions, flat_actions
from ..networks.observations import as_float
from .gail import EPSILON, GAIL, Discriminator, RandomDraws, Sample, twice_differentiable
from .transitions import Transitions

LARGEST = 16.0
"""The largest size of a reward: about ln((1 - EPSILON) / EPSILON), beyond which D is 0 or 1 in the loss."""
INDICATOR = 64.0
"""The indicator in the absorbing state: so large that its reward is free, at a slope of 1 and within a few
updates. With 16, PPO imitated CartPole's expert more slowly."""


def logit_penalty(network: Discriminator, policy: Sample, expert: Sample, draws: RandomDraws) -> Tensor:
    """E max(0, |d logit / d inputs| - 1)^2 at mixtures of what is read of agents and of the expert.

    One uniform number per pair mixes all inputs, as in Gulrajani et al. 2017 (arXiv 1704.00028).
    """
    (eps,) = draws.mix
    mixtures = [
        _mixed(eps, ours, theirs).detach().requires_grad_()
        for ours, theirs in zip(_inputs(network, policy), _inputs(network, expert))
    ]
    with twice_differentiable():
        estimate = network(mixtures[:-1], mixtures[-1], None if draws.noise is None else draws.noise[2])
    slopes = torch.autograd.grad(estimate.logit.sum(), mixtures, create_graph=True)
    squares = torch.stack([slope.square().flatten(1).sum(1) for slope in slopes]).sum(0)
    return ((squares + EPSILON).sqrt() - 1.0).clamp(min=0.0).square().mean()


def _inputs(network: Discriminator, sample: Sample) -> list[Tensor]:
    """All that the discriminator reads of a sample: prepared observations, then `acted`."""
    assert sample.acted is not None, "the indicator is there always"
    prepared = network.prepare([as_float(rows) for rows in sample.obs])
    return [*network.cleared(prepared, sample.acted), sample.acted]


def _mixed(eps: Tensor, ours: Tensor, theirs: Tensor) -> Tensor:
    """The mixtures [B, ...] by the agents' shares `eps` [B, 1]."""
    share = eps.view(-1, *[1] * (ours.dim() - 1))
    return share * ours + (1.0 - share) * theirs


class DAC(GAIL):
    """Reward = ln D - ln(1 - D), of either sign, also in the absorbing state after an episode's end."""

    absorbing_states = True
    _penalty = staticmethod(logit_penalty)

    def __init__(self, spec: Any, settings: Any, demos: Demonstrations, *args: Any, **keys: Any) -> None:
        """Build the discriminator, as `GAIL` does; the expert's ended episodes add absorbing states."""
        super().__init__(spec, settings, demos, *args, **keys)
        ended = demos.done & ~demos.interrupted
        expert = Sample(self._expert_obs, self._expert_acted)
        self._expert_obs, self._expert_acted = with_absorbing(expert, int(ended.sum()))

    @torch.no_grad()
    def rewards(self, steps: Transitions) -> Tensor:
        """[B] the rewards ln D - ln(1 - D) of the steps, without what follows an end."""
        return self._estimated(self.sample(steps), lambda estimate: estimate.logit).clamp(-LARGEST, LARGEST)

    @torch.no_grad()
    def absorbing_reward(self) -> Tensor:
        """The reward, a scalar, of each step in the absorbing state."""
        expert = Sample(self._expert_obs, self._expert_acted)
        *inputs, acted = _inputs(self.discriminator, with_absorbing(expert.rows(slice(0)), 1))
        logit: Tensor = self.discriminator(inputs, acted).logit
        return logit.clamp(-LARGEST, LARGEST).squeeze(0)

    def _learned_from(self, steps: Transitions) -> Sample:
        assert steps.terminated is not None, "collected with ends"
        return with_absorbing(self.sample(steps), int(steps.terminated.sum()))

    def _read_beside(self, actions: Actions, done: Tensor) -> Tensor:
        """[B, flat actions + 1]: the actions, if they are used, and the indicator, 0 for real steps."""
        indicator = torch.zeros_like(done).unsqueeze(1)
        if not self.use_actions:
            return indicator
        return torch.cat((flat_actions(*actions, self.spec.action_spec.discrete_branches), indicator), 1)

    def _mixed_shapes(self, obs: Sequence[Tensor]) -> list[tuple[int, ...]]:
        return [(1,)]


def with_absorbing(sample: Sample, count: int) -> Sample:
    """The sample and `count` rows of the absorbing state: zeros but for the indicator, the last column."""
    assert sample.acted is not None, "the indicator is there always"
    obs = [torch.cat((rows, rows.new_zeros((count, *rows.shape[1:])))) for rows in sample.obs]
    acted = sample.acted.new_zeros((count, sample.acted.shape[1]))
    acted[:, -1] = INDICATOR
    return Sample(obs, torch.cat((sample.acted, acted)))
