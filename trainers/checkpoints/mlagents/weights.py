"""Converts a checkpoint of ML-Agents for a run that starts with its weights.

Such a checkpoint holds modules by name, each a state dict: `Policy`, `global_step`, the critics
(`Optimizer:critic`; of SAC three networks) and the optimizers' Adams. It is read like ours, with nothing
executed.
"""

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
from .names import (
    STEPS,
    TWIN_NAMES,
    AdamState,
    Named,
    adam_state,
    critic_tensors,
    description,
    differences,
    merge_states,
    normalizer_tensors,
    policy_tensors,
    state_value_tensors,
    team_critic_tensors,
    twin_tensors,
    weights_of,
)

POLICY, CRITIC = "Policy", "Optimizer:critic"
TWINS, STATE_VALUE, TARGET = (f"Optimizer:{name}_network" for name in ("q", "value", "target"))
"""The entries of SAC's critics."""
COEFFICIENTS = "coefficients"
"""The entry of SAC's coefficients. ML-Agents checkpoints do not contain them, but the state of their
optimizer."""
HEADS = "value_heads."


class NetworkViews:
    """Copies of networks whose tensors are filled by ML-Agents' names."""

    def __init__(self, networks: Mapping[str, nn.Module]) -> None:
        """Copy the networks; `networks`: by their entries in our checkpoints, the policy first.

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
        """The critics' tensors by ML-Agents' entries; none where a critic shares the policy's body."""
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
        """Fill the critics' bodies and heads that fit; return what was not transferred, with the reasons."""
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
"""The optimizers of each trainer_type, and the entries whose tensors each of them moves."""


def is_mlagents(state: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is ML-Agents'."""
    steps = state.get(STEP[0])
    return isinstance(steps, Mapping) and STEP[1] in steps


def step_of(state: Mapping[str, Any]) -> int:
    """The number of steps for which ML-Agents had trained."""
    return int(state[STEP[0]][STEP[1]])


def trainer_of(state: Mapping[str, Any]) -> str:
    """The trainer_type that wrote a checkpoint of ML-Agents; "" for a plug-in's."""
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
    """Load ML-Agents' target network of SAC's state value; return whether it fits.

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
    """The Adam state `found`, as the state of a `FlatAdam` over the networks' parameters."""
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
