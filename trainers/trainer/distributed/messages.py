"""What the first learner tells the others: trees of tensors and plain values.

They go as checkpoints do, so that nothing is ever unpickled; but large tensors, such as an update's pictures,
go one by one from where they lie, and are not held twice.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...utils.data_parallel import Sharing

LARGE = 1 << 18
"""Bytes of a tensor that goes by itself."""
_MARK = "__large__"


@dataclass(frozen=True)
class Message:
    """A tree, ready to be sent; what is small is held as it was when the message was packed."""

    small: bytes
    large: list[Tensor]

    @classmethod
    def pack(cls, tree: Any, stays: Callable[[str], bool] = lambda path: False) -> Message:
        """A message that holds this tree.

        Args:
            tree: dicts, lists, tuples, plain values, and tensors on any device.
            stays: whether the tensor at this path, such as `.buffer.obs.0`, will not change before `tree` is
                asked for; others are copied.
        """
        large: list[Tensor] = []

        def told(path: str, tensor: Tensor) -> Any:
            held = tensor.detach().cpu().contiguous()
            if held.nbytes < LARGE:
                return held.clone()  # by itself: a view would take all that it is a view of along
            large.append(held if stays(path) or held.data_ptr() != tensor.data_ptr() else held.clone())
            return {_MARK: [len(large) - 1, list(held.shape), str(held.dtype).removeprefix("torch.")]}

        file = io.BytesIO()
        torch.save(_walked(tree, told), file)
        return cls(file.getvalue(), large)

    def tree(self) -> Any:
        """What was packed."""
        return _filled(_loaded(self.small), self.large)


def send(sharing: Sharing, message: Message) -> None:
    """From the first learner to all others, which `receive` it."""
    sharing.broadcast(torch.tensor([len(message.small)]))
    sharing.broadcast(torch.frombuffer(bytearray(message.small), dtype=torch.uint8))
    for tensor in message.large:
        sharing.broadcast(_bytes(tensor))


def receive(sharing: Sharing) -> Any:
    """The tree that the first learner sends."""
    length = torch.zeros(1, dtype=torch.int64)
    sharing.broadcast(length)
    small = torch.empty(int(length), dtype=torch.uint8)
    sharing.broadcast(small)
    tree = _loaded(small.numpy().tobytes())
    large = [torch.empty(shape, dtype=getattr(torch, dtype)) for _, shape, dtype in sorted(_marks(tree))]
    for tensor in large:
        sharing.broadcast(_bytes(tensor))
    return _filled(tree, large)


def _loaded(small: bytes) -> Any:
    return torch.load(io.BytesIO(small), weights_only=True)


def _bytes(tensor: Tensor) -> Tensor:
    """The memory of a tensor, which is shared."""
    return tensor.reshape(-1).view(torch.uint8)


def _walked(tree: Any, change: Callable[[str, Tensor], Any], path: str = "") -> Any:
    """The tree with other things in place of its tensors."""
    if isinstance(tree, Tensor):
        return change(path, tree)
    if isinstance(tree, dict):
        return {key: _walked(value, change, f"{path}.{key}") for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_walked(value, change, f"{path}.{k}") for k, value in enumerate(tree))
    return tree


def _marks(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        if _MARK in tree:
            return [tree[_MARK]]
        return [mark for value in tree.values() for mark in _marks(value)]
    if isinstance(tree, (list, tuple)):
        return [mark for value in tree for mark in _marks(value)]
    return []


def _filled(tree: Any, large: list[Tensor]) -> Any:
    if isinstance(tree, dict):
        if _MARK in tree:
            return large[tree[_MARK][0]]
        return {key: _filled(value, large) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_filled(value, large) for value in tree)
    return tree
