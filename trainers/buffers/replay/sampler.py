"""Batches sampled from a replay, with n-step returns (Sutton & Barto 2018, section 7.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...networks.modules.distributions import Actions
from ...networks.observations import as_float
from .buffer import Replay
from .demonstrations import DemonstrationReplay
from .observations import Ints
from .priorities import sequence_priorities


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """B steps sampled from a replay, on the learner's device; with a memory, whole sequences.

    Returns are those of n steps (`n_step`), fewer before an episode's end: rewards are their discounted sum,
    and `next_obs` is where the return bootstraps. The tensors are valid until the next batch is sampled.
    """

    obs: list[Tensor]
    """The observations per sensor [B, *shape]: float32, or uint8 for images that came as bytes."""
    next_obs: list[Tensor]
    """The observations where the return bootstraps, likewise."""
    actions: Actions
    """The actions as stored: continuous [B, A] float32, discrete [B, branches] int64."""
    action_mask: Tensor | None
    """The mask [B, sum of branch sizes], True where an action was forbidden; None if none ever was."""
    next_action_mask: Tensor | None
    """The action mask at `next_obs`, likewise."""
    rewards: Tensor
    """[B, signals] the discounted sum of the steps' rewards until `next_obs`, strengths included."""
    discounts: Tensor
    """[B, signals] the factor of the value of `next_obs`: gamma to the power of the steps, 0 after the
    true end of an episode (except for signals that ignore it)."""
    weights: Tensor | None
    """[B] importance weights of prioritized sampling, the largest 1; None: all are 1."""
    real: Tensor | None
    """A mask [B] bool, False where a sequence is padding; None without a memory."""
    states: Tensor | None
    """[sequences, memory_size]: the actor's state before each sequence; None without a memory."""
    ended: Tensor | None = None
    """A mask [B] bool, True where no rewards follow; None without `include_dones` (`ReplaySampler`)."""
    extra: Mapping[str, Tensor] = field(default_factory=dict)
    """[B, ...] the columns that the algorithm declared (`ExtraColumn`), by name."""

    def __len__(self) -> int:
        return len(self.rewards)


