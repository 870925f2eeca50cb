"""A checkpoint of ML-Agents as one of ours, for a run that begins with its weights.

Such a checkpoint holds modules by name, each a state dict: `Policy`, `global_step`, `Optimizer:critic` and
the optimiser's Adam. It is read like ours, with nothing executed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import CheckpointError
from ..networks.actor import Actor
from ..networks.actor_critic import ActorCritic
from ..networks.team_critic import TeamCritic
from .layers import description, differences, weights_of
from .moments import Moments, moments
from .names import (
    STEPS,
    Named,
    critic_tensors,
    normalizer_tensors,
    policy_tensors,
    team_critic_tensors,
)

STEP = ("global_step", "_GlobalSteps__global_step")
POLICY, CRITIC = "Policy", "Optimizer:critic"
ADAMS = {"ppo": "Optimizer:value_optimizer", "poca": "Optimizer:adam"}
"""By trainer_type: where the optimiser of policy and critic is."""
HEADS = "value_heads."


def is_mlagents(state: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is ML-Agents'."""
    steps = state.get(STEP[0])
    return isinstance(steps, Mapping) and STEP[1] in steps


def step_of(state: Mapping[str, Any]) -> int:
    """For how many steps ML-Agents had trained."""
    return int(state[STEP[0]][STEP[1]])


def trainer_of(state: Mapping[str, Any]) -> str:
    """The trainer_type that wrote a checkpoint of ML-Agents; "" of a plug-in's."""
    if "Optimizer:q_network" in state:
        return "sac"
    return next((trainer for trainer, entry in ADAMS.items() if entry in state), "")


def as_ours(networks: Mapping[str, nn.Module], state: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """ML-Agents' checkpoint as the state that these networks and their optimiser take.

    Args:
        networks: by their entries in our checkpoints, the policy first, in the optimiser's order.
        state: ML-Agents' checkpoint.

    Returns:
        Our state: the networks, and `Optimizer` if all of the checkpoint fits. And what was not taken over,
        with the reason, of critic or optimiser; that part is as `networks` has it.

    Raises:
        CheckpointError: the policy is another network than ours (told layer by layer) or SAC's, or holds
            numbers that are not finite.
    """
    trainer = trainer_of(state)
    if trainer == "sac":
        raise CheckpointError(
            "it is of ML-Agents' trainer sac, whose networks are others than those of ppo and poca. Begin "
            "with random weights, or with a checkpoint of ML-Agents' ppo or poca."
        )
    filled = _Filled(networks)
    filled.take_policy(weights_of(_entry(state, POLICY)))
    told = filled.take_critic(weights_of(_entry(state, CRITIC)), trainer)
    ours: dict[str, Any] = {entry: network.state_dict() for entry, network in filled.networks.items()}
    if not told:
        found = _moments(state, trainer, shared=not filled.critic)
        if isinstance(found, str):
            told = [f"Optimizer ({found})"]
        else:
            ours["Optimizer"] = _flat_state(networks, found)
    return ours, told


class _Filled:
    """Copies of networks, whose tensors are filled under ML-Agents' names."""

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        self.networks = {entry: copy.deepcopy(network).cpu() for entry, network in networks.items()}
        policy, *critics = self.networks.values()
        assert isinstance(policy, (Actor, ActorCritic))
        self.policy = policy_tensors(policy)
        self.seen = normalizer_tensors(policy.encoder)
        self.critic: Named = {}
        """Empty where it shares the policy's body."""
        self.trainer = "ppo"
        for critic in critics:
            assert isinstance(critic, TeamCritic)
            self.critic, self.trainer = team_critic_tensors(critic), "poca"
        if isinstance(policy, ActorCritic) and not policy.shared_critic:
            self.critic = critic_tensors(policy)

    def take_policy(self, theirs: Named) -> None:
        """All of it, or CheckpointError."""
        unfit = differences(self.policy, theirs)
        if unfit:
            raise CheckpointError(
                "it is ML-Agents', and its policy is another network than the settings and the environment "
                f"ask for. {description(theirs)}. What differs: {'; '.join(unfit)}"
            )
        counts = sorted({int(theirs[name]) for name in self.seen if name.endswith(STEPS)})
        if len(counts) > 1:
            raise CheckpointError(
                f"it is ML-Agents', and its normalisers have seen {' and '.join(map(str, counts))} steps; "
                "expected one number for all observations"
            )
        _fill(self.policy, theirs)

    def take_critic(self, theirs: Named, trainer: str) -> list[str]:
        """The body if it fits, and each signal's head; what was not taken over, with the reason."""
        if not self.critic:
            return []
        if trainer not in (self.trainer, ""):
            return [f"critic (in the file it is that of trainer_type {trainer}, here of {self.trainer})"]
        body, heads = _parted(self.critic)
        their_body, their_heads = _parted(theirs)
        unfit = differences(body | self.seen, their_body)
        if unfit:
            return [f"critic ({'; '.join(unfit)})"]
        _fill(body | {name: view for name, view in heads.items() if name in theirs}, theirs)
        told = [f"critic ({clause})" for clause in differences(heads, their_heads)]
        return told + [
            f"critic's normaliser ({name} is not the policy's, which is taken for both)"
            for name, view in self.seen.items()
            if not torch.allclose(view.double(), theirs[name].double(), rtol=1e-4, atol=1e-5)
        ]


def _entry(state: Mapping[str, Any], entry: str) -> Named:
    found = state.get(entry)
    return dict(found) if isinstance(found, Mapping) else {}


def _parted(tensors: Mapping[str, Tensor]) -> tuple[Named, Named]:
    """A critic's body and its heads."""
    heads = {name: tensor for name, tensor in tensors.items() if name.startswith(HEADS)}
    return {name: tensor for name, tensor in tensors.items() if name not in heads}, heads


@torch.no_grad()
def _fill(views: Named, theirs: Mapping[str, Tensor]) -> None:
    for name, view in views.items():
        if not bool(torch.isfinite(theirs[name]).all()):
            raise CheckpointError(f"it is ML-Agents', and its tensor {name} holds NaN or infinite numbers")
        view.copy_(theirs[name])


def _moments(state: Mapping[str, Any], trainer: str, *, shared: bool) -> Moments | str:
    """Adam's state, the critic's tensors under names with its entry before them."""
    adam = state.get(ADAMS.get(trainer, ""))
    if not isinstance(adam, Mapping):
        return "not in the file"
    critic = {f"{CRITIC}.{name}": tensor for name, tensor in _entry(state, CRITIC).items()}
    return moments(adam, [_entry(state, POLICY)] + [critic] * (not shared))


def _flat_state(networks: Mapping[str, nn.Module], found: Moments) -> dict[str, Any]:
    """The same as the state of a `FlatAdam` over the networks' parameters."""
    return {
        "steps": found.steps,
        "mean": _flat(networks, found.mean),
        "square": _flat(networks, found.square),
    }


def _flat(networks: Mapping[str, nn.Module], numbers: Named) -> Tensor:
    """One number for each of the networks' parameters; zero where ML-Agents had none."""
    holder = _Filled(networks)
    views = holder.policy | {f"{CRITIC}.{name}": view for name, view in holder.critic.items()}
    parameters = [p for network in holder.networks.values() for p in network.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.data.zero_()
    _fill({name: view for name, view in views.items() if name in numbers}, numbers)
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
