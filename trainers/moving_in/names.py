"""The tensors of our networks under the names and in the shapes that ML-Agents' state dicts have.

All of them are views: what is copied into one is in the network. Where ML-Agents has two networks we have
two streams of one, where it has a layer for each branch or signal we have columns of one layer, and its
weights are [out, in] where ours are [in, out]. Source: state dicts of ML-Agents 1.1.0
(tests/real/checkpoints).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..networks.actor import ActingNetwork
from ..networks.actor_critic import ActorCritic
from ..networks.attention import Dense, SelfAttention
from ..networks.body import Body, DenseStack
from ..networks.heads import ActionHead, ValueHead
from ..networks.memory import Memory
from ..networks.observations import ObservationEncoder
from ..networks.settings import MemoryType
from ..networks.team_critic import TeamCritic
from ..normalizer import Normalizer

Named = dict[str, Tensor]
BODY = "network_body."
MEMORY = f"{BODY}lstm."
STEPS = "normalization_steps"


def policy_tensors(network: ActingNetwork) -> Named:
    """An actor, as the entry `Policy` has it; with the critic that shares its body, if there is one."""
    named = normalizer_tensors(network.encoder) | body_tensors(network.body, 0, BODY)
    if network.memory_size:
        named |= memory_tensors(network.memory(0), MEMORY)
    named |= action_tensors(network.actions)
    if isinstance(network, ActorCritic) and network.shared_critic:
        named |= value_tensors(network.values)
    return named


def critic_tensors(network: ActorCritic) -> Named:
    """The critic beside the actor, as `Optimizer:critic` has it, without its normaliser."""
    named = body_tensors(network.body, network.body.streams - 1, BODY)
    if network.memory_size:
        named |= memory_tensors(network.memory(-1), MEMORY)
    return named | value_tensors(network.values)


def team_critic_tensors(critic: TeamCritic) -> Named:
    """The critic of POCA, as `Optimizer:critic` has it, without its normaliser."""
    named = {f"{BODY}_current_max_agents": critic.largest}
    named |= dense_tensors(critic.embed_waiting, f"{BODY}obs_encoder.self_ent_encoder.seq_layers.0")
    named |= dense_tensors(critic.embed_acting, f"{BODY}obs_action_encoder.self_ent_encoder.seq_layers.0")
    for name in ("q", "k", "v", "out"):
        named |= attention_tensors(critic.attention, name, f"{BODY}self_attn.")
    for i, layer in enumerate(critic.body.layers):
        named |= _layer(layer, 0, f"{BODY}linear_encoder.seq_layers.{2 * i}")
    if critic.memories:
        named |= memory_tensors(critic.memory, MEMORY)
    return named | value_tensors(critic.values)


def normalizer_tensors(encoder: ObservationEncoder) -> Named:
    """What each observation's normaliser has seen; ours is one for all, with one count of steps."""
    named = {}
    for run, normalizer in zip(encoder.runs, encoder.normalizers or ()):
        assert isinstance(normalizer, Normalizer)
        sizes = list(run.sizes)
        parts = zip(run.indices, torch.split(normalizer.mean, sizes), torch.split(normalizer.squares, sizes))
        for index, mean, squares in parts:
            prefix = f"{BODY}observation_encoder.processors.{index}.normalizer."
            named[f"{prefix}{STEPS}"] = normalizer.steps
            named[f"{prefix}running_mean"] = mean
            named[f"{prefix}running_variance"] = squares
    return named


def body_tensors(body: Body, stream: int, prefix: str) -> Named:
    """One network of a body (the spelling is ML-Agents')."""
    named: Named = {}
    for i, layer in enumerate(body.layers):
        named |= _layer(layer, stream, f"{prefix}_body_endoder.seq_layers.{2 * i}")
    return named


def _layer(layer: object, stream: int, name: str) -> Named:
    assert isinstance(layer, DenseStack)
    return {f"{name}.weight": layer.weight[stream].T, f"{name}.bias": layer.bias[stream, 0]}


def memory_tensors(memory: Memory, prefix: str) -> Named:
    """A recurrent layer; ML-Agents has LSTMs alone."""
    kind = "lstm" if memory.kind is MemoryType.LSTM else memory.kind.value
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"{prefix}{kind}.{name}_l0": getattr(memory, name) for name in names}


def action_tensors(head: ActionHead) -> Named:
    """The layers of the continuous components and of each discrete branch."""
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


def value_tensors(head: ValueHead) -> Named:
    """A layer of one output for each reward signal."""
    named = {}
    for i, signal in enumerate(head.signals):
        named[f"value_heads.value_heads.{signal}.weight"] = head.weight[:, i : i + 1].T
        named[f"value_heads.value_heads.{signal}.bias"] = head.bias[i : i + 1]
    return named


def dense_tensors(layer: Dense, name: str) -> Named:
    """A linear layer."""
    return {f"{name}.weight": layer.weight.T, f"{name}.bias": layer.bias}


def attention_tensors(attention: SelfAttention, name: str, prefix: str = "") -> Named:
    """One of the four maps: q, k, v, out."""
    maps = {"q": attention.query, "k": attention.key, "v": attention.value, "out": attention.out}
    return dense_tensors(maps[name], f"{prefix}fc_{name}")
