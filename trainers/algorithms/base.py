"""The base classes of all algorithms: one constructor, observation statistics, transfer and state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray
from torch import Tensor, nn

from ...agent_processor.trajectory import Rollout
from ...envs.base import ObsArray
from ...envs.validation import NonFinitePolicy
from ..buffers.replay.columns import ExtraColumn
from ..buffers.replay.sampler import ReplayBatch
from ..buffers.rollout_buffer import RolloutEvaluation, Steps
from ..checkpoints.transfer import as_lanista_state, load_matching, load_optimizers
from ..networks.modules.attention import weights_fit
from ..networks.modules.heads import ValueHead
from ..networks.modules.normalizer import Normalizer
from ..networks.modules.passes import Precision
from ..networks.multi_actor import Network
from ..policies.exploration import Explorer
from ..settings.models.algorithms import PaddedObjectiveSettings, TeamRewardKind
from ..settings.models.behavior import TrainerSettings
from ..utils.distributed import in_step
from .common.kl_control import KLControl
from .common.optim import LEARNING_RATE_FLOOR, CheckedAdam, ClippedSchedules, Schedule, update_normalizer
from .common.popart import STATISTICS, ValueNormalizer, in_reward_units
from .common.recurrent import CriticStates

Batch = TypeVar("Batch")
_RATE = "learning_rate"
"""The checkpoint entry of a learning rate that is adapted to the KL divergence."""


class UpdateResult(NamedTuple):
    """The outcome of one gradient step of an off-policy algorithm."""

    metrics: dict[str, float]
    """The metrics of the step by statistics' names, such as "Losses/Value Loss"."""
    td_errors: Tensor | None
    """[B] the absolute temporal-difference error of each step, for priorities; None without any. Of sequences
    that begin with a burn-in only the steps after it have one."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What the rest of the trainer has to know of an algorithm."""

    is_team: bool = False
    """Whether the algorithm learns from what groups earn, which is then reported too."""
    is_greedy: bool = False
    """Whether agents explore only while they learn, and act deterministically in evaluation."""
    needs_teammates: bool = False
    """Whether rollouts hold the steps of teammates too, whose rewards count as the agent's."""
    roster_size: int = 0
    """The number of slots in the rosters of rollouts; 0: rollouts have none."""
    team_reward: TeamRewardKind | None = None
    """How the rewards of a group's members become one for all; None: each has its own."""
    loads_mlagents: bool = False
    """Whether a run can start from the weights of an ML-Agents checkpoint."""


