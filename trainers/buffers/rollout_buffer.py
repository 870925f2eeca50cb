"""The steps that wait for the next policy update, and the minibatches that they are learned in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...envs.base import ObsArray
from ..networks.modules.distributions import Actions
from ..settings.models.algorithms import AdvantageNormalization
from ..utils import distributed
from .columns import IMAGE_AXES, BufferColumns, Columns, ImageBuffer, as_arrays, as_tensors, copied, joined

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


class OnPolicySteps(BufferColumns):
    """What an update of the policy learns from."""

    __slots__ = ()
    returns: NDArray[np.float32]
    """The returns [N, S]."""

    def is_finite(self) -> bool:
        """Whether everything that a gradient is computed from is finite."""
        return bool(np.isfinite(self.returns).all())

    def consist_of(self, sequence_length: int) -> bool:
        """Whether the steps are whole sequences of `sequence_length`, if the policy has a memory."""
        return True

    def real_count(self) -> int:
        """The number of steps, padding not counted."""
        return len(self)

    def explained_variances(self) -> dict[str, float]:
        """How well the critic's estimates predicted the returns, by the statistics' names."""
        return {}


@dataclass(slots=True, kw_only=True)
class PolicySteps(OnPolicySteps):
    """Columns of N steps that a policy learns from; S reward signals."""

    obs: list[ObsArray]
    continuous: Floats
    discrete: NDArray[np.int32]
    log_probs: Floats
    action_mask: NDArray[np.bool_] | None
    returns: Floats
    """The returns [N, S]."""
    advantages: Floats
    """[N] the advantages, mean over the signals, not normalized."""
    real: NDArray[np.bool_] | None = None
    """A mask [N], False for padding. With a memory the N rows are whole sequences, padded trajectories."""
    memory: Floats | None = None
    """[sequences, memory_size], the actor's states before each sequence."""
    weights: Floats | None = None
    """[N] the weights of the normalized advantages in the objective; None: all are 1."""

    def __len__(self) -> int:
        return len(self.advantages)

    def is_finite(self) -> bool:
        """Whether returns and advantages are finite."""
        return bool(np.isfinite(self.returns).all() and np.isfinite(self.advantages).all())

    def consist_of(self, sequence_length: int) -> bool:
        """Whether the steps are whole sequences of `sequence_length`, if the policy has a memory."""
        return self.memory is None or len(self) == len(self.memory) * sequence_length

    def real_count(self) -> int:
        """The number of steps, padding not counted."""
        return len(self) if self.real is None else int(self.real.sum())


@dataclass(slots=True, kw_only=True)
class EvaluatedSteps(PolicySteps):
    """Columns of N steps with the critic's evaluation."""

    values: Floats
    """[N, S] the critic's values when the steps came in."""
    critic_memory: Floats | None = None
    """[sequences, memory_size], the critic's states before each sequence."""

    def explained_variances(self) -> dict[str, float]:
        """How well the critic's values predicted the returns, by the statistic's name."""
        return explained_variance("Losses/Value Explained Variance", self.values, self.returns, self.real)


