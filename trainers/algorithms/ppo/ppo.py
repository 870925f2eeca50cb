"""Proximal policy optimisation (Schulman et al. 2017, arXiv 1707.06347)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ....agent_processor.trajectory import Rollout
from ....envs.validation import NonFinite
from ...buffers.rollout_buffer import EvaluatedSteps, Evaluation
from ...checkpoints.transfer import load_matching
from ...networks.actor_critic import ActorCritic
from ...networks.modules.chunking import in_portions
from ...networks.modules.distributions import ActionDistribution, Actions
from ...networks.modules.precision import Precision, widened
from ...settings.models.algorithms import PPOSettings
from ...settings.models.behavior import TrainerSettings
from ..common.observations import count_observations, tensors
from ..common.optim import GuardedAdam
from ..common.recurrent import CriticMemories, padded, remember
from ..common.returns import generalized_advantages
from ..common.schedules import ClippedSchedules
from ..common.threads import UpdateThreads
from .fused import Array, DenseGradient
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


class PPO:
    """The networks, what the critic makes of a rollout, and the update."""

    looks_at_mates = False
    learns_as_team = False
    greedy_when_tested = False
    places = 0
    exploration = 0.0
    steps_kind = EvaluatedSteps

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinite,
        precision: Precision = Precision.FLOAT32,
    ) -> None:
        hyper = settings.hyperparameters
        assert isinstance(hyper, PPOSettings)
        self.hyper = hyper
        self.signals = list(settings.reward_signals)
        self.gammas = [s.gamma for s in settings.reward_signals.values()]
        self.device = device
        self.spec = spec
        init = torch.Generator().manual_seed(seed)
        self.network = ActorCritic(
            spec, settings.network_settings, self.signals, hyper.shared_critic, generator=init
        ).to(device)
        self.optimizer = GuardedAdam(self.network.parameters(), hyper.learning_rate, non_finite)
        memory = settings.network_settings.memory
        self.sequence_length = 1 if memory is None else memory.sequence_length
        self.memories = None if memory is None else CriticMemories(self.network.memory(-1).size)
        self.precision = precision
        dense = self.network.plain and memory is None
        dense = dense and not hyper.clip_value_loss and precision is Precision.FLOAT32
        self.closed_form = DenseGradient(self.network) if dense else None
        """The quick way to the gradient, where there is one."""
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)

    # What comes in ------------------------------------------------------------------------------------

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        network = self.network
        count_observations(
            rollout, network.encoder, network.update_normalization, self.optimizer, self.spec, self.device
        )

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> Evaluation[EvaluatedSteps]:
        """Values, generalised advantages and returns per signal.

        Behind an episode's true end nothing more is earned: the bootstrap value is zero there, unless the
        episode was interrupted or the signal goes on regardless.
        """
        if rollout.group_reward[: rollout.steps].any():
            self.optimizer.warn_once(
                "Group rewards without a team's trainer",
                "PPO counts what a group earns as each living member's own; trainer_type: poca also learns "
                "what each of them had to do with it, and what it earns after a member's end",
            )
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
        return Evaluation(steps, {"Value Estimate": values})

    @torch.inference_mode()
    def _values(self, rollout: Rollout) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The critic's values of the steps [steps, S] and of what follows each trajectory [J, S]."""
        values = in_portions(self.network.value, self._critic_inputs(rollout)).cpu().numpy()
        return values[: rollout.steps], values[rollout.steps :]

    @torch.inference_mode()
    def _remembered_values(
        self, rollout: Rollout, memories: CriticMemories
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """As `_values`, in the order of time; and the critic's states before each sequence."""
        encodings = in_portions(self.network.critic_encoding, self._critic_inputs(rollout))
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
        return self.network.prepare(tensors(obs, self.device))

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """These agents' unfinished episodes will never end: what the critic remembers of them goes."""
        if self.memories is not None:
            self.memories.forget(env, agent_ids)

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
        self.optimizer.zero_gradient()
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
            inputs = self.network.prepare(tensors(steps.obs, self.device))
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

    # Saving -------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        return load_matching({"Policy": self.network}, self.optimizer, state)

    def state_dict(self) -> dict[str, Any]:
        """Weights, normaliser, optimiser and random state: all that the next update depends on."""
        return {
            "Policy": self.network.state_dict(),
            "Optimizer": self.optimizer.state_dict(),
            "shuffler": self.shuffler.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.network.load_state_dict(state["Policy"])
        self.optimizer.load_state_dict(state["Optimizer"])
        self.shuffler.set_state(state["shuffler"].cpu())


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
