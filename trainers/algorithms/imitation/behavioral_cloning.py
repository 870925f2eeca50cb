"""Behavioral cloning beside reinforcement learning: the policy also learns to imitate an expert.

Pomerleau 1991, "Efficient training of artificial neural networks for autonomous navigation"; with a memory,
sequences start in stored states, as in Kapturowski et al. 2019, "R2D2".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ....agent_processor.rollout import pad_sequences
from ....envs.validation import NonFinitePolicy
from ...buffers.demonstrations import Demonstrations
from ...networks.actor import Actor
from ...networks.actor_critic import ActorCritic
from ...networks.modules.distributions import ActionDistribution, Actions
from ...networks.modules.memory import PackedSequences
from ...networks.multi_actor import MultiActor
from ...networks.observations import to_tensors
from ...settings.models.rewards import BehavioralCloningSettings
from ...utils.distributed import world_size
from ..common.optim import LEARNING_RATE_FLOOR, CheckedAdam, FlatParameters, Schedule
from .implicit_q_learning import ImplicitQLearning
from .losses import policy_loss

LOSS = "Losses/Pretraining Loss"
EPOCHS = 3
"""The number of passes over the demonstration in an update, unless the settings give another."""
CHUNK = 1024
"""The number of steps in one forward pass."""
ACTION_ERROR = "Cloning/Held-out Action Error"
"""The mean squared error of continuous actions, as the engine receives them."""
ACCURACY = "Cloning/Held-out Accuracy"
"""The share of discrete actions that the policy finds likeliest too."""


class DemonstrationRows(NamedTuple):
    """The demonstration on the learner's device: P rows, whole sequences."""

    obs: list[Tensor]
    actions: Actions
    action_mask: Tensor | None
    """The mask [P, sum of branch sizes], True where the action was not allowed; None if all always were."""
    real: Tensor | None
    """A mask [P] bool, False for padding; None without any."""
    following: Tensor
    """[sequences] the next sequence of the same episode; the number of sequences where there is none."""


class Acted(NamedTuple):
    """What the policy gives at B steps."""

    distribution: ActionDistribution
    states: Tensor | None
    """[sequences, memory_size] the states after the sequences; None without a memory."""


class ClonedPolicy:
    """A policy and the parameters that are updated with it."""

    def __init__(self, network: Actor | ActorCritic | MultiActor, parameters: FlatParameters) -> None:
        """Take the policy's `parameters`; others among them get no gradient here and do not change."""
        self.network = network
        self.parameters = parameters

    @property
    def memory_size(self) -> int:
        """The length of a recurrent state; 0 without a memory."""
        return self.network.memory_size

    def prepare(self, obs: Sequence[Tensor]) -> list[Tensor]:
        """The network's input, normalized as when it acts, from one [B, *shape] tensor per observation."""
        return self.network.prepare(obs)

    def __call__(
        self,
        inputs: Sequence[Tensor],
        action_mask: Tensor | None,
        states: Tensor | None,
        length: int,
        random: torch.Generator,
    ) -> Acted:
        """The policy at B steps, in sequences of `length`.

        Args:
            inputs: prepared observations.
            action_mask: [B, sum of branch sizes] bool, True where forbidden; None: nothing is.
            states: [B / length, memory_size] before the sequences; None without a memory.
            length: 1 without a memory.
            random: samples the slot that learns from a sequence, where policies differ by slot.
        """
        if isinstance(self.network, MultiActor):
            return self._per_slot(self.network, inputs, action_mask, states, length, random)
        if states is None:
            return Acted(self.network.act(inputs, action_mask), None)
        return Acted(*self.network.act_with_memory(inputs, states, length, action_mask))

    def _per_slot(
        self,
        actors: MultiActor,
        inputs: Sequence[Tensor],
        action_mask: Tensor | None,
        states: Tensor | None,
        length: int,
        random: torch.Generator,
    ) -> Acted:
        """All slots learn from the demonstration, each from sequences of its own."""
        sequences = len(inputs[0]) // length
        drawn = torch.randint(actors.slot_count, (sequences,), generator=random, device="cpu")
        slots = drawn.repeat_interleave(length).to(inputs[0].device)
        packed = None if states is None else PackedSequences([length] * sequences, states)
        logits, final = actors.logits(inputs, slots, packed)
        return Acted(actors.member(0).actions.distribution(logits, action_mask), final)


