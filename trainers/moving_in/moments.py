"""What ML-Agents' optimiser remembers, by the names of the tensors that it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .names import Named


@dataclass(frozen=True)
class Moments:
    """The state of an Adam."""

    steps: int
    mean: Named
    """Of gradients, by the tensor's name; zero for a tensor that is not in it."""
    square: Named
    """Of their squares."""


def moments(adam: Mapping[str, Any], modules: Sequence[Mapping[str, Tensor]]) -> Moments | str:
    """Adam's state by names, or why it cannot be told.

    Args:
        adam: the state dict of a torch.optim.Adam, which knows its parameters by their numbers alone.
        modules: the state dicts of the modules whose parameters it has, in its order, with distinct names.
    """
    names = _parameter_names(modules)
    numbers = [number for group in adam.get("param_groups", ()) for number in group["params"]]
    if len(numbers) != len(names):
        return f"it moves {len(numbers)} tensors there, and the networks have {len(names)}"
    states = {name: adam["state"][k] for name, k in zip(names, numbers) if k in adam["state"]}
    steps = {int(state["step"]) for state in states.values()}
    if len(steps) > 1:
        return f"its tensors have been moved {' and '.join(map(str, sorted(steps)))} times"
    return Moments(
        steps=max(steps, default=0),
        mean={name: state["exp_avg"] for name, state in states.items()},
        square={name: state["exp_avg_sq"] for name, state in states.items()},
    )


def joined(parts: Sequence[Moments]) -> Moments | str:
    """Of several Adams that move tensors of different names as one, or why they are not as one."""
    steps = {part.steps for part in parts}
    if len(steps) > 1:
        return f"its parts have been moved {' and '.join(map(str, sorted(steps)))} times"
    mean, square = (
        {k: v for part in parts for k, v in getattr(part, key).items()} for key in ("mean", "square")
    )
    return Moments(max(steps, default=0), mean, square)


def _parameter_names(modules: Sequence[Mapping[str, Tensor]]) -> list[str]:
    """In the order of `parameters()`: no buffers (the normalisers'), and none twice."""
    seen: set[int] = set()
    names = []
    for module in modules:
        for name, tensor in module.items():
            if ".normalizer." in name or (tensor.numel() and tensor.data_ptr() in seen):
                continue
            seen.add(tensor.data_ptr())
            names.append(name)
    return names
