"""Converts a checkpoint of ML-Agents for a run that starts with its weights.

Such a checkpoint holds modules by name, each a state dict: `Policy`, `global_step`, the critics
(`Optimizer:critic`; of SAC three networks) and the optimizers' Adams. It is read like ours, with nothing
executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...networks.critics import ValueNetwork
from ...utils.errors import CheckpointError
from .fill import (
    COEFFICIENTS,
    CRITIC,
    POLICY,
    STATE_VALUE,
    TARGET,
    TWINS,
    NetworkViews,
    entry_of,
    fill,
    under,
)
from .layers import AdamState, adam_state, differences, merge_states, weights_of
from .names import Named, state_value_tensors

STEP = ("global_step", "_GlobalSteps__global_step")
ADAMS: dict[str, dict[str, tuple[str, ...]]] = {
    "ppo": {"Optimizer:value_optimizer": (POLICY, CRITIC)},
    "poca": {"Optimizer:adam": (POLICY, CRITIC)},
    "sac": {
        "Optimizer:policy_optimizer": (POLICY,),
        "Optimizer:value_optimizer": (TWINS, STATE_VALUE),
        "Optimizer:entropy_optimizer": (COEFFICIENTS,),
    },
}
"""By trainer_type: the optimizers, and the entries whose tensors each of them moves."""


def is_mlagents(state: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is ML-Agents'."""
    steps = state.get(STEP[0])
    return isinstance(steps, Mapping) and STEP[1] in steps


def step_of(state: Mapping[str, Any]) -> int:
    """For how many steps ML-Agents had trained."""
    return int(state[STEP[0]][STEP[1]])


def trainer_of(state: Mapping[str, Any]) -> str:
    """The trainer_type that wrote a checkpoint of ML-Agents; "" of a plug-in's."""
    if TWINS in state:
        return "sac"
    return next((trainer for trainer, adams in ADAMS.items() if adams.keys() & state.keys()), "")


def as_ours(networks: Mapping[str, nn.Module], state: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """ML-Agents' checkpoint as the state that these networks and their optimizer take.

    Args:
        networks: by their entries in our checkpoints, the policy first, in the optimizer's order.
        state: ML-Agents' checkpoint.

    Returns:
        Our state: the networks, and `Optimizer` if all of the checkpoint fits. And what was not taken over,
        with the reason, of critics or optimizers; that part is as `networks` has it.

    Raises:
        CheckpointError: the policy differs from ours (the message lists the layers), is another trainer's,
            or holds numbers that are not finite.
    """
    trainer = trainer_of(state)
    views = NetworkViews(networks)
    if trainer == "sac" and views.trainer != "sac":
        raise CheckpointError(
            "it was written by ML-Agents' trainer sac, whose networks differ from those of ppo and poca. "
            "Continue with trainer_type: sac, or start with random weights or a checkpoint of ppo or poca."
        )
    views.take_policy(weights_of(entry_of(state, POLICY)))
    skipped = views.take_critics(state, trainer)
    ours: dict[str, Any] = {entry: network.state_dict() for entry, network in views.networks.items()}
    if not skipped:
        found = _adam_state(state, trainer, views)
        if isinstance(found, str):
            skipped = [f"Optimizer ({found})"]
        else:
            ours["Optimizer"] = _flat_state(networks, found, trainer)
    return ours, skipped


def take_target(network: ValueNetwork, state: Mapping[str, Any]) -> bool:
    """Load ML-Agents' target network of SAC's state value; returns whether it fits.

    Raises:
        CheckpointError: it holds numbers that are not finite.
    """
    own, theirs = state_value_tensors(network), weights_of(entry_of(state, TARGET))
    theirs = {name: tensor for name, tensor in theirs.items() if ".normalizer." not in name}
    if differences(own, theirs):
        return False
    fill(own, theirs)
    return True


def _adam_state(state: Mapping[str, Any], trainer: str, views: NetworkViews) -> AdamState | str:
    """Adam's state of all optimized tensors; those of critics are named with their entries in front."""
    found = []
    for adam, entries in ADAMS.get(trainer, {"": ()}).items():
        if not isinstance(state.get(adam), Mapping):
            return "not in the file"
        modules = [_module(state, entry, views) for entry in entries]
        one = adam_state(state[adam], modules)
        if isinstance(one, str):
            return one
        found.append(one)
    return merge_states(found)


def _module(state: Mapping[str, Any], entry: str, views: NetworkViews) -> Named:
    """The tensors of an entry that an optimizer updates, in its order; none if the critic is shared."""
    if entry == POLICY:
        return entry_of(state, POLICY)
    if entry == COEFFICIENTS:
        return views.optimized(COEFFICIENTS)
    return under(entry, entry_of(state, entry)) if entry in views.critics else {}


def _flat_state(networks: Mapping[str, nn.Module], found: AdamState, trainer: str) -> dict[str, Any]:
    """The same as the state of a `FlatAdam` over the networks' parameters."""
    entries = [entry for entries in ADAMS[trainer].values() for entry in entries]
    return {
        "steps": found.steps,
        "mean": _flat(networks, found.mean, entries),
        "square": _flat(networks, found.square, entries),
    }


def _flat(networks: Mapping[str, nn.Module], numbers: Named, entries: list[str]) -> Tensor:
    """One value per parameter of the networks; zero where ML-Agents has none."""
    holder = NetworkViews(networks)
    named = {name: view for entry in entries for name, view in holder.optimized(entry).items()}
    parameters = [p for network in holder.networks.values() for p in network.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.data.zero_()
    fill({name: view for name, view in named.items() if name in numbers}, numbers)
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
