"""How agents of a greedy policy explore while they learn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import ActionSpec, DecisionSteps
from numpy.typing import NDArray

from ...envs.base import BehaviorId, EnvironmentStep
from ..networks.modules.distributions import ExplorationSchedule
from ..settings.models.algorithms import DeterministicPolicySettings, NoiseType
from .agent_states import AgentStates, BatchSource

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


class EpsilonGreedy:
    """Takes, with probability epsilon, a random action, uniform among those that are not forbidden.

    Each agent explores or not by itself, in all its branches at once.
    """

    statistic = "Policy/Exploration Epsilon"

    def __init__(self, spec: ActionSpec, schedule: ExplorationSchedule) -> None:
        self.sizes = tuple(int(size) for size in spec.discrete_branches)
        self.schedule = schedule

    def __call__(
        self, greedy: Ints, forbidden: NDArray[np.bool_] | None, step: int, generator: torch.Generator
    ) -> Ints:
        """The actions of n agents.

        Args:
            greedy: [n, branches], what they would do without exploration.
            forbidden: [n, sum of branch sizes], or None.
            step: of the trainer.
            generator: of all random numbers, whose count does not depend on epsilon.
        """
        uniform = torch.rand((len(greedy), 1 + len(self.sizes)), generator=generator).numpy()
        explores = uniform[:, 0] < self.schedule(step)
        if not explores.any():
            return greedy
        random_actions = _random_branches(uniform[:, 1:], self.sizes, forbidden)
        return np.where(explores[:, None], random_actions, greedy)

    def end_episodes(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Do nothing: nothing is kept of agents."""


class ActionNoise:
    """Noise on continuous actions, independent for each agent and each component.

    Its standard deviation follows the schedule. Gaussian noise is sampled at each step. Ornstein-Uhlenbeck
    noise (Uhlenbeck and Ornstein 1930) is a state of each agent: x' = (1 - theta) x + sqrt(1 - (1 - theta)^2)
    normal, with a stationary standard deviation of 1, starting each episode at 0. With a step of dt seconds
    it is Stable-Baselines3's: x' = (1 - theta dt) x + sqrt(dt) normal, and the schedule's deviation is sigma.
    """

    statistic = "Policy/Exploration Noise"

    def __init__(
        self,
        spec: ActionSpec,
        kind: NoiseType,
        schedule: ExplorationSchedule,
        theta: float = 0.15,
        dt: float | None = None,
    ) -> None:
        self.size = int(spec.continuous_size)
        self.kept = 1.0 - theta * (1.0 if dt is None else dt)
        self.added = math.sqrt(1.0 - self.kept * self.kept if dt is None else dt)
        self.schedule = schedule
        self.states = AgentStates(self.size) if kind is NoiseType.ORNSTEIN_UHLENBECK else None

    def __call__(
        self,
        sources: Sequence[BatchSource],
        batches: Sequence[DecisionSteps],
        step: int,
        generator: torch.Generator,
    ) -> Floats:
        """[n, A]: what is added to the actions of the agents of all batches, one batch after another.

        Args:
            sources: of each batch, by which its agents are recognized.
            batches: the agents.
            step: of the trainer.
            generator: of the noise; the count of its numbers does not depend on the deviation.
        """
        count = sum(len(batch) for batch in batches)
        noise: Floats = torch.randn((count, self.size), generator=generator).numpy()
        if self.states is not None:
            noise *= np.float32(self.added)
            noise += np.float32(self.kept) * self.states.read(sources, batches)
            self.states.store(sources, batches, noise)
        return noise * np.float32(self.schedule(step))

    def end_episodes(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Drop the states of agents whose episodes end with this message, or are void because of it."""
        if self.states is not None:
            self.states.end_episodes(step, behavior_id)


Explorer = EpsilonGreedy | ActionNoise


def action_noise(spec: ActionSpec, hyper: DeterministicPolicySettings) -> ActionNoise:
    """The noise that the settings describe."""
    schedule = ExplorationSchedule(hyper.noise_start, hyper.noise_end, hyper.noise_decay_steps)
    return ActionNoise(spec, hyper.noise_type, schedule, hyper.noise_theta, hyper.noise_dt)


class UniformActions(NamedTuple):
    """Random actions of n agents, uniform over what engines take."""

    continuous: Floats
    """The continuous actions [n, A], from -1 to 1."""
    discrete: Ints
    """The discrete actions [n, K], among those that are not forbidden."""
    log_probs: Floats
    """The log-probabilities [n, A + K]."""
    entropy: Floats
    """The entropies [n], the mean over components plus the sum over branches, as of other policies."""


def uniform_actions(
    spec: ActionSpec, count: int, forbidden: NDArray[np.bool_] | None, generator: torch.Generator
) -> UniformActions:
    """The actions of `count` agents, independent of each other in all components and branches.

    Args:
        spec: of the actions.
        count: n.
        forbidden: [n, sum of branch sizes], or None.
        generator: of n (A + K) numbers.
    """
    size = int(spec.continuous_size)
    sizes = tuple(int(branch) for branch in spec.discrete_branches)
    uniform: Floats = torch.rand((count, size + len(sizes)), generator=generator).numpy()
    log_probs = np.full(uniform.shape, -math.log(2.0), np.float32)
    for k, (branch, mask) in enumerate(zip(sizes, _masks(sizes, forbidden)), start=size):
        log_probs[:, k] = -np.log(branch if mask is None else _available(mask).sum(axis=1))
    entropy = -log_probs[:, size:].sum(axis=1)
    if size:
        entropy += np.float32(math.log(2.0))
    discrete = _random_branches(uniform[:, size:], sizes, forbidden)
    return UniformActions(2.0 * uniform[:, :size] - 1.0, discrete, log_probs, entropy)


def _random_branches(uniform: Floats, sizes: Sequence[int], forbidden: NDArray[np.bool_] | None) -> Ints:
    """[n, K] actions of K branches from uniform numbers [n, K] in [0, 1)."""
    actions = np.zeros(uniform.shape, np.int64)
    for k, (size, mask) in enumerate(zip(sizes, _masks(sizes, forbidden))):
        actions[:, k] = _random_action(uniform[:, k], size, mask)
    return actions


def _masks(
    sizes: Sequence[int], forbidden: NDArray[np.bool_] | None
) -> Sequence[NDArray[np.bool_]] | Sequence[None]:
    """The mask [n, size] of each branch, or None."""
    return [None] * len(sizes) if forbidden is None else np.split(forbidden, np.cumsum(sizes)[:-1], axis=1)


def _random_action(uniform: Floats, size: int, forbidden: NDArray[np.bool_] | None) -> Ints:
    """[n] actions of one branch from uniform numbers [n] in [0, 1); any action where all are forbidden."""
    if forbidden is None:
        return np.minimum((uniform * size).astype(np.int64), size - 1)
    available = _available(forbidden)
    counts = available.sum(axis=1)
    rank = np.minimum((uniform * counts).astype(np.int64), counts - 1)
    return np.asarray((available.cumsum(axis=1) > rank[:, None]).argmax(axis=1))


def _available(forbidden: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[n, size] the actions of a branch that may be taken: all where all are forbidden."""
    return ~forbidden | forbidden.all(axis=1, keepdims=True)
