"""Gradient steps from a replay, which the first learner has: it draws, and all learn from their part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ...algorithms.common.threads import UpdateThreads
from ...buffers.replay.sampler import ReplayBatch
from ...networks.modules.distributions import Actions
from ...rewards.base import NetworkSignal
from ...rewards.transitions import Transitions
from ...utils.data_parallel import Part, Sharing
from .messages import Message

_KINDS = {"batch": ReplayBatch, "steps": Transitions}


class ByReplay(Protocol):
    """An algorithm that learns from a replay, as far as it matters here."""

    network: Any
    sequence_length: int

    def update(self, batch: ReplayBatch, policy_step: int, threads: UpdateThreads) -> Any:
        """One gradient step: figures, and errors [B] or None."""
        ...


@runtime_checkable
class SkipsSteps(Protocol):
    """An algorithm that does not learn from all steps of a sequence."""

    def learnt(self, real: Tensor) -> Tensor:
        """Of a column [B] of whole sequences, the steps whose losses count."""
        ...


class SharedSteps:
    """One learner's part in the gradient steps of a trainer with a replay."""

    def __init__(
        self, algorithm: ByReplay, signals: Mapping[str, object], sharing: Sharing, device: torch.device
    ) -> None:
        """Of an algorithm and the reward signals that learn beside it."""
        self.algorithm, self.sharing, self.device = algorithm, sharing, device
        of_signals = [signal for signal in signals.values() if isinstance(signal, NetworkSignal)]
        networks = [network for signal in of_signals for network in signal.networks.values()]
        self._networks: list[nn.Module] = [algorithm.network, *networks]
        self._followed = False
        """The others know the whole state."""

    # What goes from the first learner to the others ----------------------------------------------------

    def message(
        self, columns: ReplayBatch | Transitions, step: int, state: Callable[[], dict[str, Any]]
    ) -> Message:
        """All that a gradient step depends on: the first time a trainer's whole state.

        Later it is what was drawn, and what changes in networks without a gradient: their running statistics.
        """
        kind = "batch" if isinstance(columns, ReplayBatch) else "steps"
        news: dict[str, Any] = {kind: _columns(columns), "step": step}
        news["statistics"] = [dict(network.named_buffers()) for network in self._networks]
        if not self._followed:
            self._followed, news["state"] = True, state()
        return Message.pack(news, lambda path: True)

    @torch.no_grad()
    def heard(self, told: Mapping[str, Any]) -> ReplayBatch | Transitions:
        """What was drawn in the first learner; the statistics of there are here too then."""
        for network, buffers in zip(self._networks, told["statistics"], strict=True):
            for name, buffer in network.named_buffers():
                buffer.copy_(buffers[name])
        kind = next(kind for kind in _KINDS if kind in told)
        columns = {name: _changed(column, self._moved) for name, column in told[kind].items()}
        made: ReplayBatch | Transitions = _KINDS[kind](**columns | {"actions": Actions(*columns["actions"])})
        return made

    def _moved(self, rows: Tensor) -> Tensor:
        return rows.to(self.device)

    # Parts ----------------------------------------------------------------------------------------------

    def update(
        self, batch: ReplayBatch, step: int, threads: UpdateThreads
    ) -> tuple[dict[str, float], Tensor | None]:
        """A gradient step by the whole batch, of which this learner takes its part; figures and errors."""
        own, part = self._own(batch)
        figures, errors = self.algorithm.update(own, step, threads)
        if errors is not None and batch.weights is not None:  # else nobody asks for them
            errors = self._whole_errors(errors, part)
        return part.wholes(figures), errors

    def own_steps(self, steps: Transitions) -> Transitions:
        """This learner's of steps that reward signals learn from."""
        part = self.sharing.part(len(steps))
        which = torch.arange(part.rows.start, part.rows.stop, device=steps.done.device)
        return replace(steps.rows(which), part=part)

    def _own(self, batch: ReplayBatch) -> tuple[ReplayBatch, Part]:
        """This learner's steps of a batch, with a memory whole sequences."""
        length = self.algorithm.sequence_length
        sequences = self.sharing.part(len(batch) // length)
        rows = slice(sequences.rows.start * length, sequences.rows.stop * length)
        part = replace(sequences, rows=rows, of=len(batch))
        if batch.real is not None:
            part = part.weighing(*(self._counted(real) for real in (batch.real[rows], batch.real)))
        states = None if batch.states is None else batch.states[sequences.rows]
        columns = {
            name: _changed(column, lambda some: some[rows]) for name, column in _columns(batch).items()
        }
        columns |= {"actions": Actions(*columns["actions"]), "states": states, "part": part}
        return ReplayBatch(**columns), part

    def _counted(self, real: Tensor) -> int:
        """How many steps count."""
        counting = self.algorithm.learnt(real) if isinstance(self.algorithm, SkipsSteps) else real
        return int(counting.sum())

    def _whole_errors(self, errors: Tensor, part: Part) -> Tensor:
        """[B] the errors of all steps, of those of a part."""
        every = errors.new_zeros(part.of)
        if self.sharing.has_own(part.of // self.algorithm.sequence_length):
            every[part.rows] = errors.detach()
        return self.sharing.add_up(every)


def _columns(drawn: ReplayBatch | Transitions) -> dict[str, Any]:
    """The columns of what was drawn, as plain lists, mappings and tensors."""
    columns = {field.name: getattr(drawn, field.name) for field in fields(drawn) if field.name != "part"}
    return columns | {"actions": list(drawn.actions)}


def _changed(column: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A column, or several, with every tensor changed."""
    if isinstance(column, Tensor):
        return change(column)
    if isinstance(column, Mapping):
        return {name: _changed(one, change) for name, one in column.items()}
    return [_changed(one, change) for one in column] if isinstance(column, list) else column
