"""What an episode's end is worth where rewards go on after it, in an absorbing state.

Discriminator-Actor-Critic (Kostrikov et al. 2019, arXiv 1809.02925), its part on absorbing states: a signal
that learns its rewards must also learn that of the absorbing state s_a, in which an agent stays for ever
after its episode has ended. Otherwise each end is worth 0, whatever the expert does: rewards above 0 then pay
for staying, rewards below 0 for ending.

The return of the last step T, of which all rewards but the first are the same r_a, is

    R_T = r(s_T, a_T) + sum over t from T + 1 of gamma^(t - T) r_a
        = r(s_T, a_T) + r_a gamma / (1 - gamma)

since gamma + gamma^2 + ... = gamma / (1 - gamma) for gamma < 1. So `gamma / (1 - gamma) r_a` is added to the
last step's reward, and the value after it stays 0: generalized advantages, TD(lambda) returns and the targets
of action values, r + gamma (1 - ended) Q(s'), are then those of a process that goes on in s_a. Trainers with
a replay compute the rewards of each batch anew, with the r_a of that moment: they store no absorbing steps
either. SAC's entropy bonus ends with the episode, for nothing is chosen in s_a. An episode that is
interrupted, as by a limit of steps, has not ended: the value after it is estimated.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ...agent_processor.trajectory import Rollout
from ..settings.models.rewards import RewardSignalSettings
from .base import NetworkSignal, RewardProvider, Rewards, has_absorbing_states


class AbsorbingStates:
    """The signals of a behavior whose rewards go on after an episode's end."""

    def __init__(
        self, signals: Mapping[str, NetworkSignal], settings: Mapping[str, RewardSignalSettings]
    ) -> None:
        """Take the signals by name; `settings` have gamma, below 1, and strength of each."""
        self.signals = signals
        self._factors = {
            name: settings[name].strength * settings[name].gamma / (1.0 - settings[name].gamma)
            for name in signals
        }

    @classmethod
    def of(
        cls, providers: Mapping[str, RewardProvider], settings: Mapping[str, RewardSignalSettings]
    ) -> AbsorbingStates:
        """Those of a behavior's signals that have absorbing states."""
        chosen = {
            name: signal
            for name, signal in providers.items()
            if isinstance(signal, NetworkSignal) and has_absorbing_states(signal)
        }
        return cls(chosen, settings)

    def __bool__(self) -> bool:
        return bool(self.signals)

    def worth(self, name: str) -> Tensor:
        """What ending an episode adds to the reward of its last step, a scalar, the strength included."""
        return self._factors[name] * self.signals[name].absorbing_reward()

    def at_ends(self, rollout: Rollout, terminated: NDArray[np.bool_]) -> dict[str, NDArray[np.float32]]:
        """[steps] what is added to the rewards of each of the signals, where `terminated` [J] says so."""
        ends = rollout.at_ends(terminated.astype(np.float32))
        return {name: ends * np.float32(self.worth(name).item()) for name in self.signals}


def with_ends(rewards: Rewards, after: Rewards) -> Rewards:
    """The rewards, and what `AbsorbingStates.at_ends` adds to some of them."""
    return {name: column + after[name] if name in after else column for name, column in rewards.items()}
