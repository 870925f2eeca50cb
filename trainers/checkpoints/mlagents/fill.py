"""Copies of our networks, filled with the tensors of an ML-Agents checkpoint."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...networks.actor import Actor
from ...networks.actor_critic import ActorCritic
from ...networks.critics import Temperatures, TwinQ, ValueNetwork
from ...networks.modules.heads import ActionHead
from ...networks.team_critic import TeamCritic
from ...utils.errors import CheckpointError
from .layers import description, differences, weights_of
from .names import (
    STEPS,
    TWIN_NAMES,
    Named,
    critic_tensors,
    normalizer_tensors,
    policy_tensors,
    state_value_tensors,
    team_critic_tensors,
    twin_tensors,
)

POLICY, CRITIC = "Policy", "Optimizer:critic"
TWINS, STATE_VALUE, TARGET = (f"Optimizer:{name}_network" for name in ("q", "value", "target"))
"""SAC's critics."""
COEFFICIENTS = "coefficients"
"""SAC's. ML-Agents checkpoints do not contain them, but the state of their optimizer."""
HEADS = "value_heads."


class NetworkViews:
    """Copies of networks whose tensors are filled by ML-Agents' names."""

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        """`networks`: by their entries in our checkpoints, the policy first.

        Raises:
            CheckpointError: ML-Agents has no trainer for this kind of policy.
        """
        self.networks = {entry: copy.deepcopy(network).cpu() for entry, network in networks.items()}
        policy, *critics = self.networks.values()
        assert isinstance(policy, (Actor, ActorCritic))
        if not isinstance(policy.actions, ActionHead):
            raise CheckpointError(
                "it is ML-Agents', which has no trainer of this kind: its weights begin runs with "
                "trainer_type ppo, poca or sac"
            )
        self.policy = policy_tensors(policy)
        self.seen = normalizer_tensors(policy.encoder)
        self.critics: dict[str, Named] = {}
        """By ML-Agents' entries; none where a critic shares the policy's body."""
        self.coefficients: Named = {}
        self.trainer = "ppo"
        for critic in critics:
            self._add(critic)
        if isinstance(policy, ActorCritic) and not policy.shared_critic:
            self.critics[CRITIC] = critic_tensors(policy)

    def _add(self, network: nn.Module) -> None:
        if isinstance(network, TeamCritic):
            self.critics[CRITIC], self.trainer = team_critic_tensors(network), "poca"
        elif isinstance(network, TwinQ):
            self.critics[TWINS], self.trainer = twin_tensors(network), "sac"
        elif isinstance(network, ValueNetwork):
            self.critics[STATE_VALUE] = state_value_tensors(network)
        else:
            assert isinstance(network, Temperatures), f"ML-Agents has no {type(network).__name__}"
            # In the order of ML-Agents' optimizer.
            self.coefficients = {"discrete": network.log_discrete, "continuous": network.log_continuous[None]}

    def take_policy(self, theirs: Named) -> None:
        """Fill the whole policy, or raise a CheckpointError."""
        unfit = differences(self.policy, theirs)
        if unfit:
            raise CheckpointError(
                "it is ML-Agents', and its policy is another network than the settings and the environment "
                f"ask for. {description(theirs)}. What differs: {'; '.join(unfit)}"
            )
        counts = sorted({int(theirs[name]) for name in self.seen if name.endswith(STEPS)})
        if len(counts) > 1:
            raise CheckpointError(
                f"it is ML-Agents', and its normalizers have seen {' and '.join(map(str, counts))} steps; "
                "expected one number for all observations"
            )
        fill(self.policy, theirs)

    def take_critics(self, state: Mapping[str, Any], trainer: str) -> list[str]:
        """Fill the critics' bodies and heads that fit; returns what was not transferred, with the reasons."""
        if self.critics and trainer not in (self.trainer, ""):
            return [f"critic (in the file it is that of trainer_type {trainer}, here of {self.trainer})"]
        skipped = []
        for entry, views in self.critics.items():
            skipped += self._take(entry, views, weights_of(entry_of(state, entry)))
        return skipped

    def _take(self, entry: str, views: Named, theirs: Named) -> list[str]:
        name = entry.removeprefix("Optimizer:")
        prefixes = TWIN_NAMES if entry == TWINS else ("",)
        seen = {f"{prefix}{key}": view for prefix in prefixes for key, view in self.seen.items()}
        body, heads = _parted(views)
        their_body, their_heads = _parted(theirs)
        unfit = differences(body | seen, their_body)
        if unfit:
            return [f"{name} ({'; '.join(unfit)})"]
        fill(body | {key: view for key, view in heads.items() if key in theirs}, theirs)
        skipped = [f"{name} ({clause})" for clause in differences(heads, their_heads)]
        if entry != CRITIC:  # ML-Agents copies the policy's normalizer to SAC's critics at every update
            return skipped
        return skipped + [
            f"{name}'s normalizer ({key} is not the policy's, which is taken for both)"
            for key, view in seen.items()
            if not torch.allclose(view.double(), theirs[key].double(), rtol=1e-4, atol=1e-5)
        ]

    def optimized(self, entry: str) -> Named:
        """The tensors of an entry, by the names that `optimizer_state` uses."""
        if entry == POLICY:
            return self.policy
        return under(entry, self.coefficients if entry == COEFFICIENTS else self.critics.get(entry, {}))


def entry_of(state: Mapping[str, Any], entry: str) -> Named:
    """A module's state dict; empty if there is none."""
    found = state.get(entry)
    return dict(found) if isinstance(found, Mapping) else {}


def under(entry: str, tensors: Named) -> Named:
    """The tensors with the entry prefixed to their names, which makes these distinct."""
    return {f"{entry}.{name}": tensor for name, tensor in tensors.items()}


@torch.no_grad()
def fill(views: Named, theirs: Mapping[str, Tensor]) -> None:
    """Copy the checkpoint's tensors into the views.

    Raises:
        CheckpointError: some numbers are not finite.
    """
    for name, view in views.items():
        if not bool(torch.isfinite(theirs[name]).all()):
            raise CheckpointError(f"it is ML-Agents', and its tensor {name} holds NaN or infinite numbers")
        view.copy_(theirs[name])


def _parted(tensors: Mapping[str, Tensor]) -> tuple[Named, Named]:
    """A critic's body and its heads."""
    heads = {name: tensor for name, tensor in tensors.items() if HEADS in name}
    return {name: tensor for name, tensor in tensors.items() if name not in heads}, heads
