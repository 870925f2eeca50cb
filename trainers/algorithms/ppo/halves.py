"""PPO's update by two processes, one for each network: the same numbers in little more than half of the time.

Where actor and critic have no parameter in common and gradients are not clipped by their joint norm, neither
reads anything of the other during an update (their minibatches are drawn in advance by one generator). So
each process takes all gradient steps of one of them. Products, and the sums of Adam, are those of an update
of both, bit for bit, which is compared once; what a process computes for the other network is left there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...buffers.rollout_buffer import RolloutBatch
from ...networks.actor_critic import ActorCritic
from ...networks.modules.distributions import Actions
from ...settings.models.algorithms import PPOSettings
from ..base import Helper
from ..common.optim import CheckedAdam
from .fused import FusedPPOGradient, Half, Statistics

ALIGNED_UNITS = 32
"""Layers have to have a multiple of these. Products round by how their numbers lie in memory, and the second
network's lie behind those of the first; activations, of which vector instructions take 32 at a time, by what
is left over at the end."""
COMPARED = 16
"""Minibatches by which halves of a gradient are compared with a whole one; with a memory each has a number of
rows of its own."""
FEWEST_STEPS = 64
"""Gradient steps of an update from which the other process pays."""


@dataclass(frozen=True, slots=True)
class Moments:
    """The weights of both networks, and what Adam knows of them."""

    vector: Tensor
    """[parameters]"""
    mean: Tensor
    square: Tensor
    steps: int

    @classmethod
    def of(cls, optimizer: CheckedAdam) -> Moments:
        """A copy of an optimizer's."""
        adam = optimizer.adam
        return cls(optimizer.flat.vector.data.clone(), adam.mean.clone(), adam.square.clone(), adam.steps)

    def restore(self, optimizer: CheckedAdam, where: Tensor | None = None) -> None:
        """Copy them to an optimizer; `where`: [parameters] bool, only there."""
        adam = optimizer.adam
        own = optimizer.flat.vector.data, adam.mean, adam.square
        for tensor, kept in zip(own, (self.vector, self.mean, self.square), strict=True):
            tensor.copy_(kept if where is None else torch.where(where, kept, tensor))
        adam.steps = self.steps


@dataclass(frozen=True, slots=True)
class CriticJob:
    """What the critic's part of an update starts from."""

    before: Moments
    inputs: list[Tensor]
    """What the networks read of all steps, prepared."""
    returns: Tensor
    """[steps, signals]"""
    real: Tensor | None
    states: Tensor | None
    """[sequences, memory_size] of the critic; as of `RolloutBatch`."""
    shuffler: Tensor
    """The state of the generator that draws the minibatches."""
    learning_rate: float

    def run(self, trainer: Any) -> CriticResult | None:
        """Do it with the trainer of another process; None if a gradient is not finite."""
        found: CriticResult | None = trainer.algorithm.halves.learn_critic(self)
        return found


@dataclass(frozen=True, slots=True)
class CriticResult:
    """What the critic's part of an update has come to."""

    after: Moments
    losses: list[float]
    """Of each minibatch."""
    squares: list[float]
    """Of the gradients' norms."""


