"""What ML-Agents' state dicts hold, and where a network of theirs is another than ours."""

from __future__ import annotations

from collections.abc import Mapping

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
"""What an actor tells about itself; no weights."""
AGAIN = f"{BODY}processors."
"""Under which the encoders stand a second time."""
SHOWN = 12
"""So many differences are named; further ones are counted."""


def weights_of(saved: Mapping[str, Tensor]) -> Named:
    """A state dict without facts and without what stands in it twice."""
    return {k: tensor for k, tensor in saved.items() if k not in FACTS and AGAIN not in k}


def differences(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> list[str]:
    """A clause for each tensor that only one network has, or both in different shapes; empty if equal."""
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
    """A policy in the words of the YAML, as far as its tensors tell."""
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
