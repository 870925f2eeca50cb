"""A checkpoint of ML-Agents as one of ours, for a run that begins with its weights.

Such a checkpoint holds modules by name, each a state dict: `Policy`, `global_step`, the critics
(`Optimizer:critic`; of SAC three networks) and the optimisers' Adams. It is read like ours, with nothing
executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ...networks.sac import ValueNetwork
from ...utils.errors import CheckpointError
from .fill import COEFFICIENTS, CRITIC, POLICY, STATE_VALUE, TARGET, TWINS, Filled, entry_of, fill, under
from .layers import Moments, differences, joined, moments, weights_of
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
"""By trainer_type: the optimisers, and the entries whose tensors each of them moves."""


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
    """ML-Agents' checkpoint as the state that these networks and their optimiser take.

    Args:
        networks: by their entries in our checkpoints, the policy first, in the optimiser's order.
        state: ML-Agents' checkpoint.

    Returns:
        Our state: the networks, and `Optimizer` if all of the checkpoint fits. And what was not taken over,
        with the reason, of critics or optimisers; that part is as `networks` has it.

    Raises:
        CheckpointError: the policy is another network than ours (told layer by layer) or another trainer's,
            or holds numbers that are not finite.
    """
    trainer = trainer_of(state)
    filled = Filled(networks)
    if trainer == "sac" and filled.trainer != "sac":
        raise CheckpointError(
            "it is of ML-Agents' trainer sac, whose networks are others than those of ppo and poca. Train on "
            "with trainer_type: sac, or begin with random weights, or with a checkpoint of ppo or poca."
        )
    filled.take_policy(weights_of(entry_of(state, POLICY)))
    told = filled.take_critics(state, trainer)
    ours: dict[str, Any] = {entry: network.state_dict() for entry, network in filled.networks.items()}
    if not told:
        found = _moments(state, trainer, filled)
        if isinstance(found, str):
            told = [f"Optimizer ({found})"]
        else:
            ours["Optimizer"] = _flat_state(networks, found, trainer)
    return ours, told


def take_target(network: ValueNetwork, state: Mapping[str, Any]) -> bool:
    """Give SAC's slow copy of the state value the one of ML-Agents' checkpoint. Whether that fits.

    Raises:
        CheckpointError: it holds numbers that are not finite.
    """
    views, theirs = state_value_tensors(network), weights_of(entry_of(state, TARGET))
    theirs = {name: tensor for name, tensor in theirs.items() if ".normalizer." not in name}
    if differences(views, theirs):
        return False
    fill(views, theirs)
    return True


def _moments(state: Mapping[str, Any], trainer: str, filled: Filled) -> Moments | str:
    """Adam's state of all that is moved, the critics' tensors under names with their entries before them."""
    found = []
    for adam, entries in ADAMS.get(trainer, {"": ()}).items():
        if not isinstance(state.get(adam), Mapping):
            return "not in the file"
        modules = [_module(state, entry, filled) for entry in entries]
        one = moments(state[adam], modules)
        if isinstance(one, str):
            return one
        found.append(one)
    return joined(found)


def _module(state: Mapping[str, Any], entry: str, filled: Filled) -> Named:
    """The tensors that an optimiser moves of an entry, in its order; none of a critic that is shared."""
    if entry == POLICY:
        return entry_of(state, POLICY)
    if entry == COEFFICIENTS:
        return filled.moved(COEFFICIENTS)
    return under(entry, entry_of(state, entry)) if entry in filled.critics else {}


def _flat_state(networks: Mapping[str, nn.Module], found: Moments, trainer: str) -> dict[str, Any]:
    """The same as the state of a `FlatAdam` over the networks' parameters."""
    entries = [entry for entries in ADAMS[trainer].values() for entry in entries]
    return {
        "steps": found.steps,
        "mean": _flat(networks, found.mean, entries),
        "square": _flat(networks, found.square, entries),
    }


def _flat(networks: Mapping[str, nn.Module], numbers: Named, entries: list[str]) -> Tensor:
    """One number for each of the networks' parameters; zero where ML-Agents had none."""
    holder = Filled(networks)
    views = {name: view for entry in entries for name, view in holder.moved(entry).items()}
    parameters = [p for network in holder.networks.values() for p in network.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.data.zero_()
    fill({name: view for name, view in views.items() if name in numbers}, numbers)
    return torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
