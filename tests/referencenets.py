"""Behaviors, settings and weights of the reference data, as ours.

The weights are named as ML-Agents names them;
lanista.trainers.checkpoints.mlagents.names shows ours under these names.
"""

from typing import Any

import torch
from goldendata import array
from lanista.trainers.checkpoints.mlagents.names import (
    action_tensors,
    body_tensors,
    encoder_tensors,
    memory_tensors,
    team_critic_tensors,
)
from lanista.trainers.networks.actor import ActingNetwork
from lanista.trainers.networks.modules.normalizer import Normalizer
from lanista.trainers.networks.observations import ObservationEncoder
from lanista.trainers.networks.team_critic import TeamCritic
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from torch import Tensor


def observation_spec(data: dict[str, Any]) -> ObservationSpec:
    kind = ObservationType[data.get("observation_type", "DEFAULT")]
    properties = tuple(DimensionProperty(p) for p in data["dimension_property"])
    return ObservationSpec(tuple(data["shape"]), properties, kind, data.get("name", "x"))


def behavior_spec(data: dict[str, Any]) -> BehaviorSpec:
    actions = data["action_spec"]
    return BehaviorSpec(
        [observation_spec(o) for o in data["observation_specs"]],
        ActionSpec(actions["continuous_size"], tuple(actions["discrete_branches"])),
    )


def network_settings(data: dict[str, Any]) -> NetworkSettings:
    return NetworkSettings.model_validate(data)


def team_critic_parameters(critic: TeamCritic) -> dict[str, Tensor]:
    named = team_critic_tensors(critic)
    return {name: view for name, view in named.items() if not name.endswith("_current_max_agents")}


def load_parameters(named: dict[str, Tensor], weights: dict[str, Any]) -> None:
    assert named.keys() == weights.keys()
    with torch.no_grad():
        for name, view in named.items():
            view.copy_(torch.from_numpy(array(weights[name])))


def load_normalizers(encoder: ObservationEncoder, states: list[dict[str, Any]]) -> None:
    """The states of all vectors; those that follow each other have one normalizer here."""
    left = iter(states)
    for run, normalizer in zip(encoder.runs, encoder.normalizers or (), strict=True):
        load_normalizer(normalizer, [next(left) for _ in run.indices])
    assert next(left, None) is None


def load_normalizer(normalizer: Normalizer, states: list[dict[str, Any]]) -> None:
    """Several observations' states, side by side."""
    with torch.no_grad():
        normalizer.steps.fill_(states[0]["steps"])
        normalizer.mean.copy_(torch.cat([torch.from_numpy(array(s["mean"])) for s in states]))
        normalizer.squares.copy_(torch.cat([torch.from_numpy(array(s["variance"])) for s in states]))


def load_actor(network: ActingNetwork, inputs: dict[str, Any]) -> None:
    """The weights and normalizers of a reference actor."""
    named = encoder_tensors(network.encoder, "network_body.")
    named |= body_tensors(network.body, 0, "network_body.") | action_tensors(network.actions)
    if network.memory_size:
        named |= memory_tensors(network.memory(0), "network_body.lstm.")
    load_parameters(named, inputs["weights"])
    if inputs.get("normalizers"):
        load_normalizers(network.encoder, inputs["normalizers"])
