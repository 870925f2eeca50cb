"""Multi-agent posthumous credit assignment (Cohen et al. 2021, arXiv 2111.05992).

A team's value is estimated from what all members see; what a member did is judged against a baseline that
knows the others' actions, but not its own. A member that dies goes on earning what its team earns: its last
step is bootstrapped by the survivors' value until the whole team has ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor

from ...agent_processor.trajectory import Rollout
from ...envs.finite import NonFinite
from ..distributions import Actions
from ..gradient import GuardedAdam
from ..initial_weights import take_over
from ..networks.actor import Actor
from ..networks.team_critic import Members, TeamCritic, flat_actions
from ..returns import lambda_returns
from ..schedules import ClippedSchedules
from ..settings.behavior import TrainerSettings
from ..update_buffer import Evaluation
from .losses import poca_losses
from .moments import Moments, group_moments
from .settings import POCASettings
from .steps import Floats, Rows, TeamSteps

EVALUATED_AT_ONCE = 2048
"""Steps that the critic values in one pass; memory grows with the members of their teams."""


class TeamRows(NamedTuple):
    """Rows on the learner's device, as actor and critic read them."""

    inputs: list[Tensor]
    actions: Tensor
    """[R, action size], see `flat_actions`."""

    def take(self, which: Tensor) -> TeamRows:
        """Some of the rows, in this order."""
        return TeamRows([x.index_select(0, which) for x in self.inputs], self.actions.index_select(0, which))


class StepColumns(NamedTuple):
    """What the update needs of each of N steps, on the learner's device."""

    rows: Tensor
    actions: Actions
    action_mask: Tensor | None
    old_log_probs: Tensor
    advantages: Tensor
    """[N, 1], normalised."""
    old_baselines: Tensor
    returns: Tensor