class RolloutBatch(NamedTuple):
    """B steps on the learner's device; with a memory whole sequences of them."""

    inputs: list[Tensor]
    """What the networks read, see `ActorCritic.prepare`."""
    actions: Actions
    action_mask: Tensor | None
    """The mask [B, sum of branch sizes], True where an action was forbidden; None if none ever was."""
    old_log_probs: Tensor
    """[B, components] the log-probabilities of the actions when they were taken."""
    advantages: Tensor
    """The advantages [B, 1], normalized and weighted unless `normalized` is to do that."""
    old_values: Tensor
    """[B, S] the critic's values when the steps came in."""
    returns: Tensor
    """The returns [B, S]."""
    real: Tensor | None = None
    """A mask [B] bool, False for padding; None without a memory, as are the states."""
    weights: Tensor | None = None
    """The weights [B, 1] of advantages that `normalized` is to normalize; None: all are 1."""
    actor_states: Tensor | None = None
    critic_states: Tensor | None = None
    """[sequences, memory_size] the states before the sequences of which the rows then consist."""
    length: int = 1
    """The number of rows of each sequence."""

    @classmethod
    def of(
        cls,
        steps: EvaluatedSteps,
        inputs: list[Tensor],
        device: torch.device,
        *,
        normalization: AdvantageNormalization = AdvantageNormalization.BUFFER,
        normalize_padding: bool = True,
    ) -> RolloutBatch:
        """All steps of an update, with `inputs` prepared once for all epochs.

        Args:
            steps: of the update.
            inputs: what the networks read of them.
            device: of the networks.
            normalization: of the advantages; those of minibatches are left to `normalized`.
            normalize_padding: padded steps count in the mean and deviation of the buffer's advantages.
        """
        mask = steps.action_mask
        advantages, weights = learned_advantages(steps, normalization, normalize_padding=normalize_padding)
        discrete = torch.from_numpy(steps.discrete.astype(np.int64))
        columns = (
            *(None if mask is None or not mask.any() else mask, steps.log_probs),
            *(advantages, steps.values, steps.returns, steps.real, weights),
            *(steps.memory, steps.critic_memory),
        )
        tensors: list[Any] = [None if c is None else torch.from_numpy(c).to(device) for c in columns]
        actions = Actions(torch.from_numpy(steps.continuous).to(device), discrete.to(device))
        return cls(inputs, actions, *tensors)

    def minibatches(
        self, size: int, generator: torch.Generator, sequence_length: int = 1
    ) -> Iterator[RolloutBatch]:
        """One epoch: the steps in random order, cut into whole minibatches; the remainder sits it out.

        With a memory whole sequences are shuffled, as many to a minibatch as `size` steps hold. They end
        where the longest of the minibatch does: all that follows is padding, of which nothing is learned.
        """
        device = self.advantages.device
        together = max(size // sequence_length, 1)
        count = len(self.advantages) // sequence_length
        number = count // together
        order = torch.randperm(count, generator=generator, device="cpu")
        if not number:
            return
        sequences = order[: number * together].to(device)
        rows, lengths = sequences, [sequence_length] * number
        if sequence_length > 1:
            if self.real is not None:
                steps_of = self.real.view(count, sequence_length).sum(1)[sequences]
                lengths = steps_of.view(number, together).amax(1).tolist()
            rows = _sequence_rows(sequences, sequence_length, lengths)
        sizes = [together * length for length in lengths]
        missing: Sequence[Any] = [None] * number
        inputs = [_cut(column, rows, sizes) for column in self.inputs]
        actions = [_cut(column, rows, sizes) for column in self.actions]
        columns = [missing if column is None else _cut(column, rows, sizes) for column in self[2:9]]
        of_sequences = [together] * number
        states = [missing if c is None else _cut(c, sequences, of_sequences) for c in self[9:11]]
        for i, c, s, a, length in zip(zip(*inputs), zip(*columns), zip(*states), zip(*actions), lengths):
            yield RolloutBatch(list(i), Actions(*a), *c, *s)._replace(length=length)

    def normalized(self) -> RolloutBatch:
        """The minibatch with the advantages normalized over its real steps, then weighted.

        With several ranks over those of all ranks' parts, so all of them have to call this. A single step's
        advantage stays as it is.
        """
        counted = self.advantages if self.real is None else self.advantages[self.real]
        totals = torch.stack((counted.sum(), counted.new_tensor(len(counted))))
        distributed.all_reduce_sum(totals)
        mean, count = totals[0] / totals[1], totals[1]
        squares = ((counted - mean) ** 2).sum()
        distributed.all_reduce_sum(squares)
        deviation = (squares / (count - 1.0)).sqrt()  # of a sample, as torch.std has it
        advantages = torch.where(count > 1, (self.advantages - mean) / (deviation + 1e-8), self.advantages)
        if self.weights is not None:
            advantages = advantages * self.weights
        return self._replace(advantages=advantages, weights=None)


def _sequence_rows(sequences: Tensor, sequence_length: int, lengths: Sequence[int]) -> Tensor:
    """The first rows of shuffled sequences, as many as `lengths` has for their minibatch, in one vector."""
    first = (sequences * sequence_length).view(len(lengths), -1, 1)
    steps = torch.arange(sequence_length, device=sequences.device)
    return torch.cat([(of_one + steps[:length]).flatten() for of_one, length in zip(first, lengths)])


def _cut(column: Tensor, rows: Tensor, sizes: list[int]) -> Iterable[Tensor]:
    """A column's rows in minibatches of these sizes.

    They are views of one copy per epoch; but not of images, which would then be in memory twice.
    """
    if column.dim() == IMAGE_AXES:
        return (column.index_select(0, some) for some in torch.split(rows, sizes))
    pieces: tuple[Tensor, ...] = torch.split(column.index_select(0, rows), sizes)
    return pieces


def learned_advantages(
    steps: PolicySteps, normalization: AdvantageNormalization, *, normalize_padding: bool = True
) -> tuple[Floats, Floats | None]:
    """The advantages [N, 1] that the objective has, normalized as it says and weighted.

    Those that `RolloutBatch.normalized` is to normalize come as they are, beside their weights [N, 1].
    `normalize_padding`: padded steps count in the mean and deviation of the buffer's advantages.
    """
    advantages, weights = steps.advantages, steps.weights
    if normalization is AdvantageNormalization.MINIBATCH:
        return advantages[:, None], None if weights is None else weights[:, None]
    if normalization is AdvantageNormalization.BUFFER:
        advantages = normalized(advantages, None if normalize_padding else steps.real)
    return (advantages if weights is None else advantages * weights)[:, None], None


def normalized(advantages: Floats, counted: NDArray[np.bool_] | None = None) -> Floats:
    """Advantages [N, ...] with mean 0 and deviation 1 over the whole buffer, or over `counted` [N]."""
    values = advantages if counted is None else advantages[counted]
    if distributed.world_size() == 1:
        mean, deviation = values.mean(), values.std()
    else:
        count, total = distributed.sums(values.size, float(values.sum(dtype=np.float64)))
        mean = np.float32(total / count)
        squares = float(((values - mean) ** 2).sum(dtype=np.float64))
        deviation = np.float32(np.sqrt(distributed.sums(squares)[0] / count))
    result: Floats = ((advantages - mean) / (deviation + 1e-10)).astype(np.float32)
    return result


def explained_variance(
    name: str, estimates: Floats, returns: Floats, real: NDArray[np.bool_] | None
) -> dict[str, float]:
    """1 - Var(G - V) / Var(G), mean over the signals; {} where the returns do not vary.

    1 where the estimates are the returns, 0 where they are no better than a constant, negative where worse.

    Args:
        name: of the statistic.
        estimates: [N, S], of when the steps came in.
        returns: [N, S].
        real: [N], False for padding; None: there is none.
    """
    rows = slice(None) if real is None else real
    variance = returns[rows].var(axis=0, dtype=np.float64)
    left = (returns[rows] - estimates[rows]).var(axis=0, dtype=np.float64)
    varies = variance > 0.0
    return {name: float((1.0 - left[varies] / variance[varies]).mean())} if varies.any() else {}


def shuffled_units(counts: Ints, size: int, generator: torch.Generator) -> Iterator[Ints]:
    """One epoch over units of several steps each, such as trajectories, in random order.

    Args:
        counts: [U] the steps of each unit.
        size: steps of a minibatch. There are as many as a cut into exactly `size` steps would give; the
            remainder sits the epoch out.
        generator: of the order.

    Yields:
        The units of each minibatch, which together have about `size` steps.
    """
    order = torch.randperm(len(counts), generator=generator, device="cpu").numpy()
    ends = np.cumsum(counts[order])
    number = int(ends[-1]) // size if len(ends) else 0
    start = 0
    for stop in (np.searchsorted(ends, size * np.arange(1, number + 1)) + 1).tolist():
        if stop > start:
            yield order[start:stop]
            start = stop


Steps = TypeVar("Steps", bound=OnPolicySteps)


@dataclass(frozen=True, slots=True)
class RolloutEvaluation(Generic[Steps]):
    """An algorithm's evaluation of some trajectories."""

    steps: Steps
    """The steps for the rollout buffer."""
    estimates: Mapping[str, Floats]
    """The critic's estimates for the trajectories' own steps [steps, S], by the statistic's name."""


class RolloutBuffer(Generic[Columns]):
    """Collects evaluated steps until an update takes them all.

    Images are stored in their final place at once: concatenating them later would take their memory twice.
    """

    def __init__(self, steps_type: type[Columns], expected: int = 0) -> None:
        """Start empty.

        Args:
            steps_type: the class of the steps, for loading them from a checkpoint.
            expected: about how many steps an update takes.
        """
        self._steps_type = steps_type
        self._expected = expected
        self._parts: list[Columns] = []
        self._images: dict[tuple[str, int], ImageBuffer] = {}
        """The image buffers by column and index in the column's list."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, steps: Columns) -> None:
        """Add the steps of some trajectories."""
        images = {
            (field.name, k): array
            for field in fields(self._steps_type)
            if isinstance(column := getattr(steps, field.name), list)
            for k, array in enumerate(column)
            if array.ndim == IMAGE_AXES
        }
        for key, array in images.items():
            self._images.setdefault(key, ImageBuffer(self._expected)).reserve(array)
        for key, array in images.items():
            self._images[key].append(array)
        self._parts.append(self._without(steps, images) if images else steps)
        self._length += len(steps)

    def _without(self, steps: Columns, images: Mapping[tuple[str, int], ObsArray]) -> Columns:
        """The steps without images, and with copies of all else, which may be views of the same memory."""
        columns = {f.name: copied(getattr(steps, f.name)) for f in fields(self._steps_type)}
        for (name, k), array in images.items():
            columns[name][k] = np.empty((0, *array.shape[1:]), array.dtype)
        return self._steps_type(**columns)

    def _with(self, steps: Columns, images: Mapping[tuple[str, int], ObsArray]) -> Columns:
        """The steps with these images put back."""
        columns = {f.name: getattr(steps, f.name) for f in fields(self._steps_type)}
        for (name, k), array in images.items():
            columns[name] = [*columns[name][:k], array, *columns[name][k + 1 :]]
        return self._steps_type(**columns)

    def hold(self, steps: Columns) -> None:
        """Have these steps and no others, as they are: nothing is copied."""
        self._parts, self._length, self._images = [steps], len(steps), {}

    def columns(self) -> Columns:
        """All steps, in order of arrival; the buffer must not be empty."""
        self._parts = [joined(self._parts)]
        images = {key: buffer.images() for key, buffer in self._images.items() if len(buffer)}
        return self._with(self._parts[0], images)

    def clear(self) -> None:
        """Discard everything."""
        self._parts, self._length = [], 0
        for buffer in self._images.values():
            buffer.clear()

    def state_dict(self) -> dict[str, Any]:
        """Tensors for a checkpoint; {} when empty."""
        if not self._parts:
            return {}
        steps = self.columns()
        names = self._steps_type.saved_names
        columns = {names.get(f.name, f.name): getattr(steps, f.name) for f in fields(self._steps_type)}
        return {name: as_tensors(column) for name, column in columns.items() if column is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.clear()
        if state:
            names = self._steps_type.saved_names
            saved = {f.name: state.get(names.get(f.name, f.name)) for f in fields(self._steps_type)}
            columns = {name: as_arrays(column) for name, column in saved.items()}
            self.append(self._steps_type(**columns).restored())
