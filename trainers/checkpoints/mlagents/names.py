"""The tensors of our networks by the names and in the shapes of ML-Agents' state dicts.

All of them are views: copying into one changes the network. Two networks of ML-Agents are two streams of one
network here, its layers per branch or signal are columns of one layer, and its weights are [out, in] where
ours are [in, out]. Source: state dicts of ML-Agents 1.1.0 (tests/real/checkpoints). The optimizers' moments
are found by the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
FACTS = (
    "version_number",
    "is_continuous_int_deprecated",
    "continuous_act_size_vector",
    "discrete_act_size_vector",
    "act_size_vector_deprecated",
    "memory_size_vector",
)
"""The metadata of an actor, which are no weights."""
AGAIN = f"{BODY}processors."
"""The prefix under which the encoders are listed a second time."""
SHOWN = 12
"""The number of differences that are named; further ones are counted."""


def policy_tensors(network: ActingNetwork) -> Named:
    """The tensors of an actor, as in the entry `Policy`, with the critic that shares its body, if any."""
    named = normalizer_tensors(network.encoder) | encoder_tensors(network.encoder, BODY)
    named |= body_tensors(network.body, 0, BODY)
    named |= stream_memory(network, 0)
    assert isinstance(network.actions, ActionHead), "ML-Agents' policies give distributions"
    named |= action_tensors(network.actions)
    if isinstance(network, ActorCritic) and network.shared_critic:
        named |= value_tensors(network.values)
    return named


def critic_tensors(network: ActorCritic) -> Named:
    """The tensors of the separate critic, as in `Optimizer:critic`, without its normalizer."""
    encoder = network.encoder if network.critic_encoder is None else network.critic_encoder
    body = network.body if network.critic_body is None else network.critic_body
    named = encoder_tensors(encoder, BODY) | body_tensors(body, body.streams - 1, BODY)
    return named | stream_memory(network, -1) | value_tensors(network.values)


def team_critic_tensors(critic: TeamCritic) -> Named:
    """The tensors of POCA's critic, as in `Optimizer:critic`, without its normalizer."""
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
    """The tensors of both action values of SAC, as in `Optimizer:q_network`, without their normalizers."""
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
    """The tensors of the state value of SAC, as in `Optimizer:value_network`, without its normalizer."""
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
    """The tensors of the encoders of images and of entities."""
    named: Named = {}
    prefix = f"{prefix}observation_encoder."
    for index, visual in encoder.encoders.items():
        if isinstance(visual, VisualEncoder):
            named |= visual_tensors(visual, f"{prefix}processors.{index}.")
    if encoder.entities is not None:
        named |= entity_tensors(encoder.entities, encoder.set_indices, prefix)
    return named


def visual_tensors(encoder: VisualEncoder, prefix: str = "") -> Named:
    """The tensors of the convolutions and of the dense layer after them."""
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
    """The tensors of embeddings, attention and the own vector's embedding; `indices` of the observations."""
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
    """The tensors of one network of a body (the spelling is ML-Agents')."""
    named: Named = {}
    layers = "seq_layers" if body.conditioned is None else "layers"
    for i, layer in enumerate(body.layers):
        named |= _layer(layer, stream, f"{prefix}_body_endoder.{layers}.{2 * i}")
    if body.conditioned is not None:
        name = f"{prefix}_body_endoder.layers.{2 * len(body.layers)}"
        named |= hyper_tensors(body.conditioned, stream, f"{name}.")
    return named


def hyper_tensors(layer: HyperLayer, stream: int, prefix: str) -> Named:
    """The tensors of a layer whose weights another network makes."""
    named = {f"{prefix}bias": layer.bias[stream, 0]}
    for place, inner in ((0, layer.first), (2, layer.second), (5, layer.weights)):
        named |= _layer(inner, stream, f"{prefix}hypernet.{place}")
    return named


def _layer(layer: object, stream: int, name: str) -> Named:
    assert isinstance(layer, DenseStack)
    return {f"{name}.weight": layer.weight[stream].T, f"{name}.bias": layer.bias[stream, 0]}


def stream_memory(network: RecurrentModule, stream: int) -> Named:
    """The tensors of a stream's memory, if there is one."""
    return memory_tensors(network.memory(stream), MEMORY) if network.memories else {}


def memory_tensors(memory: Memory, prefix: str) -> Named:
    """The tensors of a recurrent layer; ML-Agents has LSTMs alone."""
    kind = "lstm" if memory.kind is MemoryType.LSTM else memory.kind.value
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    return {f"{prefix}{kind}.{name}_l0": getattr(memory, name) for name in names}


def action_tensors(head: ActionHead) -> Named:
    """The tensors of the layers of the continuous components and of each discrete branch."""
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
    """The tensors of a layer of one output for each reward signal."""
    named: Named = {}
    for i, signal in enumerate(head.signals):
        name = f"value_heads.value_heads.{signal}"
        named |= _columns(head.weight, head.bias, slice(i, i + 1), name)
    return named


