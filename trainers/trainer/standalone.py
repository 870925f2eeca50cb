"""Trainers for scripts that step environments themselves: each brings its algorithm, rewards and policy.

`lanista.train` runs a whole training; these classes leave the loop to the caller:

    trainer = POCATrainer(behavior_id, spec, {"max_steps": 100_000})
    manager = trainer.make_manager(behavior_id)
    decided = None
    while trainer.should_still_train:
        decisions, terminals = env.get_steps(behavior_id)
        manager.add_experiences(decisions, terminals, env=0, decided=decided)
        decided = trainer.act(decisions, manager)
        env.set_actions(behavior_id, decided.env_action)
        env.step()
        trainer.advance()
    trainer.export("team.onnx")
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ...agent_processor.agent_table import Slots
from ...agent_processor.processor import AgentManager
from ...envs.base import BehaviorName, Decision, EnvironmentStep
from ...envs.validation import NonFinitePolicy
from ..checkpoints.metadata import describe_behavior
from ..checkpoints.starting import start_from
from ..checkpoints.transfer import initial_checkpoint
from ..networks.multi_actor import exported_networks
from ..policies.agent_states import AgentStates, BatchSource
from ..policies.exploration import Explorer
from ..policies.onnx.export import export_brain
from ..policies.policy import ActContext
from ..policies.state_dependent import StateDependentNoise
from ..rewards.factory import make_reward_providers
from ..settings.base import found
from ..settings.errors import Problem, TrainerConfigError
from ..settings.models.behavior import TrainerSettings
from ..settings.options import RunOptions
from ..settings.validation import require_trainable
from ..stats.reporter import StatsReporter
from ..stats.writer import StatsWriter
from .context import TrainerEvents
from .factory import explorer_of, make_algorithm, make_cloning, make_policy
from .off_policy import OffPolicyTrainer
from .on_policy import OnPolicyTrainer
from .trainer import Trainer

logger = logging.getLogger(__name__)


class SummaryEvents:
    """Summaries go to the writers, no files are written: enough for a trainer that no run surrounds."""

    def __init__(self, reporter: StatsReporter) -> None:
        self.reporter = reporter

    def on_summary(self, step: int) -> bool:
        """Write the statistics of the last `summary_freq` steps."""
        self.reporter.write_stats(step)
        return False

    def on_best_policy(self) -> bool:
        """Save nothing."""
        return False

    def on_checkpoint(self) -> bool:
        """Save nothing."""
        return False

    def on_reward_reached(self, reached: float) -> None:
        """Leave it to `should_still_train`."""

    def on_steps_processed(self) -> None:
        """Nothing has a copy of the normalizer."""

    def on_update(self, metrics: Mapping[str, float]) -> None:
        """Nothing has a copy of the weights."""


class _ProcessorStates(AgentStates):
    """The recurrent states that a manager keeps: in a script it has processed a step before agents act."""

    def __init__(self, manager: AgentManager, size: int) -> None:
        super().__init__(size)
        self.manager = manager

    def read(self, sources: Sequence[BatchSource], batches: Sequence[DecisionSteps]) -> NDArray[np.float32]:
        """[n, memory_size] of the agents of the one batch."""
        return self.manager.memories(sources[0][0], np.asarray(batches[0].agent_id))

    def store(
        self,
        sources: Sequence[BatchSource],
        batches: Sequence[DecisionSteps],
        states: NDArray[np.float32],
    ) -> None:
        """Nothing: the manager gets them with the decision."""


class _ScriptManager(AgentManager):
    """Tells the explorer too whose episodes end, or never were."""

    explorer: Explorer | StateDependentNoise | None = None

    def _end_episodes(self, env: int, terminals: TerminalSteps) -> Slots:
        self._end_exploration(env, np.asarray(terminals.agent_id))
        return super()._end_episodes(env, terminals)

    def _reset(self, env: int, slots: Slots) -> None:
        self._end_exploration(env, self._agents.agent[slots].astype(np.int32))
        super()._reset(env, slots)

    def _end_exploration(self, env: int, agents: NDArray[np.int32]) -> None:
        if self.explorer is not None:
            step = EnvironmentStep(env, {}, {}, void_agents={self.behavior_id: agents})
            self.explorer.end_episodes(step, self.behavior_id)


class StandaloneTrainer(Trainer):
    """What a script needs besides a trainer: a policy that acts, managers that feed the queue, the export."""

    trainer_type: ClassVar[str]

    def __init__(
        self,
        behavior_id: str,
        spec: BehaviorSpec,
        settings: TrainerSettings | Mapping[str, Any] | None = None,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        writers: Sequence[StatsWriter] = (),
        events: TrainerEvents | None = None,
        training: bool = True,
    ) -> None:
        """Make the networks of a behavior.

        Args:
            behavior_id: The behavior, such as `3DBall?team=0`.
            spec: What its agents observe and do.
            settings: As the behavior's section of the YAML, or already read; None: the defaults.
            seed: Of weights, sampling and minibatches.
            device: Where it learns; agents always act on the CPU, so another one needs a network's copy.
            writers: Where summaries go.
            events: What is called when something is due; None: summaries are written, nothing is saved.
            training: Learn; else only act.

        Raises:
            TrainerConfigError: Something in the settings is wrong.
            UnsupportedObservationError, UnsupportedActionError: This behavior cannot be learned so.
            TrainerError: The weights of `init_path` cannot be loaded.
        """
        name = BehaviorName.parse(behavior_id).name
        read = self._settings(name, settings, training)
        device, non_finite = torch.device(device), NonFinitePolicy.STOP
        algorithm = make_algorithm(spec, read, device, seed, non_finite)
        providers = make_reward_providers(algorithm, spec, read, device, seed, non_finite)
        reporter = StatsReporter(name, writers)
        more: dict[str, Any] = {"spec": spec, "name": name} if isinstance(self, OffPolicyTrainer) else {}
        of_its_kind: Any = super().__init__  # on- and off-policy trainers take more than `Trainer` does
        of_its_kind(
            settings=read,
            algorithm=algorithm,
            providers=providers,
            stats=reporter,
            events=events or SummaryEvents(reporter),
            training=training,
            non_finite=non_finite,
            seed=seed + 3,
            device=device,
            **more,
        )
        self.name, self.spec = name, spec
        if training:
            self.cloning = make_cloning(algorithm, spec, read, device, seed + 4, non_finite)
        explores = training and algorithm.explorer is not None  # a greedy policy would not
        self._explorer = explorer_of(algorithm) if training else None
        self.policy = make_policy(
            algorithm.network,
            spec,
            seed + 2,
            deterministic=read.network_settings.deterministic and not explores,
            explorer=self._explorer,
        )
        self._random_steps = read.hyperparameters.random_steps if training else 0
        start = initial_checkpoint(name, read.init_path, None)
        if start is not None:
            start_from(start, self, describe_behavior(name, spec, read, algorithm.network))
        self._warn_of_what_only_a_run_does()

    def _warn_of_what_only_a_run_does(self) -> None:
        own = self.settings
        for key, given in (("threaded", own.threaded), ("test_frequency", own.tested), ("clone", own.clone)):
            if given:
                logger.warning("%s: %s is for runs of lanista-learn; here it has no effect.", self.name, key)

    @classmethod
    def _settings(
        cls, name: str, settings: TrainerSettings | Mapping[str, Any] | None, training: bool
    ) -> TrainerSettings:
        options = RunOptions()
        given: Any = settings if isinstance(settings, TrainerSettings) else dict(settings or {})
        options.behaviors[name] = given
        source = options.as_source("")
        kind = source.data["behaviors"][name].setdefault("trainer_type", cls.trainer_type)
        if kind != cls.trainer_type:
            message = f"found {found(kind)}; {cls.__name__} takes settings of {cls.trainer_type} alone"
            raise TrainerConfigError([Problem(("behaviors", name, "trainer_type"), message)])
        read = RunOptions.from_source(source).behavior(name)
        require_trainable(name, read, standalone=training)
        return read

    def make_manager(self, behavior_id: str) -> AgentManager:
        """An agent manager for this behavior, or for another team of it, whose queue the trainer reads."""
        manager = _ScriptManager(
            behavior_id,
            self.spec,
            self.settings.time_horizon,
            self.stats,
            memory_size=self.algorithm.network.memory_size,
            places=self.algorithm.traits.roster_size,
            by_worker=self.settings.worker_statistics,
        )
        manager.explorer = self._explorer
        self.subscribe(manager.trajectory_queue)
        self.episodes.expect(behavior_id)
        return manager

    def act(self, decisions: DecisionSteps, manager: AgentManager, env: int = 0) -> Decision:
        """Decide for the agents that wait, with the newest weights.

        Args:
            decisions: Of one environment; the manager has processed them already.
            manager: The behavior's, which knows recurrent states and slots.
            env: The environment's index.

        Raises:
            FloatingPointError: The network's output is not finite.
        """
        ids = np.asarray(decisions.agent_id)
        if not len(ids):
            return Decision.of_actions(decisions, self.spec.action_spec.empty_action(0))
        memory_size = self.algorithm.network.memory_size
        context = ActContext(
            [(env, manager.behavior_id)],
            _ProcessorStates(manager, memory_size) if memory_size else None,
            torch.from_numpy(manager.places(env, ids)) if self.algorithm.traits.roster_size else None,
            self.step,
            self.algorithm.exploration,
            self.step < self._random_steps,
        )
        return self.policy.act([decisions], context)[0]

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the policy as ONNX, which Unity and `lanista.load` take.

        COMA without shared parameters has a policy for each slot: `NAME.onnx` becomes `NAME-place0.onnx`, ...

        Raises:
            BrainVerificationError: The file would not act as the network does.
            OSError: The file cannot be written.
        """
        reward, target = self.episodes.history.recent_mean(), Path(path)
        for suffix, actor in exported_networks(self.algorithm.network).items():
            file = target.with_name(f"{target.stem}{suffix}{target.suffix}")
            export_brain(actor, file, behavior=self.name, step=self.step, reward=reward)


