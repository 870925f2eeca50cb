"""The tensors of our networks by the names and in the shapes of ML-Agents' state dicts.

All of them are views: copying into one changes the network. Two networks of ML-Agents are two streams of one
network here, its layers per branch or signal are columns of one layer, and its weights are [out, in] where
ours are [in, out]. Source: state dicts of ML-Agents 1.1.0 (tests/real/checkpoints).
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...networks.actor import ActingNetwork
from ...networks.actor_critic import ActorCritic
from ...networks.critics import TWINS, TwinQ, ValueNetwork
from ...networks.modules.attention import EntityEncoder, SelfAttention
from ...networks.modules.body import Body, DenseStack
from ...networks.modules.heads import ActionHead, ValueHead
from ...networks.modules.hypernetwork import HyperLayer
from ...networks.modules.layers import Dense
from ...networks.modules.memory import Memory, RecurrentModule
from ...networks.modules.normalizer import Normalizer
from ...networks.modules.visual import Convolution, VisualEncoder
from ...networks.observations import ObservationEncoder
from ...networks.team_critic import TeamCritic
from ...settings.models.networks import EncoderType, MemoryType

Named = dict[str, Tensor]
BODY = "network_body."
MEMORY = f"{BODY}lstm."
STEPS = "normalization_steps"
TWIN_NAMES = ("q1_network.", "q2_network.")
"""Prefixes of the tensors of SAC's two action-value networks."""


def policy_tensors(network: ActingNetwork) -> Named:
    """An actor, as in the entry `Policy`, with the critic that shares its body, if there is one."""
    named = normalizer_tensors(network.encoder) | encoder_tensors(network.encoder, BODY)
    named |= body_tensors(network.body, 0, BODY)
    named |= stream_memory(network, 0)
    assert isinstance(network.actions, ActionHead), "ML-Agents' policies give distributions"
    named |= action_tensors(network.actions)
    if isinstance(network, ActorCritic) and network.shared_critic:
        named |= value_tensors(network.values)
    return named


def critic_tensors(network: ActorCritic) -> Named:
    """The separate critic, as in `Optimizer:critic`, without its normalizer."""
    encoder = network.encoder if network.critic_encoder is None else network.critic_encoder
    body = network.body if network.critic_body is None else network.critic_body
    named = encoder_tensors(encoder, BODY) | body_tensors(body, body.streams - 1, BODY)
    return named | stream_memory(network, -1) | value_tensors(network.values)


def team_critic_tensors(critic: TeamCritic) -> Named:
    """The critic of POCA, as in `Optimizer:critic`, without its normalizer."""
    assert critic.embed_acting is not None, "ML-Agents' critic has baselines"
    named = {f"{BODY}_current_max_agents": critic.largest} | encoder_tensors(critic.encoder, BODY)
    named |= dense_tensors(critic.embed_waiting, f"{BODY}obs_encoder.self_ent_encoder.seq_layers.0")
    named |= dense_tensors(critic.embed_acting, f"{BODY}obs_action_encoder.self_ent_encoder.seq_layers.0")
    for name in ("q", "k", "v", "out"):
        named |= attention_tensors(critic.attention, name, f"{BODY}self_attn.")
    for i, layer in enumerate(critic.body.layers):
        named |= _layer(layer, 0, f"{BODY}linear_encoder.seq_layers.{2 * i}")
    return named | stream_memory(critic, 0) | value_tensors(critic.values)


def twin_tensors(networks: TwinQ) -> Named:
    """Both action values of SAC, as in `Optimizer:q_network`, without their normalizers."""
    named: Named = {}
    for twin in range(TWINS):
        one = encoder_tensors(networks.encoder(twin), BODY) | body_tensors(networks.body, twin, BODY)
        one |= stream_memory(networks, twin)
        for i, signal in enumerate(networks.signals):
            columns = slice(i * networks.outputs, (i + 1) * networks.outputs)
            head = networks.head.weight[twin], networks.head.bias[twin, 0]
            one |= _columns(*head, columns, f"value_heads.value_heads.{signal}")
        named |= {f"{TWIN_NAMES[twin]}{name}": view for name, view in one.items()}
    return named


def state_value_tensors(network: ValueNetwork) -> Named:
    """The state value of SAC, as in `Optimizer:value_network`, without its normalizer."""
    named = encoder_tensors(network.encoder, BODY) | body_tensors(network.body, 0, BODY)
    return named | stream_memory(network, 0) | value_tensors(network.values)


def normalizer_tensors(encoder: ObservationEncoder) -> Named:
    """The statistics of each observation's normalizer; ours is one for all, with one count of steps."""
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


def encoder_tensors(encoder: ObservationEncoder, prefix: str) -> Named:
    """The encoders of images and of entities."""
    named: Named = {}
    prefix = f"{prefix}observation_encoder."
    for index, visual in encoder.encoders.items():
        if isinstance(visual, VisualEncoder):
            named |= visual_tensors(visual, f"{prefix}processors.{index}.")
    if encoder.entities is not None:
        named |= entity_tensors(encoder.entities, encoder.set_indices, prefix)
    return named


