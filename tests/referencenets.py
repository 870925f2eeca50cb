"""Behaviours, settings and weights of the reference data, as ours.

The weights are named as ML-Agents names them; `reference_parameters` shows ours under these names.
"""

from typing import Any

import torch
from goldendata import array
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.attention import Dense, SelfAttention
from lanista.trainers.networks.body import Body
from lanista.trainers.networks.heads import ActionHead, ValueHead
from lanista.trainers.networks.memory import Memory
from lanista.trainers.networks.settings import NetworkSettings
from lanista.trainers.networks.team_critic import TeamCritic
from lanista.trainers.normalizer import Normalizer
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from torch import Tensor

VECTOR = (DimensionProperty.NONE,)


def vector_spec(sizes, continuous=0, branches=()) -> BehaviorSpec:
    """A behaviour with vector observations of these sizes."""
    observations = [
        ObservationSpec((size,), VECTOR, ObservationType.DEFAULT, f"vec{i}") for i, size in enumerate(sizes)
    ]
    return BehaviorSpec(observations, ActionSpec(continuous, tuple(branches)))


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


def is_supported(spec: BehaviorSpec, settings: NetworkSettings) -> bool:
    """Whether this version builds such a network: vectors, no hyper networks."""
    vectors = all(len(o.shape) == 1 for o in spec.observation_specs)
    goals = any(o.observation_type == ObservationType.GOAL_SIGNAL for o in spec.observation_specs)
    return vectors and not (goals and settings.goal_conditioning_type == "hyper")


def body_parameters(body: Body, stream: int, prefix: str) -> dict[str, Tensor]:
    named = {}
    for i, layer in enumerate(body.layers):
        named[f"{prefix}_body_endoder.seq_layers.{2 * i}.weight"] = layer.weight[stream].T
        named[f"{prefix}_body_endoder.seq_layers.{2 * i}.bias"] = layer.bias[stream, 0]
    return named


def memory_parameters(memory: Memory, prefix: str) -> dict[str, Tensor]:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"{prefix}lstm.{name}_l0": getattr(memory, name) for name in names}


def action_parameters(head: ActionHead) -> dict[str, Tensor]:
    named, start, name = {}, head.continuous_size, "action_model._continuous_distribution"
    if start:
        named[f"{name}.log_sigma"] = head.log_sigma[None]
        named[f"{name}.mu.weight"] = head.weight[:, :start].T
        named[f"{name}.mu.bias"] = head.bias[:start]
    for k, size in enumerate(head.branches.sizes):
        name = f"action_model._discrete_distribution.branches.{k}"
        named[f"{name}.weight"] = head.weight[:, start : start + size].T
        named[f"{name}.bias"] = head.bias[start : start + size]
        start += size
    return named


def value_parameters(head: ValueHead) -> dict[str, Tensor]:
    named = {}
    for i, signal in enumerate(head.signals):
        named[f"value_heads.value_heads.{signal}.weight"] = head.weight[:, i : i + 1].T
        named[f"value_heads.value_heads.{signal}.bias"] = head.bias[i : i + 1]
    return named


def dense_parameters(layer: Dense, name: str) -> dict[str, Tensor]:
    return {f"{name}.weight": layer.weight.T, f"{name}.bias": layer.bias}


def attention_parameters(attention: SelfAttention, name: str, prefix: str = "") -> dict[str, Tensor]:
    """One of the four maps: q, k, v, out."""
    maps = {"q": attention.query, "k": attention.key, "v": attention.value, "out": attention.out}
    return dense_parameters(maps[name], f"{prefix}fc_{name}")


def team_critic_parameters(critic: TeamCritic) -> dict[str, Tensor]:
    body = "network_body."
    named = dense_parameters(critic.embed_waiting, f"{body}obs_encoder.self_ent_encoder.seq_layers.0")
    named |= dense_parameters(critic.embed_acting, f"{body}obs_action_encoder.self_ent_encoder.seq_layers.0")
    for name in ("q", "k", "v", "out"):
        named |= attention_parameters(critic.attention, name, f"{body}self_attn.")
    for i, layer in enumerate(critic.body.layers):
        named[f"{body}linear_encoder.seq_layers.{2 * i}.weight"] = layer.weight[0].T
        named[f"{body}linear_encoder.seq_layers.{2 * i}.bias"] = layer.bias[0, 0]
    if critic.memories:
        named |= memory_parameters(critic.memory, f"{body}lstm.")
    return named | value_parameters(critic.values)


def load_parameters(named: dict[str, Tensor], weights: dict[str, Any]) -> None:
    assert named.keys() == weights.keys()
    with torch.no_grad():
        for name, view in named.items():
            view.copy_(torch.from_numpy(array(weights[name])))


def load_normalizer(normalizer: Normalizer, states: list[dict[str, Any]]) -> None:
    """Several observations' states, side by side."""
    with torch.no_grad():
        normalizer.steps.fill_(states[0]["steps"])
        normalizer.mean.copy_(torch.cat([torch.from_numpy(array(s["mean"])) for s in states]))
        normalizer.squares.copy_(torch.cat([torch.from_numpy(array(s["variance"])) for s in states]))


def load_actor(network: ActorCritic, inputs: dict[str, Any]) -> None:
    """The weights and normalisers of a reference actor."""
    named = body_parameters(network.body, 0, "network_body.") | action_parameters(network.actions)
    if network.memory_size:
        named |= memory_parameters(network.memory(0), "network_body.lstm.")
    load_parameters(named, inputs["weights"])
    if inputs.get("normalizers"):
        load_normalizer(network.encoder.normalizers[0], inputs["normalizers"])