class PPOTrainer(StandaloneTrainer, OnPolicyTrainer[Any]):
    """Proximal policy optimization (Schulman et al. 2017)."""

    trainer_type = "ppo"


class POCATrainer(StandaloneTrainer, OnPolicyTrainer[Any]):
    """MA-POCA (Cohen et al. 2022), for teams."""

    trainer_type = "poca"


class MAPPOTrainer(StandaloneTrainer, OnPolicyTrainer[Any]):
    """Multi-agent PPO (Yu et al. 2021), for teams."""

    trainer_type = "mappo"


class COMATrainer(StandaloneTrainer, OnPolicyTrainer[Any]):
    """Counterfactual multi-agent policy gradients (Foerster et al. 2018), for teams."""

    trainer_type = "coma"


class SACTrainer(StandaloneTrainer, OffPolicyTrainer):
    """Soft actor-critic (Haarnoja et al. 2018)."""

    trainer_type = "sac"


class DQNTrainer(StandaloneTrainer, OffPolicyTrainer):
    """Deep Q-networks (Mnih et al. 2015), for discrete actions."""

    trainer_type = "dqn"


class DDPGTrainer(StandaloneTrainer, OffPolicyTrainer):
    """Deep deterministic policy gradients (Lillicrap et al. 2016), for continuous actions."""

    trainer_type = "ddpg"


class TD3Trainer(StandaloneTrainer, OffPolicyTrainer):
    """Twin delayed DDPG (Fujimoto et al. 2018), for continuous actions."""

    trainer_type = "td3"
