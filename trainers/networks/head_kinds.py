"""Which head stands on an actor's body; said in checkpoints, so that the network can be built again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from mlagents_envs.base_env import ActionSpec

from .greedy_heads import DeterministicHead, QHead
from .heads import ActionHead

Head = ActionHead | DeterministicHead | QHead


@dataclass(frozen=True)
class HeadKind:
    """By default a distribution that is sampled, as of the on-policy trainers."""

    squashed: bool = False
    """Continuous actions go through tanh, as SAC's."""
    sigma_of_state: bool = False
    """The deviations of continuous actions depend on the state, as SAC's."""
    deterministic: bool = False
    """Continuous actions alone, and no distribution of them, as DDPG's and TD3's."""
    values: int = 0
    """Of so many reward signals, for every discrete action, as DQN's; 0: there are none."""
    dueling: bool = False
    """Such values are put together of the state's and the actions' own."""

    def build(self, input_size: int, spec: ActionSpec, generator: torch.Generator | None = None) -> Head:
        """The head with fresh weights, on encodings [B, input_size]."""
        if self.values:
            return QHead(input_size, spec, self.values, generator, dueling=self.dueling)
        if self.deterministic:
            return DeterministicHead(input_size, spec, generator)
        return ActionHead(
            input_size, spec, generator, squashed=self.squashed, sigma_of_state=self.sigma_of_state
        )