class POCA:
    """The networks, what the critic makes of a rollout, and the update."""

    looks_at_mates = True
    steps_kind = TeamSteps

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinite,
    ) -> None:
        hyper = settings.hyperparameters
        assert isinstance(hyper, POCASettings)
        self.hyper = hyper
        self.spec = spec
        self.signals = list(settings.reward_signals)
        self.gammas = [s.gamma for s in settings.reward_signals.values()]
        self.device = device
        init = torch.Generator().manual_seed(seed)
        self.network = Actor(spec, settings.network_settings, init).to(device)
        self.critic = TeamCritic(spec, settings.network_settings, self.signals, init).to(device)
        parameters = [*self.network.parameters(), *self.critic.parameters()]
        self.optimizer = GuardedAdam(parameters, hyper.learning_rate, non_finite)
        self.shuffler = torch.Generator().manual_seed(seed + 1)
        self.schedules = ClippedSchedules.of(hyper, settings.max_steps)

    # What comes in ------------------------------------------------------------------------------------

    def normalize(self, rollout: Rollout) -> None:
        """Let the running observation statistics take in the trajectories' own steps.

        Raises:
            FloatingPointError: numbers are too large for that, and `non_finite` is STOP.
        """
        obs = [o[: rollout.steps] for o in rollout.obs]
        if not self.network.update_normalization(self._obs(obs)):
            self.optimizer.leave_out(self.spec, obs)

    def evaluate(
        self,
        rollout: Rollout,
        rewards: Mapping[str, NDArray[np.float32]],
        ignores_done: Mapping[str, bool],
    ) -> Evaluation[TeamSteps]:
        """Values, baselines and TD(lambda) returns per signal.

        Nothing more is earned only once the whole team has truly ended: then the bootstrap value is zero,
        unless the signal goes on regardless.
        """
        values, baselines = self._estimates(rollout)
        next_values = self._next_values(rollout)
        ended = rollout.done_reached & rollout.all_group_dones & ~rollout.interrupted_at_end
        returns = np.empty_like(values)
        for s, name in enumerate(self.signals):
            bootstrap = next_values[:, s] if ignores_done[name] else np.where(ended, 0.0, next_values[:, s])
            returns[:, s] = lambda_returns(
                rewards[name],
                values[:, s],
                bootstrap.astype(np.float32),
                self.gammas[s],
                self.hyper.lambd,
                rollout.lengths,
            )
        steps = TeamSteps.of(rollout, baselines, returns)
        return Evaluation(steps, {"Baseline Estimate": baselines, "Value Estimate": values})

    @torch.inference_mode()
    def _estimates(self, rollout: Rollout) -> tuple[Floats, Floats]:
        """Values and baselines of the steps, [steps, S] each."""
        rows = self._rows(rollout.obs, rollout.continuous, rollout.discrete)
        moments = group_moments(np.arange(rollout.steps), rollout.mates)
        values = np.empty((rollout.steps, len(self.signals)), np.float32)
        baselines = np.empty_like(values)
        for part in moments.portions(EVALUATED_AT_ONCE):
            of_values, of_baselines = self._judge(rows, part)
            values[part.steps] = of_values.cpu().numpy()
            baselines[part.steps] = of_baselines.cpu().numpy()
        return values, baselines

    @torch.inference_mode()
    def _next_values(self, rollout: Rollout) -> Floats:
        """[J, S] of what each trajectory's agent and its teammates saw behind it."""
        ends = len(rollout.lengths)
        width = 1 if rollout.next_mates_obs is None else 1 + rollout.next_mates_obs[0].shape[1]
        obs = rollout.next_obs
        absent = None
        if rollout.next_mates_obs is not None:
            both = zip(rollout.next_obs, rollout.next_mates_obs, strict=True)
            obs = [
                np.concatenate([own[:, None], mates], 1).reshape(-1, *own.shape[1:]) for own, mates in both
            ]
            absent = torch.from_numpy(np.arange(width) > rollout.next_mates[:, None]).to(self.device)
        inputs = self.network.prepare(self._obs(obs))
        members = Members(None, absent, ends, width)
        return self.critic.value(inputs, members).cpu().numpy()

    def _judge(self, rows: TeamRows, part: Moments) -> tuple[Tensor, Tensor]:
        """The critic's values and baselines of the steps of some moments, [W, S] each."""
        members, chosen = members_of(part, self.device)
        picked = rows.take(chosen)
        values, baselines = self.critic.evaluate(picked.inputs, picked.actions, members)
        moment = np.repeat(np.arange(len(part)), part.counts)
        at = torch.from_numpy(moment * members.width + part.places).to(self.device)
        of_moment = torch.from_numpy(moment).to(self.device)
        return values.index_select(0, of_moment), baselines.flatten(0, 1).index_select(0, at)

    def forget(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Nothing is kept of episodes that are not finished."""

    # The update ---------------------------------------------------------------------------------------

    def update(self, steps: TeamSteps, policy_step: int) -> dict[str, float]:
        """Several epochs over all moments in shuffled minibatches; mean losses and the schedules' values."""
        rate, epsilon, beta = self.schedules.at(policy_step)
        rows = Rows.of(steps)
        with torch.no_grad():
            on_device = self._rows(rows.obs, rows.continuous, rows.discrete)
        moments = group_moments(rows.own, rows.mates)
        columns = self._columns(steps, rows)
        losses = []
        for _ in range(self.hyper.num_epoch):
            order = torch.randperm(len(moments), generator=self.shuffler).numpy()
            for part in moments.minibatches(order, self.hyper.batch_size):
                losses.append(self._gradient(on_device, columns, part, epsilon, beta))
                self.optimizer.step(rate, policy_step)
        figures = {
            "Policy/Learning Rate": rate,
            "Policy/Epsilon": epsilon,
            "Policy/Beta": beta,
        }
        if losses:
            policy, value, baseline = torch.stack(losses).mean(0).tolist()
            figures |= {
                "Losses/Policy Loss": policy,
                "Losses/Value Loss": value,
                "Losses/Baseline Loss": baseline,
            }
        return figures

    def _gradient(
        self, rows: TeamRows, columns: StepColumns, part: Moments, epsilon: float, beta: float
    ) -> Tensor:
        """The gradient of one minibatch; its policy loss (absolute), value and baseline loss as [3]."""
        values, baselines = self._judge(rows, part)
        which = torch.from_numpy(part.steps).to(self.device)
        own = [x[columns.rows[which]] for x in rows.inputs]
        mask = None if columns.action_mask is None else columns.action_mask[which]
        distribution = self.network.act(own, mask)
        actions = Actions(columns.actions.continuous[which], columns.actions.discrete[which])
        losses = poca_losses(
            distribution.log_probs(actions),
            columns.old_log_probs[which],
            columns.advantages[which],
            distribution.entropy(),
            values,
            baselines,
            columns.old_baselines[which],
            columns.returns[which],
            epsilon,
            beta,
        )
        self.optimizer.zero_gradient()
        losses.total.backward()  # type: ignore[no-untyped-call]
        return torch.stack((losses.policy.detach().abs(), losses.value.detach(), losses.baseline))

    def _columns(self, steps: TeamSteps, rows: Rows) -> StepColumns:
        def tensor(column: NDArray[Any]) -> Tensor:
            return torch.from_numpy(column).to(self.device)

        spread = steps.advantages - steps.advantages.mean()
        advantages = (spread / (steps.advantages.std() + 1e-10)).astype(np.float32)
        return StepColumns(
            tensor(rows.own),
            Actions(tensor(steps.continuous), tensor(steps.discrete.astype(np.int64))),
            None if steps.action_mask is None or not steps.action_mask.any() else tensor(steps.action_mask),
            tensor(steps.log_probs),
            tensor(advantages[:, None]),
            tensor(steps.baselines),
            tensor(steps.returns),
        )

    def _rows(self, obs: list[Floats], continuous: Floats, discrete: NDArray[np.int32]) -> TeamRows:
        branches = self.spec.action_spec.discrete_branches
        actions = flat_actions(torch.from_numpy(continuous), torch.from_numpy(discrete), branches)
        return TeamRows(self.network.prepare(self._obs(obs)), actions.to(self.device))

    def _obs(self, obs: list[Floats]) -> list[Tensor]:
        return [torch.from_numpy(np.ascontiguousarray(o)).to(self.device) for o in obs]

    # Saving -------------------------------------------------------------------------------------------

    def begin_with(self, state: Mapping[str, Any]) -> list[str]:
        """Take over what fits of another run's `state_dict`; what does not, with the reasons.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        return take_over({"Policy": self.network, "Critic": self.critic}, self.optimizer, state)

    def state_dict(self) -> dict[str, Any]:
        """Weights, normaliser, optimiser and random state: all that the next update depends on."""
        return {
            "Policy": self.network.state_dict(),
            "Critic": self.critic.state_dict(),
            "Optimizer": self.optimizer.state_dict(),
            "shuffler": self.shuffler.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""
        self.network.load_state_dict(state["Policy"])
        self.critic.load_state_dict(state["Critic"])
        self.optimizer.load_state_dict(state["Optimizer"])
        self.shuffler.set_state(state["shuffler"].cpu())


def members_of(part: Moments, device: torch.device) -> tuple[Members, Tensor]:
    """The sets of some moments, and the rows that they are made of.

    Usually each row stands in one set, and rows are taken in the sets' order; where many stand in several,
    each is taken once.
    """
    sets, width = part.members.shape
    there = part.members >= 0
    rows = np.where(there, part.members, part.members[:, :1])
    absent = None if there.all() else torch.from_numpy(~there).to(device)
    distinct, at = np.unique(rows, return_inverse=True)
    if 4 * len(distinct) > 3 * rows.size:
        return Members(None, absent, sets, width), torch.from_numpy(rows.ravel()).to(device)
    index = torch.from_numpy(at.reshape(rows.shape)).to(device)
    return Members(index, absent, sets, width), torch.from_numpy(distinct).to(device)
