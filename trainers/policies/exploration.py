"""How agents of a greedy policy try something else while they learn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import ActionSpec, DecisionSteps
from numpy.typing import NDArray

from ...envs.base import BehaviorId, EnvironmentStep
from ..networks.modules.exploration import ExplorationSchedule
from ..settings.models.algorithms import DeterministicPolicySettings, NoiseType
from .agent_states import ActingMemories, Asking

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

DRIFT = 0.15
"""Share of an Ornstein-Uhlenbeck noise that is gone after a step (theta; Lillicrap et al. 2015)."""


class EpsilonGreedy:
    """With probability epsilon an action by chance, evenly among those that are not forbidden.

    Every agent tosses its own coin; with several branches one for all of them.
    """

    statistic = "Policy/Exploration Epsilon"

    def __init__(self, spec: ActionSpec, schedule: ExplorationSchedule) -> None:
        self.sizes = tuple(int(size) for size in spec.discrete_branches)
        self.schedule = schedule

    def __call__(
        self, greedy: Ints, forbidden: NDArray[np.bool_] | None, step: int, generator: torch.Generator
    ) -> Ints:
        """What n agents do.

        Args:
            greedy: [n, branches], what they would do.
            forbidden: [n, sum of branch sizes], or None.
            step: of the trainer.
            generator: of coins and chances. It gives as many numbers whatever epsilon is.
        """
        draws = torch.rand((len(greedy), 1 + len(self.sizes)), generator=generator).numpy()
        tries = draws[:, 0] < self.schedule(step)
        if not tries.any():
            return greedy
        chance = [
            _by_chance(draws[:, 1 + k], size, mask)
            for k, (size, mask) in enumerate(zip(self.sizes, _of_branches(forbidden, self.sizes)))
        ]
        return np.where(tries[:, None], np.stack(chance, axis=1), greedy)

    def end(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Coins remember nothing."""


class ActionNoise:
    """Noise on continuous actions, each agent's and each component's its own.

    Its deviation follows the schedule. Gaussian noise is drawn anew at every step. Ornstein-Uhlenbeck noise
    (Uhlenbeck and Ornstein 1930) belongs to an agent: x' = (1 - theta) x + sqrt(1 - (1 - theta)^2) normal, of
    deviation 1 in the long run, 0 when the agent's episode begins.
    """

    statistic = "Policy/Exploration Noise"

    def __init__(self, spec: ActionSpec, kind: NoiseType, schedule: ExplorationSchedule) -> None:
        self.size = int(spec.continuous_size)
        self.schedule = schedule
        drifts = kind is NoiseType.ORNSTEIN_UHLENBECK
        self.states = ActingMemories(self.size) if drifts else None

    def __call__(
        self,
        asking: Sequence[Asking],
        batches: Sequence[DecisionSteps],
        step: int,
        generator: torch.Generator,
    ) -> Floats:
        """[n, A]: what is added to the actions of the agents of all batches, one batch behind another.

        Args:
            asking: whose agents each batch holds, by which they are known again.
            batches: the agents.
            step: of the trainer.
            generator: of the noise. It gives as many numbers whatever the deviation is.
        """
        count = sum(len(batch) for batch in batches)
        drawn: Floats = torch.randn((count, self.size), generator=generator).numpy()
        if self.states is not None:
            kept = 1.0 - DRIFT
            drawn *= np.float32(math.sqrt(1.0 - kept * kept))
            drawn += np.float32(kept) * self.states.read(asking, batches)
            self.states.replace(asking, batches, drawn)
        return drawn * np.float32(self.schedule(step))

    def end(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """Forget the agents whose episodes end with this message, or are void by it."""
        if self.states is not None:
            self.states.end(step, behavior_id)


Explorer = EpsilonGreedy | ActionNoise


def action_noise(spec: ActionSpec, hyper: DeterministicPolicySettings) -> ActionNoise:
    """As the settings have it."""
    schedule = ExplorationSchedule(hyper.noise_start, hyper.noise_end, hyper.noise_decay_steps)
    return ActionNoise(spec, hyper.noise_type, schedule)


def _of_branches(forbidden: NDArray[np.bool_] | None, sizes: Sequence[int]) -> Sequence[Any]:
    """[n, size] of each branch, or None."""
    if forbidden is None:
        return [None] * len(sizes)
    return np.split(forbidden, np.cumsum(sizes)[:-1], axis=1)


def _by_chance(draws: Floats, size: int, forbidden: NDArray[np.bool_] | None) -> Ints:
    """[n] actions of one branch by numbers [n] from 0 to below 1; any where all are forbidden."""
    if forbidden is None:
        return np.minimum((draws * size).astype(np.int64), size - 1)
    available = ~forbidden | forbidden.all(axis=1, keepdims=True)
    counts = available.sum(axis=1)
    rank = np.minimum((draws * counts).astype(np.int64), counts - 1)
    return np.asarray((available.cumsum(axis=1) > rank[:, None]).argmax(axis=1))