class Halves:
    """The two halves of an update.

    Args:
        network: whose actor and critic are streams of one body.
        optimizer: of all its parameters.
        shuffler: draws the minibatches.
        hyper: epochs, and the steps of a minibatch.
        sequence_length: of the sequences that are learned from; 1 without a memory.
    """

    def __init__(
        self,
        network: ActorCritic,
        optimizer: CheckedAdam,
        shuffler: torch.Generator,
        hyper: PPOSettings,
        sequence_length: int,
    ) -> None:
        self.optimizer, self.shuffler, self.hyper = optimizer, shuffler, hyper
        self.sequence_length = sequence_length
        self.whole = FusedPPOGradient(network)
        self.actor = FusedPPOGradient(network, Half.ACTOR)
        self.critic = FusedPPOGradient(network, Half.CRITIC)
        self.of_critic = _where_written(self.critic, optimizer)
        self.rounded_alike: bool | None = None
        """The products of one network are those of two on this processor; None: not compared yet."""

    def learn(
        self, helper: Helper, rollout: RolloutBatch, learning_rate: float, epsilon: float, beta: float
    ) -> list[Statistics] | None:
        """Let another process learn the critic, and learn the actor meanwhile.

        Returns:
            The statistics of each minibatch; None if nothing was learned: the process is not there (yet), or
            a gradient is not finite, which is to be handled by an update of both.
        """
        if self.gradient_steps(len(rollout.returns)) < FEWEST_STEPS or not self.rounds_alike(rollout):
            return None
        before, shuffler = Moments.of(self.optimizer), self.shuffler.get_state()
        columns = rollout.inputs, rollout.returns, rollout.real, rollout.critic_states
        job = CriticJob(before, *columns, shuffler, learning_rate)
        if not helper.begin(job):
            return None
        try:
            statistics, squares = self._learn_actor(rollout, learning_rate, epsilon, beta)
        except BaseException:
            self._restore(before, shuffler)
            helper.abandon()
            raise
        found: CriticResult | None = helper.result()
        if found is not None and len(squares) == len(found.squares):
            sums = [float(np.float32(own + other)) for own, other in zip(squares, found.squares, strict=True)]
            if np.isfinite(sums).all():  # of both, in the precision of an update of both
                found.after.restore(self.optimizer, self.of_critic)
                for square in sums:
                    self.optimizer.count_norm(square)
                pairs = zip(statistics, found.losses, strict=True)
                return [(own[0], np.float32(loss), own[2], own[3]) for own, loss in pairs]
        self._restore(before, shuffler)
        return None

    def _restore(self, before: Moments, shuffler: Tensor) -> None:
        before.restore(self.optimizer)
        self.shuffler.set_state(shuffler)

    def rounds_alike(self, rollout: RolloutBatch) -> bool:
        """Whether halves of a gradient have the bits of a whole one, compared by a few minibatches."""
        if self.rounded_alike is None:
            shuffler = torch.Generator().manual_seed(0)
            batches = rollout.minibatches(self.hyper.batch_size, shuffler, self.sequence_length)
            for batch in islice(batches, COMPARED):
                gradient = self.optimizer.flat.gradient
                self.whole(batch, 0.2, 0.0)
                whole = gradient.clone()
                if not torch.isfinite(whole).all():
                    return False
                self.optimizer.zero_grad()
                self.actor(batch, 0.2, 0.0)
                self.critic(batch, 0.2, 0.0)
                self.rounded_alike = torch.equal(whole, gradient)
                if not self.rounded_alike:
                    break
        return bool(self.rounded_alike)

    def gradient_steps(self, steps: int) -> int:
        """Of an update by so many agent-steps."""
        together = max(self.hyper.batch_size // self.sequence_length, 1)
        return self.hyper.num_epoch * (steps // self.sequence_length // together)

    def learn_critic(self, job: CriticJob) -> CriticResult | None:
        """The critic's half, in the other process; None if a gradient is not finite."""
        job.before.restore(self.optimizer)
        self.optimizer.zero_grad()
        self.shuffler.set_state(job.shuffler)
        losses, squares = list[float](), list[float]()
        for batch in self._minibatches(_of_critic(job)):
            losses.append(float(self.critic(batch, 0.0, 0.0)[1]))
            square = self.optimizer.step_of_half(job.learning_rate)
            if square is None:
                return None
            squares.append(square)
        return CriticResult(Moments.of(self.optimizer), losses, squares)

    def _learn_actor(
        self, rollout: RolloutBatch, learning_rate: float, epsilon: float, beta: float
    ) -> tuple[list[Statistics], list[float]]:
        """The statistics of the minibatches, and the squares of the norms until one is not finite."""
        self.optimizer.zero_grad()
        statistics, squares = list[Statistics](), list[float]()
        nothing = _nothing(rollout.returns)
        own = rollout._replace(
            returns=nothing, old_values=nothing, critic_states=_nothing(rollout.critic_states)
        )
        for batch in self._minibatches(own):
            statistics.append(self.actor(batch, epsilon, beta))
            square = self.optimizer.step_of_half(learning_rate)
            if square is None:
                break
            squares.append(square)
        return statistics, squares

    def _minibatches(self, rollout: RolloutBatch) -> Iterator[RolloutBatch]:
        for _ in range(self.hyper.num_epoch):
            yield from rollout.minibatches(self.hyper.batch_size, self.shuffler, self.sequence_length)


def _of_critic(job: CriticJob) -> RolloutBatch:
    """No more than what a critic learns from."""
    nothing = _nothing(job.returns)
    columns = nothing, nothing, nothing, job.returns, job.real, _nothing(job.states), job.states
    return RolloutBatch(job.inputs, Actions(nothing, nothing), None, *columns)


def _nothing(column: Tensor | None) -> Any:
    """As many rows without a column, if there are any."""
    return None if column is None else column.new_empty((len(column), 0))


def _where_written(critic: FusedPPOGradient, optimizer: CheckedAdam) -> Tensor:
    """[parameters] bool, the critic's."""
    optimizer.zero_grad()
    for layer in (*critic.layers, critic.values):
        layer.d_weight.fill_(1.0)
        layer.d_bias.fill_(1.0)
    for gradient in [] if critic.memory is None else critic.memory.gradients:
        gradient.fill_(1.0)
    found = optimizer.flat.gradient != 0.0
    optimizer.zero_grad()
    return found