def visual_tensors(encoder: VisualEncoder, prefix: str = "") -> Named:
    """The convolutions and the dense layer after them."""
    residual = encoder.kind is EncoderType.RESNET
    named = dense_tensors(encoder.dense, f"{prefix}dense" if residual else f"{prefix}dense.0")
    for i, layer in enumerate(encoder.convolutions):
        assert isinstance(layer, Convolution)
        stage, k = divmod(i, 5)
        name = f"{prefix}conv_layers.{2 * i}"
        if residual:  # a stage is a convolution, a pooling and two blocks of Swish, layer, Swish, layer
            block = f"{4 * stage + 2 + (k - 1) // 2}.layers.{1 + 2 * ((k - 1) % 2)}"
            name = f"{prefix}sequential.{block if k else 4 * stage}"
        named |= {f"{name}.weight": layer.weight, f"{name}.bias": layer.bias}
    return named


def entity_tensors(encoder: EntityEncoder, indices: list[int], prefix: str) -> Named:
    """Embeddings, attention and the embedding of the agent's own vector; `indices` of the observations."""
    named: Named = {}
    for k, index in enumerate(indices):
        name = f"{prefix}processors.{index}.self_ent_encoder.seq_layers.0"
        named |= dense_tensors(encoder.embedding(k), name)
    for name in ("q", "k", "v", "out"):
        named |= attention_tensors(encoder.attention, name, f"{prefix}rsa.")
    if encoder.own is not None:
        named |= dense_tensors(encoder.own, f"{prefix}x_self_encoder.seq_layers.0")
    return named


def body_tensors(body: Body, stream: int, prefix: str) -> Named:
    """One network of a body (the spelling is ML-Agents')."""
    named: Named = {}
    layers = "seq_layers" if body.conditioned is None else "layers"
    for i, layer in enumerate(body.layers):
        named |= _layer(layer, stream, f"{prefix}_body_endoder.{layers}.{2 * i}")
    if body.conditioned is not None:
        name = f"{prefix}_body_endoder.layers.{2 * len(body.layers)}"
        named |= hyper_tensors(body.conditioned, stream, f"{name}.")
    return named


def hyper_tensors(layer: HyperLayer, stream: int, prefix: str) -> Named:
    """A layer whose weights another network makes."""
    named = {f"{prefix}bias": layer.bias[stream, 0]}
    for place, inner in ((0, layer.first), (2, layer.second), (5, layer.weights)):
        named |= _layer(inner, stream, f"{prefix}hypernet.{place}")
    return named


def _layer(layer: object, stream: int, name: str) -> Named:
    assert isinstance(layer, DenseStack)
    return {f"{name}.weight": layer.weight[stream].T, f"{name}.bias": layer.bias[stream, 0]}


def stream_memory(network: RecurrentModule, stream: int) -> Named:
    """The memory of a stream, if there is one."""
    return memory_tensors(network.memory(stream), MEMORY) if network.memories else {}


def memory_tensors(memory: Memory, prefix: str) -> Named:
    """A recurrent layer; ML-Agents has LSTMs alone."""
    kind = "lstm" if memory.kind is MemoryType.LSTM else memory.kind.value
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"{prefix}{kind}.{name}_l0": getattr(memory, name) for name in names}


def action_tensors(head: ActionHead) -> Named:
    """The layers of the continuous components and of each discrete branch."""
    named: Named = {}
    start, name = head.continuous_size, "action_model._continuous_distribution"
    if start:
        if head.sigma_of_state:
            shown = start + sum(head.branches.sizes)
            named |= _columns(head.weight, head.bias, slice(shown, None), f"{name}.log_sigma")
        else:
            named[f"{name}.log_sigma"] = head.log_sigma[None]
        named |= _columns(head.weight, head.bias, slice(0, start), f"{name}.mu")
    for k, size in enumerate(head.branches.sizes):
        name = f"action_model._discrete_distribution.branches.{k}"
        named |= _columns(head.weight, head.bias, slice(start, start + size), name)
        start += size
    return named


def value_tensors(head: ValueHead) -> Named:
    """A layer of one output for each reward signal."""
    named: Named = {}
    for i, signal in enumerate(head.signals):
        name = f"value_heads.value_heads.{signal}"
        named |= _columns(head.weight, head.bias, slice(i, i + 1), name)
    return named


def _columns(weight: Tensor, bias: Tensor, columns: slice, name: str) -> Named:
    return {f"{name}.weight": weight[:, columns].T, f"{name}.bias": bias[columns]}


def dense_tensors(layer: Dense, name: str) -> Named:
    """A linear layer."""
    return {f"{name}.weight": layer.weight.T, f"{name}.bias": layer.bias}


def attention_tensors(attention: SelfAttention, name: str, prefix: str = "") -> Named:
    """One of the four maps: q, k, v, out."""
    maps = {"q": attention.query, "k": attention.key, "v": attention.value, "out": attention.out}
    return dense_tensors(maps[name], f"{prefix}fc_{name}")