class Algorithm(ABC):
    """The networks of one behavior, whose weights it owns, and how they learn.

    A subclass creates its networks and optimizers in `build` and declares them by `register`, or overrides
    `modules`, `optimizers` and `generators`; saving, loading and transfer follow from these.
    """

    name: ClassVar[str] = ""
    """The algorithm's name in messages, such as "PPO"."""
    traits: Traits = Traits()
    network: Network
    """The network that acts and is exported."""
    exploration: float = 0.0
    """The probability of a random action until the next update."""
    explorer: Explorer | None = None
    """How agents of a greedy policy explore while they learn."""
    critic_states: Sequence[CriticStates] = ()
    """The recurrent states of critics for living agents."""
    saved_numbers: Mapping[str, str] = {}
    """The names of the numeric attributes that are saved, by their checkpoint entries."""

    def __init__(
        self,
        spec: BehaviorSpec,
        settings: TrainerSettings,
        device: torch.device,
        seed: int,
        non_finite: NonFinitePolicy,
        precision: Precision = Precision.FLOAT32,
    ) -> None:
        """Build the networks.

        Args:
            spec: of the behavior.
            settings: of the behavior.
            device: the learner's.
            seed: of the initial weights; the generators of the algorithm are derived from it.
            non_finite: how to handle gradients and statistics that are not finite.
            precision: of the matrix products in updates.

        Raises:
            UnsupportedActionError: the algorithm cannot learn such actions.
            UnsupportedObservationError: an observation cannot be encoded or does not exist; the message names
                it.
            TrainerError: a custom network cannot be built.
        """
        self.spec, self.device, self.non_finite, self.precision = spec, device, non_finite, precision
        self.hyper = settings.hyperparameters
        self.signals = list(settings.reward_signals)
        self.gammas = [signal.gamma for signal in settings.reward_signals.values()]
        memory = settings.network_settings.memory
        self.is_recurrent = memory is not None
        self.sequence_length = 1 if memory is None else memory.sequence_length
        """The number of steps of the sequences that are learned from; 1 without a memory."""
        self.max_steps = settings.max_steps
        self._targets: dict[str, nn.Module] = {}
        self._generators: dict[str, torch.Generator] = {}
        self.build(settings, seed)
        for optimizer in self.optimizers().values():
            optimizer.max_norm = self.hyper.max_grad_norm
            optimizer.adam.epsilon = self.hyper.adam_epsilon

    @abstractmethod
    def build(self, settings: TrainerSettings, seed: int) -> None:
        """Create and `register` networks, optimizers and generators; the constructor ends with this."""

    def register(
        self,
        modules: dict[str, nn.Module],
        optimizers: dict[str, CheckedAdam],
        generators: dict[str, torch.Generator] | None = None,
        targets: dict[str, nn.Module] | None = None,
    ) -> None:
        """Declare what is saved, by its checkpoint entries; `build` calls this.

        Args:
            modules: the networks, the policy first: what another run can start from.
            optimizers: the policy's first.
            generators: of random numbers.
            targets: modules that are saved, but derived from `modules` in a transfer.
        """
        self._modules, self._optimizers = modules, optimizers
        self._generators, self._targets = generators or {}, targets or {}

    def modules(self) -> dict[str, nn.Module]:
        """The networks by their checkpoint entries, the policy first: what another run can start from."""
        return self._modules

    def optimizers(self) -> dict[str, CheckedAdam]:
        """The optimizers by their checkpoint entries, the policy's first."""
        return self._optimizers

    def generators(self) -> dict[str, torch.Generator]:
        """The random generators by their checkpoint entries."""
        return self._generators

    def target_modules(self) -> dict[str, nn.Module]:
        """Target networks by their checkpoint entries: saved, but derived from `modules` in a transfer."""
        return self._targets

    def running_maxima(self) -> list[Tensor]:
        """Numbers that grow with what has been seen, and are the same on all ranks."""
        return []

    @property
    def policy(self) -> Network:
        """The network that imitation trains; `network` unless one of its members acts."""
        return self.network

    @property
    def policy_optimizer(self) -> CheckedAdam:
        """The optimizer of the policy's parameters."""
        return next(iter(self.optimizers().values()))

    def pop_gradient_norm(self) -> dict[str, float]:
        """The mean norm of the policy's gradients since the last call, by the statistic's name."""
        norm = self.policy_optimizer.pop_mean_norm()
        return {} if norm is None else {"Policy/Gradient Norm": norm}

    def products(self, batch_size: int) -> int | None:
        """The products of a minibatch's pass through the largest network; None unless it reads vectors alone.

        With a memory those of one step of all sequences count, since each step waits for the one before.
        """
        if any(len(sensor.shape) > 1 for sensor in self.spec.observation_specs):
            return None
        rows = batch_size // self.sequence_length if self.is_recurrent else batch_size
        return rows * self._largest_network()

    def dense_products(self, batch_size: int) -> int | None:
        """Like `products`, but also for images, whose convolutions are not counted, and for sets of entities.

        None where oneDNN would multiply slowly: with a memory, and in encoders of teams, numbers of rows are
        seldom the same twice; attention over very many entities has products of its own.
        """
        shapes = [sensor.shape for sensor in self.spec.observation_specs]
        entities = sum(shape[0] for shape in shapes if len(shape) == 2)
        encodes_teams = self.traits.is_team and any(len(shape) > 1 for shape in shapes)
        if self.is_recurrent or encodes_teams or not weights_fit(batch_size, entities):
            return None
        return batch_size * self._largest_network()

    def _largest_network(self) -> int:
        """The number of parameters of the largest network."""
        return max(sum(p.numel() for p in module.parameters()) for module in self.modules().values())

    # Experience -----------------------------------------------------------------------------------------

    def update_normalizer(self, obs: Sequence[ObsArray]) -> None:
        """Let the running observation statistics see N steps, [N, *shape] of each sensor.

        Raises:
            FloatingPointError: the statistics overflow, and `non_finite` is STOP.
        """
        encoder, update = self.network.encoder, self.network.update_normalization
        update_normalizer(obs, encoder, update, self.policy_optimizer, self.spec, self.device)

    def reset_agents(self, env: int | None, agent_ids: NDArray[np.int32] | None) -> None:
        """Drop what is kept of agents whose unfinished episodes will never end.

        Args:
            env: of this environment alone; None: of all.
            agent_ids: [n] these agents of it; None: all.
        """
        for states in self.critic_states:
            states.reset_agents(env, agent_ids)

    def warn_of_group_rewards(self, rollout: Rollout) -> None:
        """Recommend a team's trainer where groups earn rewards and this algorithm does not share them."""
        if rollout.group_reward[: rollout.steps].any():
            self.policy_optimizer.warn_once(
                "Group rewards without a team's trainer",
                f"{self.name} counts what a group earns as each living member's own; trainer_type: poca also "
                "learns what each of them had to do with it, and what it earns after a member's end",
            )

    # Transfer and state ---------------------------------------------------------------------------------

    def initialize_from(self, state: Mapping[str, Any]) -> list[str]:
        """Start from another run's `state_dict` as far as it fits.

        The optimizers' states are taken over with the weights if all of these fit.

        Returns:
            What was not taken over, with the reasons; empty if everything was.

        Raises:
            CheckpointError: nothing of the policy fits.
        """
        modules = self.modules()
        ours, mismatches = as_lanista_state(modules, state, mlagents=self.traits.loads_mlagents)
        mismatches = mismatches + load_matching(modules, ours)
        mismatches += self.on_transfer(state, mismatches)
        return mismatches or load_optimizers(self.optimizers(), ours)

    def on_transfer(self, state: Mapping[str, Any], mismatches: Sequence[str]) -> list[str]:
        """Derive what depends on transferred weights, such as targets; returns further mismatches."""
        return []

    def state_dict(self) -> dict[str, Any]:
        """Weights, normalizers, optimizers and random states: all that the next update depends on."""
        modules = self.modules() | self.target_modules()
        return {
            **{entry: module.state_dict() for entry, module in modules.items()},
            **{entry: optimizer.state_dict() for entry, optimizer in self.optimizers().items()},
            **{entry: generator.get_state() for entry, generator in self.generators().items()},
            **{entry: getattr(self, name) for entry, name in self.saved_numbers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for entry, module in (self.modules() | self.target_modules()).items():
            module.load_state_dict(state[entry])
        for entry, optimizer in self.optimizers().items():
            optimizer.load_state_dict(state[entry])
        for entry, generator in self.generators().items():
            generator.set_state(state[entry].cpu())
        for entry, name in self.saved_numbers.items():
            setattr(self, name, type(getattr(self, name))(state[entry]))


class OnPolicyAlgorithm(Algorithm, Generic[Steps]):
    """Learns from the steps of its newest policy: evaluates them, updates, and discards them."""

    steps_type: type[Steps]
    """The columns that the rollout buffer holds."""
    value_normalizer: ValueNormalizer | None = None
    """The units in which the critic learns; None: its own, or those of the rewards."""

    @abstractmethod
    def evaluate(
        self, rollout: Rollout, rewards: Mapping[str, NDArray[np.float32]], ignores_done: Mapping[str, bool]
    ) -> RolloutEvaluation[Steps]:
        """Values, returns and advantages of the trajectories' own steps.

        Args:
            rollout: the trajectories.
            rewards: [steps] of each signal.
            ignores_done: the signals that continue after the end of an episode.
        """

    def terminated(self, rollout: Rollout) -> NDArray[np.bool_]:
        """[J] where `evaluate` takes the value after a trajectory to be 0, unless a signal ignores dones."""
        return rollout.terminated

    @abstractmethod
    def update(self, steps: Steps, policy_step: int) -> dict[str, float]:
        """Learn from the steps, and return metrics by statistics' names."""

    learns_from_older: ClassVar[bool] = False
    """Whether there is an `as_of_newest_policy`, so that updates can run while next steps are collected."""

    def as_of_newest_policy(self, steps: Steps) -> Steps:
        """Steps of the policy before the newest one, as `update` is to learn from them."""
        raise NotImplementedError

    schedules: ClippedSchedules
    """The schedules of a trainer with PPO's clipped objective, which also has the next."""
    kl: KLControl

    def follow_schedules(self, schedules: ClippedSchedules, hyper: PaddedObjectiveSettings) -> None:
        """Take learning rate, epsilon and beta from `schedules`; a rate that adapts is saved."""
        self.schedules, self.kl = schedules, KLControl(hyper, schedules)
        if self.kl.adaptive is not None:
            self.saved_numbers = {**self.saved_numbers, _RATE: "adapted_rate"}

    @property
    def adapted_rate(self) -> float:
        """The learning rate, where it is adapted to the KL divergence."""
        assert self.kl.adaptive is not None, "only such a rate is saved"
        return self.kl.adaptive.rate

    @adapted_rate.setter
    def adapted_rate(self, rate: float) -> None:
        assert self.kl.adaptive is not None, "only such a rate is saved"
        self.kl.adaptive.rate = rate

    def minibatches(self, epoch: Callable[[], Iterable[Batch]], epochs: int) -> Iterator[Batch]:
        """The minibatches of an update, as long as every rank has another one in an epoch."""
        self.kl.begin()
        for _ in range(epochs):
            yield from in_step(epoch())

    def warn_of_no_minibatch(self, steps: int) -> None:
        """Warn, once, that so many steps of an update are too few to learn from."""
        found = f"{steps} steps are no whole minibatch of batch_size {self.hyper.batch_size}"
        self.policy_optimizer.warn_once("Nothing was learned", found)

    def normalize_values(self, head: ValueHead) -> None:
        """Learn the head's values in units of the returns; `build` calls this after `register`."""
        self.value_normalizer = ValueNormalizer(head)
        self._targets[STATISTICS] = self.value_normalizer.statistics

    def initialize_from(self, state: Mapping[str, Any]) -> list[str]:
        """Start from another run's `state_dict` as far as it fits, with values in units of the rewards."""
        return super().initialize_from(in_reward_units(state))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, also of a run whose values or learning rate came otherwise."""
        if _RATE in self.saved_numbers:
            state = {_RATE: self.adapted_rate, **state}
        if self.value_normalizer is None:
            super().load_state_dict(in_reward_units(state))
            return
        statistics = self.value_normalizer.statistics
        super().load_state_dict({STATISTICS: Normalizer(len(statistics.mean)).state_dict(), **state})
        self.value_normalizer.rebase()


class OffPolicyAlgorithm(Algorithm):
    """Learns from batches of a replay buffer."""

    extra_columns: Sequence[ExtraColumn] = ()
    """Columns that a batch has beside those of every batch; filled by `extra`."""

    @cached_property
    def learning_rate(self) -> Schedule:
        """The schedule of the learning rate of all optimizers."""
        linear = getattr(self.hyper, "learning_rate_schedule", "constant") == "linear"
        return Schedule(self.hyper.learning_rate, LEARNING_RATE_FLOOR, self.max_steps, linear)

    @abstractmethod
    def estimates(self, rollout: Rollout) -> dict[str, NDArray[np.float32]]:
        """Expected returns of the own steps [steps, signals], by the statistic's name: "Value"."""

    def extra(self, rollout: Rollout) -> dict[str, NDArray[Any]]:
        """[steps, ...] the `extra_columns` of the trajectories' own steps, by name."""
        return {}

    @abstractmethod
    def update(self, batch: ReplayBatch, policy_step: int) -> UpdateResult:
        """Take one gradient step on a batch.

        Raises:
            FloatingPointError: the gradient is not finite, and `non_finite` is STOP.
        """

    def metrics(self, policy_step: int) -> dict[str, float]:
        """Additional metrics of summaries, by statistics' names: the schedules of an explorer."""
        if self.explorer is None:
            return {}
        return {
            "Policy/Learning Rate": self.learning_rate(policy_step),
            self.explorer.statistic: self.explorer.schedule(policy_step),
        }