def _columns(weight: Tensor, bias: Tensor, columns: slice, name: str) -> Named:
    return {f"{name}.weight": weight[:, columns].T, f"{name}.bias": bias[columns]}


def dense_tensors(layer: Dense, name: str) -> Named:
    """The tensors of a linear layer."""
    return {f"{name}.weight": layer.weight.T, f"{name}.bias": layer.bias}


def attention_tensors(attention: SelfAttention, name: str, prefix: str = "") -> Named:
    """The tensors of one of the four maps: q, k, v, out."""
    maps = {"q": attention.query, "k": attention.key, "v": attention.value, "out": attention.out}
    return dense_tensors(maps[name], f"{prefix}fc_{name}")


def weights_of(saved: Mapping[str, Tensor]) -> Named:
    """A state dict without metadata and duplicates."""
    return {k: tensor for k, tensor in saved.items() if k not in FACTS and AGAIN not in k}


def differences(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> list[str]:
    """A clause for each tensor that only one network has, or that differs in shape; empty if equal."""
    found = []
    for name in dict.fromkeys([*ours, *theirs]):
        there, here = (list(x[name].shape) if name in x else None for x in (theirs, ours))
        if there is None:
            found.append(f"{name} is not in the file, here {here}")
        elif here is None:
            found.append(f"{name} is {there} in the file, this network has no such part")
        elif there != here:
            found.append(f"{name} is {there} in the file, {here} here")
    rest = len(found) - SHOWN
    return [*found[:SHOWN], f"and {rest} more"] if rest > 0 else found


def description(policy: Mapping[str, Tensor]) -> str:
    """A policy described by the keys of the YAML, as far as its tensors reveal them."""
    layers = [name for name in policy if "_body_endoder." in name and name.endswith("bias")]
    words = []
    if layers:
        words += [f"hidden_units {policy[layers[0]].shape[0]}", f"num_layers {len(layers)}"]
    first = policy.get(f"{BODY}_body_endoder.seq_layers.0.weight")
    if first is not None:
        words.append(f"{first.shape[1]} inputs")
    words.append(f"normalize {str(any('.normalizer.' in name for name in policy)).lower()}")
    recurrent = policy.get(f"{BODY}lstm.lstm.weight_hh_l0")
    words.append("no memory" if recurrent is None else f"memory_size {2 * recurrent.shape[1]}")
    mu = policy.get("action_model._continuous_distribution.mu.bias")
    words.append(f"{0 if mu is None else len(mu)} continuous actions")
    branches = [len(t) for n, t in policy.items() if ".branches." in n and n.endswith("bias")]
    words.append(f"discrete branches {branches}")
    if any(name.startswith("value_heads.") for name in policy):
        words.append("shared_critic true")
    if any("_body_endoder.layers." in name for name in policy):
        words.append("goal_conditioning_type hyper")
    return f"The file's policy: {', '.join(words)}"


@dataclass(frozen=True)
class AdamState:
    """The state of an Adam optimizer."""

    steps: int
    mean: Named
    """The running means of the gradients, by tensor name; zero for tensors that are missing."""
    square: Named
    """The running means of the squared gradients, by tensor name."""


def adam_state(adam: Mapping[str, Any], modules: Sequence[Mapping[str, Tensor]]) -> AdamState | str:
    """Adam's state by names, or why it cannot be determined.

    Args:
        adam: the state dict of a torch.optim.Adam, which identifies parameters by number only.
        modules: the state dicts of the modules that it optimizes, in its order, with distinct names.
    """
    names = _parameter_names(modules)
    numbers = [number for group in adam.get("param_groups", ()) for number in group["params"]]
    if len(numbers) != len(names):
        return f"it moves {len(numbers)} tensors there, and the networks have {len(names)}"
    states = {name: adam["state"][k] for name, k in zip(names, numbers) if k in adam["state"]}
    steps = {int(state["step"]) for state in states.values()}
    if len(steps) > 1:
        return f"its tensors have been moved {' and '.join(map(str, sorted(steps)))} times"
    return AdamState(
        steps=max(steps, default=0),
        mean={name: state["exp_avg"] for name, state in states.items()},
        square={name: state["exp_avg_sq"] for name, state in states.items()},
    )


def merge_states(parts: Sequence[AdamState]) -> AdamState | str:
    """The states of several Adams of different tensors as one, or why they cannot be merged."""
    steps = {part.steps for part in parts}
    if len(steps) > 1:
        return f"its parts have been moved {' and '.join(map(str, sorted(steps)))} times"
    mean, square = (
        {k: v for part in parts for k, v in getattr(part, key).items()} for key in ("mean", "square")
    )
    return AdamState(max(steps, default=0), mean, square)


def _parameter_names(modules: Sequence[Mapping[str, Tensor]]) -> list[str]:
    """Names in the order of `parameters()`: without buffers (of normalizers) and duplicates."""
    seen: set[int] = set()
    names = []
    for module in modules:
        for name, tensor in module.items():
            if ".normalizer." in name or (tensor.numel() and tensor.data_ptr() in seen):
                continue
            seen.add(tensor.data_ptr())
            names.append(name)
    return names