class BehavioralCloning:
    """Trains a policy on a demonstration with an Adam of its own, once per update of the policy."""

    def __init__(
        self,
        policy: ClonedPolicy,
        demos: Demonstrations,
        settings: BehavioralCloningSettings,
        *,
        learning_rate: float,
        batch_size: int,
        sequence_length: int,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
        as_engine: bool,
        values: ImplicitQLearning | None = None,
    ) -> None:
        """Prepare the demonstration.

        Args:
            policy: that learns.
            demos: the expert's.
            settings: of the section `behavioral_cloning`.
            learning_rate: the policy's initial one.
            batch_size: the policy's, used unless the settings give one.
            sequence_length: of the sequences that a recurrent policy learns from; 1 without a memory.
            device: the learner's.
            seed: of the order of steps, and of sampled actions.
            non_finite: how to handle gradients that are not finite.
            as_engine: compare continuous actions as the engine receives them.
            values: which say how much a step is to be imitated, of a policy without a memory; None: all of
                them alike.
        """
        self.values = values
        self.policy, self.settings, self.sequence_length = policy, settings, sequence_length
        initial = learning_rate * settings.strength
        self.as_engine = as_engine
        self.schedule = Schedule(initial, LEARNING_RATE_FLOOR, settings.steps, linear=settings.steps > 0)
        self.rate = initial
        """The learning rate of the next update; the schedule is evaluated after each."""
        self.optimizer = CheckedAdam(policy.parameters, initial, non_finite, of="the behavioral cloning")
        self.demonstration = _to_rows(demos, sequence_length, device)
        self.sequences = len(self.demonstration.following)
        self.device = device
        self.random = torch.Generator().manual_seed(seed)
        self.epochs = settings.num_epoch or EPOCHS
        rows = self.sequences * sequence_length
        size = min(settings.batch_size or batch_size, rows)
        self.together = max(size // sequence_length, 1)
        """The number of sequences in a minibatch."""
        self.minibatches = self._minibatches(rows)
        """The number of minibatches in an epoch."""
        self.together = max(self.together // world_size(), 1)  # the ranks make the minibatch together
        size = self.policy.memory_size
        self.states = torch.zeros((self.sequences + 1, size), device=self.device) if size else None
        """[sequences + 1, memory_size] the state before each sequence, from the last pass through the one
        before; the last row is of no sequence. None without a memory."""

    def _minibatches(self, rows: int) -> int:
        """Count an epoch's minibatches as ML-Agents does, but at least 1: with 0 it only reports NaN."""
        count = rows // self.together
        most = self.settings.samples_per_update // self.together
        if most > 0:
            count = min(count, most)
        return max(count // self.sequence_length, 1)

    def update(self, policy_step: int) -> dict[str, float]:
        """Learn for `epochs` epochs; the mean loss, 0 once the imitation has faded out."""
        if self.rate <= LEARNING_RATE_FLOOR:
            return {LOSS: 0.0}
        losses = [loss for _ in range(self.epochs) for loss in self.epoch(policy_step, self.minibatches)]
        self.rate = self.schedule(policy_step)
        return {LOSS: float(np.mean(losses))}

    def epoch(self, policy_step: int, minibatches: int) -> list[float]:
        """Take a gradient step by each of so many minibatches, in random order; return their losses."""
        order = torch.randperm(self.sequences, generator=self.random, device="cpu").to(self.device)
        together = torch.split(order, self.together)[:minibatches]
        return [self._step(sequences, policy_step) for sequences in together]

    def _step(self, sequences: Tensor, policy_step: int) -> float:
        """Take one gradient step by these sequences; return the loss before it."""
        rows_of_demo, length = self.demonstration, self.sequence_length
        rows = sequences
        if length > 1:
            rows = (sequences[:, None] * length + torch.arange(length, device=self.device)).flatten()
        with torch.no_grad():
            inputs = self.policy.prepare([column.index_select(0, rows) for column in rows_of_demo.obs])
        weights = None
        if self.values is not None:
            with torch.no_grad():
                next_inputs = self.policy.prepare(self.values.next_obs(rows_of_demo.obs, rows))
            weights = self.values.step(rows, inputs, next_inputs, policy_step)
        acted = self.policy(
            inputs,
            None if rows_of_demo.action_mask is None else rows_of_demo.action_mask.index_select(0, rows),
            None if self.states is None else self.states.index_select(0, sequences),
            length,
            self.random,
        )
        loss = policy_loss(
            acted.distribution.widened(),
            Actions(*(column.index_select(0, rows) for column in rows_of_demo.actions)),
            None if rows_of_demo.real is None else rows_of_demo.real.index_select(0, rows),
            self.random,
            as_engine=self.as_engine,
            weights=weights,
        )
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(self.rate, policy_step)
        if self.states is not None and acted.states is not None:
            self.states[rows_of_demo.following.index_select(0, sequences)] = acted.states.detach()
        return loss.item()

    # Saving -------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Optimizer, rate, random state and recurrent states: all that the next update depends on."""
        return {
            "Optimizer": self.optimizer.state_dict(),
            "rate": self.rate,
            "random": self.random.get_state(),
            "states": self.states,
            **({} if self.values is None else {"values": self.values.state_dict()}),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; with another demonstration recurrent states restart at zero."""
        self.optimizer.load_state_dict(state["Optimizer"])
        self.rate = float(state["rate"])
        self.random.set_state(state["random"].cpu())
        if self.values is not None:
            self.values.load_state_dict(state["values"])
        saved = state["states"]
        if self.states is not None and saved is not None and saved.shape == self.states.shape:
            self.states.copy_(saved)


def _to_rows(demos: Demonstrations, sequence_length: int, device: torch.device) -> DemonstrationRows:
    """The demonstration's episodes, padded at their ends to whole sequences."""
    sequences = pad_sequences(demos.lengths, sequence_length)

    def tensor(column: np.ndarray[Any, Any], repeat_last: bool = False) -> Tensor:
        return torch.from_numpy(sequences.column(column, repeat_last)).to(device)

    mask = demos.action_mask
    of_episodes = -(-demos.lengths // sequence_length)
    count = int(of_episodes.sum())
    following = np.arange(1, count + 1)
    following[np.cumsum(of_episodes) - 1] = count
    return DemonstrationRows(
        [tensor(column) for column in demos.obs],
        Actions(tensor(demos.continuous), tensor(demos.discrete.astype(np.int64))),
        None if mask is None or not mask.any() else tensor(mask, repeat_last=True),
        None if sequences.real.all() else torch.from_numpy(sequences.real).to(device),
        torch.from_numpy(following).to(device),
    )


@torch.no_grad()
def agreement(policy: ClonedPolicy, demos: Demonstrations, device: torch.device) -> dict[str, float]:
    """How well the policy's best actions agree with the expert's in some episodes, by statistics' names."""
    squared, equal = 0.0, 0.0
    for rows, best in _best_actions(policy, demos, device):
        continuous, discrete = to_tensors([demos.continuous[rows], demos.discrete[rows]], device)
        squared += float((best.continuous - continuous.clamp(-1.0, 1.0)).double().square().sum())
        equal += float((best.discrete == discrete).double().sum())
    metrics = {}
    if demos.continuous.size:
        metrics[ACTION_ERROR] = squared / demos.continuous.size
    if demos.discrete.size:
        metrics[ACCURACY] = equal / demos.discrete.size
    return metrics


def _best_actions(
    policy: ClonedPolicy, demos: Demonstrations, device: torch.device
) -> Iterator[tuple[slice, Actions]]:
    """Rows, and the policy's likeliest actions there, as the engine receives them."""
    size, random = policy.memory_size, torch.Generator().manual_seed(0)
    start = 0
    for length in demos.lengths.tolist() if size else [len(demos)]:
        states: Tensor | None = torch.zeros((1, size), device=device) if size else None
        for first in range(start, start + length, CHUNK):
            rows = slice(first, min(first + CHUNK, start + length))
            inputs = policy.prepare(to_tensors([column[rows] for column in demos.obs], device))
            mask = None if demos.action_mask is None else to_tensors([demos.action_mask[rows]], device)[0]
            together = rows.stop - rows.start if size else 1
            distribution, states = policy(inputs, mask, states, together, random)
            distribution = distribution.widened()
            best = distribution.deterministic()
            yield rows, Actions(distribution.to_engine(best.continuous), best.discrete)
        start += length