class ReplaySampler:
    """Samples batches on the learner's device, and updates their priorities."""

    def __init__(
        self,
        gammas: Sequence[float],
        ignores_ends: Sequence[bool],
        device: torch.device,
        seed: int,
        n_step: int = 1,
        *,
        include_dones: bool = False,
    ) -> None:
        """Prepare to sample.

        Args:
            gammas: of each reward signal.
            ignores_ends: of each signal, whether it continues after the true end of an episode.
            device: the learner's.
            seed: of the sampling.
            n_step: the number of steps of the returns.
            include_dones: batches state which steps ended their episodes.
        """
        self.gammas = np.array(gammas, np.float32)
        self.ignores_ends = np.array(ignores_ends, np.bool_)
        self.device = device
        self.n_step = n_step
        self.include_dones = include_dones
        self.generator = torch.Generator().manual_seed(seed)
        self._units: Ints = np.zeros(0, np.int64)
        self._demonstrated = 0
        """Units of the last batch that follow those of the replay."""

    def batch(
        self,
        replay: Replay,
        batch_size: int,
        beta: float = 1.0,
        scale: NDArray[np.float32] | None = None,
        demonstrations: DemonstrationReplay | None = None,
    ) -> ReplayBatch:
        """A batch of `batch_size` steps, rounded down to whole sequences but for the first.

        Args:
            replay: it must hold something.
            batch_size: steps.
            beta: how much of the bias of prioritized sampling is corrected.
            scale: [S] divides the rewards.
            demonstrations: give their share of the batch, after the steps of the replay.
        """
        units = max(1, batch_size // replay.layout.sequence_length)
        self._demonstrated = 0 if demonstrations is None else demonstrations.units(units)
        self._units = replay.sample(self._uniform(units - self._demonstrated))
        batch = self._gather(replay, replay.places(self._units), scale)
        if replay.priorities is not None:
            held = len(replay) // replay.layout.sequence_length
            weights = replay.priorities.importance_weights(self._units, held, beta)
            length = replay.layout.sequence_length
            batch = replace(batch, weights=self._tensor(np.repeat(weights, length)))
        if demonstrations is None or not self._demonstrated:
            return batch
        source = demonstrations.replay
        places = source.places(source.sample(self._uniform(self._demonstrated)))
        return joined(batch, self._gather(source, places, scale))

    def _uniform(self, units: int) -> NDArray[np.float64]:
        numbers: NDArray[np.float64] = torch.rand(
            units, generator=self.generator, dtype=torch.float64
        ).numpy()
        return numbers

    def _gather(self, replay: Replay, places: Ints, scale: NDArray[np.float32] | None) -> ReplayBatch:
        columns, layout = replay.columns, replay.layout
        rewards, discounts, following = n_step_returns(
            places,
            columns.rewards,
            columns.following,
            columns.ended,
            self.gammas,
            self.ignores_ends,
            self.n_step,
        )
        pairs = [observations.pairs(places, following) for observations in replay.observations]
        masks = (None, None) if columns.masks is None else columns.masks.pairs(places, following)
        length = layout.sequence_length
        states = columns.states.take(places[::length] // length, axis=0) if layout.memory_size else None
        return ReplayBatch(
            obs=[self._tensor(own) for own, _ in pairs],
            next_obs=[self._tensor(ahead) for _, ahead in pairs],
            actions=Actions(
                self._tensor(columns.continuous.take(places, axis=0)),
                self._tensor(columns.discrete.take(places, axis=0).astype(np.int64)),
            ),
            action_mask=None if masks[0] is None else self._tensor(masks[0]),
            next_action_mask=None if masks[1] is None else self._tensor(masks[1]),
            rewards=self._tensor(rewards if scale is None else rewards / scale),
            discounts=self._tensor(discounts),
            weights=None,
            real=self._tensor(columns.real.take(places)) if layout.memory_size else None,
            states=None if states is None else self._tensor(states),
            ended=self._tensor(columns.ended.take(places)) if self.include_dones else None,
            extra={name: self._tensor(column.take(places, axis=0)) for name, column in columns.extra.items()},
        )

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def update_priorities(self, replay: Replay, errors: Tensor | None) -> None:
        """Set the priorities of the last batch by its temporal-difference errors, see `UpdateResult`."""
        if replay.priorities is None or errors is None:
            return
        sizes = errors.detach().abs().float().cpu().numpy()
        sizes = sizes[: len(sizes) * len(self._units) // (len(self._units) + self._demonstrated)]
        length = replay.layout.sequence_length
        if length > 1:
            learned = len(sizes) // len(self._units)
            real = replay.columns.real[replay.places(self._units)].reshape(-1, length)[:, length - learned :]
            sizes = sequence_priorities(sizes, real.ravel(), learned)
        replay.priorities.update(self._units, sizes)

    def state_dict(self) -> dict[str, Any]:
        """The random state."""
        return {"drawing": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.generator.set_state(state["drawing"])


def joined(batch: ReplayBatch, more: ReplayBatch) -> ReplayBatch:
    """Two batches of one behavior as one; where the first has importance weights, those of `more` are 1."""
    length, added = len(batch), len(more)

    def joined_masks(first: Tensor | None, second: Tensor | None) -> Tensor | None:
        if first is None and second is None:
            return None
        first = second.new_zeros(length, second.shape[1]) if first is None and second is not None else first
        assert first is not None
        return torch.cat((first, first.new_zeros(added, first.shape[1]) if second is None else second))

    return ReplayBatch(
        obs=[_of_one_kind(*pair) for pair in zip(batch.obs, more.obs, strict=True)],
        next_obs=[_of_one_kind(*pair) for pair in zip(batch.next_obs, more.next_obs, strict=True)],
        actions=Actions(*map(torch.cat, zip(batch.actions, more.actions, strict=True))),
        action_mask=joined_masks(batch.action_mask, more.action_mask),
        next_action_mask=joined_masks(batch.next_action_mask, more.next_action_mask),
        rewards=torch.cat((batch.rewards, more.rewards)),
        discounts=torch.cat((batch.discounts, more.discounts)),
        weights=None if batch.weights is None else torch.cat((batch.weights, batch.weights.new_ones(added))),
        real=_both(batch.real, more.real),
        states=_both(batch.states, more.states),
        ended=_both(batch.ended, more.ended),
        extra={name: torch.cat((column, more.extra[name])) for name, column in batch.extra.items()},
    )


def _both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The rows of two columns that both batches have, or neither."""
    return None if first is None or second is None else torch.cat((first, second))


def _of_one_kind(first: Tensor, second: Tensor) -> Tensor:
    """The rows of both; as bytes only where both are."""
    if first.dtype != second.dtype:
        first, second = as_float(first), as_float(second)
    return torch.cat((first, second))


class Returns(NamedTuple):
    """The n-step returns of B steps; S reward signals."""

    rewards: NDArray[np.float32]
    """[B, S] the discounted sum of the rewards of the steps until `following`."""
    discounts: NDArray[np.float32]
    """[B, S] the factor of the value at `following`: gamma to the power of the number of steps, or 0."""
    following: Ints
    """[B] the slot of the observation where the return bootstraps."""


def n_step_returns(
    places: Ints,
    rewards: NDArray[np.float32],
    following: NDArray[np.int32],
    ended: NDArray[np.bool_],
    gammas: NDArray[np.float32],
    ignores_ends: NDArray[np.bool_],
    n: int,
) -> Returns:
    """Sum each step's reward and those of up to n - 1 following steps of the same agent.

    Args:
        places: [B] of the steps.
        rewards: [places, S].
        following: [places] the slot of the next observation: the next step's place where the agent continues,
            else beyond all places (or, with `own_observation`, the own place of an interrupted step).
        ended: [places] no rewards follow these steps.
        gammas: [S].
        ignores_ends: [S] signals that continue after the end of an episode.
        n: at least 1.
    """
    at, total = places, rewards.take(places, axis=0)
    powers, continues = np.broadcast_to(gammas, total.shape), np.True_
    for _ in range(n - 1):
        ahead = following[at].astype(np.int64)
        continues = continues & ~ended[at] & (ahead < len(rewards)) & (ahead != at)
        if not continues.any():
            break
        at = np.where(continues, ahead, at)
        total += np.where(continues[:, None], powers * rewards[at], np.float32(0.0))
        powers = powers * np.where(continues[:, None], gammas, np.float32(1.0))
    over = ended.take(at)[:, None] & ~ignores_ends
    return Returns(total, np.where(over, np.float32(0.0), powers), following.take(at).astype(np.int64))
