"""Gradient steps as CUDA graphs: an algorithm's own step, recorded, where `CapturedStep.is_faster`.

Each kernel of a small network takes a GPU a few microseconds, less than Python needs to launch it. A graph
holds all kernels of a gradient step, and one call launches it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from ...settings.models.behavior import TrainerSettings
from ...utils import distributed

Batch = TypeVar("Batch")
WARM_UPS = 3
"""Calls before the one that is captured: libraries allocate and choose kernels in their first ones."""
_CAPTURING = threading.Lock()
"""torch captures one graph at a time in a process, and behaviors may learn in threads of their own."""


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    outputs: Tensor


class CapturedStep(Generic[Batch]):
    """A gradient step that is captured once for batches of each shape, and replayed from then on.

    The step works on the device alone, by the same kernels each time, and changes nothing but tensors, in
    place. Every gradient step is a replay, also the first, so that a run that is resumed computes the same.
    """

    def __init__(
        self, step: Callable[[Batch, Tensor], Tensor], numbers: int, changed: Sequence[Tensor]
    ) -> None:
        """Capture nothing yet.

        Args:
            step: is called with a batch and `numbers` as a tensor; what it returns is one tensor.
            numbers: how many numbers it gets that are not of the batch, such as the learning rate.
            changed: all tensors that it changes and that the next step depends on.
        """
        self._step, self._changed = step, list(changed)
        self._captured: dict[Any, _Captured] = {}
        self._given: tuple[float, ...] = ()
        self._numbers = torch.zeros(numbers, device=self._changed[0].device)

    @staticmethod
    def is_faster(settings: TrainerSettings, device: torch.device) -> bool:
        """Whether a behavior learns on a GPU, and its gradient steps can be captured.

        Not with a memory, since the lengths of sequences vary; nor with several ranks, which average their
        gradients in between; nor with networks of a user's own, which may do other things in each call.
        """
        network = settings.network_settings
        networks = [network] if network.critic is None else [network, network.critic]
        if device.type != "cuda" or network.memory is not None or distributed.world_size() > 1:
            return False
        return not any(network.encoders or network.body for network in networks)

    def __call__(self, batch: Batch, *numbers: float) -> Tensor:
        """Make the step: its output, which stays as it is."""
        if numbers != self._given:
            self._numbers.copy_(torch.tensor(numbers))
            self._given = numbers
        inputs = tensors_of(batch)
        key = tuple((tensor.shape, tensor.dtype) for tensor in inputs)
        captured = self._captured.get(key)
        if captured is None:
            captured = self._captured[key] = self._capture(batch)
        for buffer, tensor in zip(captured.inputs, inputs, strict=True):
            buffer.copy_(tensor)
        captured.graph.replay()
        return captured.outputs.clone()

    def _capture(self, batch: Batch) -> _Captured:
        """Capture the step for batches like this one; nothing is learned, even if that fails."""
        with _CAPTURING, torch.cuda.device(self._numbers.device):
            inputs = map_tensors(batch, torch.clone)
            before = [tensor.clone() for tensor in self._changed]
            current = torch.cuda.current_stream()
            beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            graph = torch.cuda.CUDAGraph()
            beside.wait_stream(current)
            try:
                with torch.cuda.stream(beside):
                    for _ in range(WARM_UPS):
                        self._step(inputs, self._numbers)
                current.wait_stream(beside)
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    outputs = self._step(inputs, self._numbers)
            finally:
                current.wait_stream(beside)
                for tensor, kept in zip(self._changed, before, strict=True):
                    tensor.copy_(kept)
            return _Captured(graph, tensors_of(inputs), outputs)


def map_tensors(batch: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """A batch with `function` of each of its tensors in the tensor's place."""
    if isinstance(batch, Tensor):
        return function(batch)
    if is_dataclass(batch) and not isinstance(batch, type):
        columns = {f.name: map_tensors(getattr(batch, f.name), function) for f in fields(batch)}
        return replace(batch, **columns)
    if isinstance(batch, Mapping):
        return {name: map_tensors(column, function) for name, column in batch.items()}
    if isinstance(batch, (list, tuple)):
        mapped = [map_tensors(column, function) for column in batch]
        return type(batch)(*mapped) if hasattr(batch, "_fields") else type(batch)(mapped)
    return batch


def tensors_of(batch: Any) -> list[Tensor]:
    """A batch's tensors, in the order of its fields."""
    found: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    map_tensors(batch, keep)
    return found
