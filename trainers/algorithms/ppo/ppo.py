"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ....agent_processor.trajectory import Rollout
from ...buffers.rollout_buffer import EvaluatedSteps, RolloutEvaluation
from ...networks.actor_critic import ActorCritic
from ...networks.modules.chunking import chunked_forward
from ...networks.modules.distributions import ActionDistribution, Actions
from ...networks.modules.precision import Precision, widened
from ...settings.models.algorithms import PPOSettings
from ...settings.models.behavior import TrainerSettings
from ..base import OnPolicyAlgorithm, Traits
from ..common.fused import Array
from ..common.observations import to_tensors
from ..common.optim import CheckedAdam
from ..common.recurrent import CriticStates, padded, remember
from ..common.returns import generalized_advantages
from ..common.schedules import ClippedSchedules
from ..common.threads import UpdateThreads
from .fused import FusedPPOGradient
from .losses import VALUE_WEIGHT, clipped_value_loss, masked_mean, ppo_losses


class Minibatch(NamedTuple):
    """Rows of the update buffer on the learner's device; B of them."""

    inputs: list[Tensor]
    actions: Actions
    action_mask: Tensor | None
    """[B, sum of branch sizes], True where the action was forbidden; None when nothing ever was."""
    old_log_probs: Tensor
    advantages: Tensor
    """[B, 1], normalised."""
    values: Tensor
    returns: Tensor
    """[B, signals]."""
    real: Tensor | None
    """[B] bool, False for padding; None without a memory, as are the next two."""
    actor_states: Tensor | None
    critic_states: Tensor | None
    """[sequences, the memory's size], before each of the sequences of which the rows then consist."""


