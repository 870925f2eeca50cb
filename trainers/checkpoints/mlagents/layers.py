"""ML-Agents' state dicts: how their layers differ from ours, and the optimizer's moments by tensor name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .names import BODY, Named

FACTS = (
    "version_number",
    "is_continuous_int_deprecated",
    "continuous_act_size_vector",
    "discrete_act_size_vector",
    "act_size_vector_deprecated",
    "memory_size_vector",
)
"""Metadata of an actor, not weights."""
AGAIN = f"{BODY}processors."
"""The prefix under which the encoders are listed a second time."""
SHOWN = 12
"""The number of differences that are named; further ones are counted."""


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
    """The state of an Adam."""

    steps: int
    mean: Named
    """Of gradients, by tensor name; zero for tensors that are missing."""
    square: Named
    """Of their squares."""


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