class PPO(OnPolicyAlgorithm[EvaluatedSteps]):
    """The networks, the evaluation of rollouts, and the update."""

    name = "PPO"
    traits = Traits(loads_mlagents=True)
    steps_type = EvaluatedSteps
    network: ActorCritic
    hyper: PPOSettings

    def build(self, settings: TrainerSettings, seed: int) -> None:
        """See `Algorithm.build`."""
        hyper = settings.hyperparameters
        assert isinstance(hyper, PPOSettings)
        init = torch.Generator().manual_seed(seed)
        network = ActorCritic(
            self.spec, settings.network_settings, self.signals, hyper.shared_critic, generator=init
        )
        self.network = network.to(self.device)
        self.optimizer = CheckedAdam(self.network.parameters(), hyper.learning_rate, self.non_finite)
        self.memories = CriticStates(self.network.memory(-1).size) if self.is_recurrent else None
        dense = self.network.plain and not self.is_recurrent
        dense = dense and not hyper.clip_value_loss and self.precision is Precision.FLOAT32
        self.closed_form = FusedPPOGradient(self.network) if dense else None
        """The quick way to the gradient, where there is one."""
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)

    def modules(self) -> dict[str, nn.Module]:
        """See `Algorithm.modules`."""
        return {"Policy": self.network}

    def optimizers(self) -> dict[str, CheckedAdam]:
        """See `Algorithm.optimizers`."""
        return {"Optimizer": self.optimizer}

    def generators(self) -> dict[str, torch.Generator]:
        """See `Algorithm.generators`."""
        return {"shuffler": self.shuffler}

    # Evaluation -----------------------------------------------------------------------------------------

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> RolloutEvaluation[EvaluatedSteps]:
        """Values, generalised advantages and returns per signal.

        Behind an episode's true end nothing more is earned: the bootstrap value is zero there, unless the
        episode was interrupted or the signal goes on regardless.
        """
        self.warn_of_group_rewards(rollout)
        starts = None
        if self.memories is None:
            values, next_values = self._values(rollout)
        else:
            values, next_values, starts = self._remembered_values(rollout, self.memories)
        ended = rollout.done_reached & ~rollout.interrupted_at_end
        advantages = np.empty_like(values)
        for s, name in enumerate(self.signals):
            bootstrap = next_values[:, s] if ignores_done[name] else np.where(ended, 0.0, next_values[:, s])
            advantages[:, s] = generalized_advantages(
                rewards[name],
                values[:, s],
                bootstrap.astype(np.float32),
                self.gammas[s],
                self.hyper.lambd,
                rollout.lengths,
            )
        own = slice(rollout.steps)
        steps = EvaluatedSteps(
            obs=[o[own] for o in rollout.obs],
            continuous=rollout.continuous[own],
            discrete=rollout.discrete[own],
            log_probs=rollout.log_probs[own],
            action_mask=None if rollout.action_mask is None else rollout.action_mask[own],
            values=values,
            returns=advantages + values,
            advantages=advantages.mean(axis=1),
        )
        if starts is not None:
            steps = padded(steps, rollout, self.sequence_length, starts)
        return RolloutEvaluation(steps, {"Value Estimate": values})

    @torch.inference_mode()
    def _values(self, rollout: Rollout) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The critic's values of the steps [steps, S] and of what follows each trajectory [J, S]."""
        values = chunked_forward(self.network.value, self._critic_inputs(rollout)).cpu().numpy()
        return values[: rollout.steps], values[rollout.steps :]

    @torch.inference_mode()
    def _remembered_values(
        self, rollout: Rollout, memories: CriticStates
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """As `_values`, in the order of time; and the critic's states before each sequence."""
        encodings = chunked_forward(self.network.critic_encoding, self._critic_inputs(rollout))
        steps, following = encodings[: rollout.steps], encodings[rollout.steps :]
        said = remember(self.network.memory(-1), memories, rollout, self.sequence_length, steps, following)
        assert said.following is not None
        values, next_values = self.network.values(said.steps), self.network.values(said.following)
        return values.cpu().numpy(), next_values.cpu().numpy(), said.starts

    def _critic_inputs(self, rollout: Rollout) -> list[Tensor]:
        """What the critic reads of the steps, and behind them of what follows each trajectory."""
        obs = [
            np.concatenate([o[: rollout.steps], following])
            for o, following in zip(rollout.obs, rollout.next_obs, strict=True)
        ]
        return self.network.prepare(to_tensors(obs, self.device))

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop the critic's states of these agents; see `Algorithm.reset_agents`."""
        if self.memories is not None:
            self.memories.reset_agents(env, agent_ids)

    # The update ---------------------------------------------------------------------------------------

    def update(self, steps: EvaluatedSteps, policy_step: int, threads: UpdateThreads) -> dict[str, float]:
        """Several epochs over all steps in shuffled minibatches; mean losses and the schedules' values."""
        rate, epsilon, beta = self.schedules.at(policy_step)
        columns = self._columns(steps)
        losses = []
        for _ in range(self.hyper.num_epoch):
            for minibatch in threads.over(self._minibatches(columns)):
                losses.append(self._gradient(minibatch, epsilon, beta))
                self.optimizer.step(rate, policy_step)
        schedules = {"Policy/Learning Rate": rate, "Policy/Epsilon": epsilon, "Policy/Beta": beta}
        if not losses:
            self.optimizer.warn_once(
                "Nothing was learnt",
                f"{len(steps)} steps are no whole minibatch of batch_size {self.hyper.batch_size}",
            )
            return schedules
        policy, value = _means(losses)
        return {"Losses/Policy Loss": policy, "Losses/Value Loss": value, **schedules}

    def _gradient(self, batch: Minibatch, epsilon: float, beta: float) -> tuple[Array, Array]:
        """The gradient of one minibatch; its policy loss and value loss, wherever they are."""
        if self.closed_form is None:
            return self._derived_gradient(batch, epsilon, beta)
        return self.closed_form(
            batch.inputs,
            batch.actions,
            batch.action_mask,
            batch.old_log_probs,
            batch.advantages,
            batch.returns,
            epsilon,
            beta,
        )

    def _derived_gradient(self, batch: Minibatch, epsilon: float, beta: float) -> tuple[Tensor, Tensor]:
        """The gradient by automatic differentiation; the policy and the value loss."""
        with self.precision.passes(self.device):
            distribution, values = self._evaluate(batch)
        distribution, values = distribution.widened(), widened(values)
        losses = ppo_losses(
            distribution.log_probs(batch.actions),
            batch.old_log_probs,
            batch.advantages,
            distribution.entropy(),
            values,
            batch.returns,
            epsilon,
            beta,
            batch.real,
        )
        total, value_loss = losses.total, losses.value
        if self.hyper.clip_value_loss:
            clipped = clipped_value_loss(values, batch.values, batch.returns, epsilon, batch.real)
            plain = masked_mean((batch.returns - values) ** 2, batch.real)
            total = total + VALUE_WEIGHT * (clipped - plain)
            value_loss = clipped
        self.optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        return losses.policy.detach(), value_loss.detach()

    def _evaluate(self, batch: Minibatch) -> tuple[ActionDistribution, Tensor]:
        """Policy and critic at every row."""
        if batch.actor_states is None or batch.critic_states is None:
            return self.network.evaluate(batch.inputs, batch.action_mask)
        return self.network.evaluate_with_memory(
            batch.inputs, batch.actor_states, batch.critic_states, self.sequence_length, batch.action_mask
        )

    def _columns(self, steps: EvaluatedSteps) -> Minibatch:
        """All rows on the device; observations are normalised here, once for all epochs."""

        def tensor(column: NDArray[Any]) -> Tensor:
            return torch.from_numpy(column).to(self.device)

        def optional(column: NDArray[Any] | None) -> Tensor | None:
            return None if column is None else tensor(column)

        spread = steps.advantages - steps.advantages.mean()
        advantages = (spread / (steps.advantages.std() + 1e-10)).astype(np.float32)
        with torch.no_grad():
            inputs = self.network.prepare(to_tensors(steps.obs, self.device))
        return Minibatch(
            inputs,
            Actions(tensor(steps.continuous), tensor(steps.discrete.astype(np.int64))),
            None if steps.action_mask is None or not steps.action_mask.any() else tensor(steps.action_mask),
            tensor(steps.log_probs),
            tensor(advantages[:, None]),
            tensor(steps.values),
            tensor(steps.returns),
            optional(steps.real),
            optional(steps.memory),
            optional(steps.critic_memory),
        )

    def _minibatches(self, rows: Minibatch) -> Iterator[Minibatch]:
        """One epoch: a fresh order, cut into whole minibatches; what is left over sits this epoch out.

        With a memory whole sequences take places in the order, and as many go together as `batch_size` holds.
        """
        length = self.sequence_length
        together = max(self.hyper.batch_size // length, 1)
        sequences = torch.randperm(len(rows.advantages) // length, generator=self.shuffler, device="cpu")
        sequences, number = sequences.to(self.device), len(sequences) // together
        if not number:
            return
        order, size = sequences, together * length
        if length > 1:
            order = self._rows_of(sequences)

        def cut(column: Tensor) -> tuple[Tensor, ...]:
            pieces: tuple[Tensor, ...] = torch.split(column.index_select(0, order), size)
            return pieces

        def cut_states(column: Tensor | None) -> Sequence[Tensor | None]:
            if column is None:
                return [None] * number
            return torch.split(column.index_select(0, sequences), together)

        def cut_input(column: Tensor) -> Iterator[Tensor]:
            if column.dim() < 4:
                return iter(cut(column))
            # Pictures that are put in a fresh order all at once would be there twice.
            return (column.index_select(0, rows) for rows in torch.split(order, size))

        inputs = [cut_input(x) for x in rows.inputs]
        continuous, discrete = cut(rows.actions.continuous), cut(rows.actions.discrete)
        mask = None if rows.action_mask is None else cut(rows.action_mask)
        log_probs, advantages = cut(rows.old_log_probs), cut(rows.advantages)
        values, returns = cut(rows.values), cut(rows.returns)
        real = None if rows.real is None else cut(rows.real)
        actor_states, critic_states = cut_states(rows.actor_states), cut_states(rows.critic_states)
        for i in range(number):
            yield Minibatch(
                [next(x) for x in inputs],
                Actions(continuous[i], discrete[i]),
                None if mask is None else mask[i],
                log_probs[i],
                advantages[i],
                values[i],
                returns[i],
                None if real is None else real[i],
                actor_states[i],
                critic_states[i],
            )

    def _rows_of(self, sequences: Tensor) -> Tensor:
        """The rows of some sequences, one behind another."""
        length = self.sequence_length
        return (sequences.reshape(-1, 1) * length + torch.arange(length, device=self.device)).flatten()


def _means(losses: Sequence[tuple[Array, Array]]) -> tuple[float, float]:
    """The mean size of each; tensors stay on their device until here, which a read from would hold up."""
    of_tensors = isinstance(losses[0][0], Tensor)
    if of_tensors:
        columns = torch.stack([torch.stack(pair) for pair in losses]).double()
    else:
        columns = torch.from_numpy(np.array(losses, dtype=np.float64))
    sizes = columns.abs_()
    policy, value = (sizes if of_tensors else sizes.numpy()).mean(0).tolist()
    return policy, value
