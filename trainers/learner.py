"""One behaviour in a run: its trainer, the policy that acts for it, its statistics and its files."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from numpy.typing import NDArray

from ..agent_processor.processor import AgentManager, TrajectoryQueue
from ..agent_processor.queues import AgentManagerQueue
from ..agent_processor.trajectory import EpisodesForgotten
from ..envs.finite import NonFinite
from ..envs.steps import Decision
from .acting_memories import ActingMemories, Asking
from .algorithms import make_algorithm, make_policy, make_reward_providers
from .behavior_folder import require_folder_name
from .brains.errors import BrainVerificationError
from .brains.export import export_brain
from .checkpoint_brain import KEY as BRAIN
from .checkpoint_brain import describe_brain
from .checkpoints import CheckpointError, CheckpointManager, load_checkpoint
from .coma.brains import brains_of, suffixes_of
from .coma.policy import PlacePolicy
from .initial_weights import initial_checkpoint
from .networks.user import not_exportable
from .on_policy import OnPolicyTrainer
from .precision import Precision
from .reward_record import EPISODES
from .settings.behavior import TrainerSettings
from .stats.display import Display
from .stats.reporter import StatsReporter
from .stats.timers import Timers
from .stats.writer import StatsPropertyType, StatsWriter
from .threads import ACTING_THREADS, UpdateThreads
from .training_status import TrainingStatus

logger = logging.getLogger(__name__)

THREADED_QUEUE = 20
"""Trajectories that may wait for a threaded trainer before the collector is held up."""


@dataclass(frozen=True)
class RunContext:
    """What all behaviours of one run share."""

    folder: Path
    """`<results>/<run id>`."""
    seed: int
    status: TrainingStatus
    writers: Sequence[StatsWriter]
    display: Display
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    training: bool = True
    resume: bool = False
    inference_steps: int | None = None
    """Steps after which acting without training ends by itself."""
    initialize_from: Path | None = None
    """The run folder, or the checkpoint, whose weights a new run starts from."""
    non_finite: NonFinite = NonFinite.STOP
    precision: Precision = Precision.FLOAT32
    restart_engines_at_checkpoints: bool = False
    """A run that goes on then learns, bit for bit, what a run resumed from its checkpoints learns."""
    timers: Timers = field(default_factory=Timers)
    """Of the run's loop; a thread that learns beside it has timers of its own."""
    update_threads: Callable[[], UpdateThreads] = field(default=lambda: UpdateThreads(ACTING_THREADS))
    """Processor threads of a policy update that nothing runs beside."""
    lessons: Mapping[str, int] = field(default_factory=dict)
    """The number of the lesson of each environment parameter, 0 where there is one only."""


class Learner:
    """Joins a behaviour's parts; as the trainer's `TrainerEvents` it writes what falls due."""

    def __init__(self, name: str, spec: BehaviorSpec, settings: TrainerSettings, run: RunContext) -> None:
        """Make the parts, and load the weights that the run begins or goes on with.

        Raises:
            TrainerError: the behaviour's name is not fit for a folder, or weights are missing or do not fit.
            UnsupportedObservationError: there is no network for such observations.
        """
        require_folder_name(name)
        self.name = name
        self.spec = spec
        self.settings = settings
        self.run = run
        self.restart_due = False
        self._asked = 0
        """Decisions since the trainer last advanced."""
        self.reporter = StatsReporter(name, run.writers)
        self.reporter.add_property(StatsPropertyType.HYPERPARAMETERS, settings.as_dict())
        self.reporter.add_property(StatsPropertyType.MAX_STEPS, settings.max_steps)
        self.algorithm = make_algorithm(spec, settings, run.device, run.seed, run.non_finite, run.precision)
        self.trainer: OnPolicyTrainer[Any] = OnPolicyTrainer(
            settings,
            self.algorithm,
            make_reward_providers(self.algorithm, settings),
            self.reporter,
            self,
            training=run.training,
            non_finite=run.non_finite,
            update_threads=None if settings.threaded else run.update_threads(),
            timers=run.timers.of_thread() if settings.threaded else run.timers,
        )
        self.collected: TrajectoryQueue = AgentManagerQueue(name, THREADED_QUEUE if settings.threaded else 0)
        """What the agents of all teams have brought, in the order in which it came."""
        self.trainer.subscribe(self.collected)
        self.acts_apart = settings.threaded or run.device.type != "cpu"
        """Acting has a copy of the network on the CPU, to which the learner's is published."""
        self._published: AgentManagerQueue[dict[str, torch.Tensor]] = AgentManagerQueue(name)
        network = self.algorithm.network
        if self.acts_apart:
            network = copy.deepcopy(network).cpu().requires_grad_(False)
        self.acting = network
        self.leaves_brains = not not_exportable(network)
        greedy = self.algorithm.greedy_when_tested and not run.training
        deterministic = settings.network_settings.deterministic or greedy
        self.policy = make_policy(network, spec, run.seed + 2, deterministic=deterministic)
        self.memories = ActingMemories(network.memory_size) if network.memory_size else None
        self.checkpoints = CheckpointManager(
            name,
            run.folder,
            settings.keep_checkpoints,
            run.status,
            suffixes_of(network),
            settings.keep_best,
        )
        self._judged: float | None = None
        """The mean reward by which the policy of this moment is one of the best."""
        self.managers: dict[str, AgentManager] = {}
        self._restore()
        self._first_step = self.trainer.step

    def manager(self, behavior_id: str) -> AgentManager:
        """The agent manager of one of the behaviour's ids (one per team)."""
        if behavior_id not in self.managers:
            manager = AgentManager(
                behavior_id,
                self.spec,
                self.settings.time_horizon,
                self.reporter,
                memory_size=self.acting.memory_size,
                trajectory_queue=self.collected,
                places=self.algorithm.places,
            )
            self.managers[behavior_id] = manager
        return self.managers[behavior_id]

    def decide(self, batches: Sequence[DecisionSteps], asking: Sequence[Asking] = ()) -> list[Decision]:
        """Act for all agents that wait, with the newest weights that the learner has published.

        `asking`: whose agents each batch holds, by which those with a memory are known again.
        """
        if self.acts_apart:
            newest: dict[str, torch.Tensor] = {}
            for published in self._published.drain():
                newest.update(published)
            if newest:
                self.acting.load_state_dict(newest, strict=False)
        self.policy.exploration = self.algorithm.exploration
        if isinstance(self.policy, PlacePolicy):
            self.policy.places = self._places(batches, asking)
        self._asked += sum(len(batch) for batch in batches)
        if self.memories is None:
            return self.policy.act(batches)
        decided = self.policy.act(batches, self.memories.read(asking, batches))
        self.memories.store(asking, decided)
        return decided

    @property
    def acts_by_place(self) -> bool:
        """What agents say has to be collected before they act: that is when they get their places."""
        return isinstance(self.policy, PlacePolicy)

    def _places(self, batches: Sequence[DecisionSteps], asking: Sequence[Asking]) -> torch.Tensor:
        """[n] the places of the agents of all batches."""
        places = [
            self.manager(behavior_id).places(env, np.asarray(batch.agent_id))
            for (env, behavior_id), batch in zip(asking, batches, strict=True)
        ]
        return torch.from_numpy(np.concatenate(places))

    def advance(self) -> None:
        """Let the trainer take in and learn, once enough steps are worth a call of it."""
        if self._asked >= self.trainer.portion:
            self._asked = 0
            self.trainer.advance()

    def forget(self, env: int | None = None) -> None:
        """The unfinished episodes of one environment's agents, or of all, will never end."""
        for manager in self.managers.values():
            manager.end_episode(env)
        self.collected.put(EpisodesForgotten(env))

    def forget_agents(self, behavior_id: str, env: int, agent_ids: NDArray[np.int32]) -> None:
        """The same of some agents of one environment."""
        self.manager(behavior_id).forget_agents(env, agent_ids)
        self.collected.put(EpisodesForgotten(env, agent_ids))

    # What falls due in the trainer ----------------------------------------------------------------------

    @property
    def goes_on(self) -> bool:
        """Whether steps are still wanted: to learn from, or of an inference."""
        if self.run.training:
            return self.trainer.should_still_train
        limit = self.run.inference_steps
        return limit is None or self.trainer.step - self._first_step < limit

    def summary(self, step: int) -> bool:
        """Write the statistics of the last `summary_freq` steps; whether the policy is one of the best."""
        self.reporter.add_stat("Is Training", float(self.trainer.should_still_train))
        for parameter, lesson in self.run.lessons.items():
            self.reporter.set_stat(f"Environment/Lesson Number/{parameter}", float(lesson))
        self.reporter.write_stats(step)
        return self.trainer.should_still_train and self._judge()

    def _judge(self) -> bool:
        if self.settings.keep_best and self.run.training:
            judged = self.trainer.episodes.record.judge()
            self._judged = judged if judged is not None and self.checkpoints.best.admits(judged) else None
        return self._judged is not None

    def best(self) -> bool:
        """Save one of the best policies between two checkpoints that are due."""
        return self.checkpoint(due=False)

    def checkpoint(self, due: bool = True) -> bool:
        """Save a numbered checkpoint and its brain."""
        self.save(due)
        self.restart_due = self.run.restart_engines_at_checkpoints
        return self.restart_due

    def reached(self, mean: float) -> None:
        """Say why the training is over before max_steps."""
        logger.info(
            "%s: the mean reward of the last %d episodes, %.3f, has reached stop_at_reward (%g) at step %d. "
            "Training of this behavior is over.",
            *(self.name, EPISODES, mean, self.settings.stop_at_reward, self.trainer.step),
        )

    def taken_in(self) -> None:
        """Hand what the normaliser has seen to the acting copy, where there is one."""
        if self.acts_apart:
            self._publish(dict(self.algorithm.network.named_buffers()))

    def updated(self) -> None:
        """Hand new weights to the acting copy, where there is one."""
        if self.acts_apart:
            self._publish(self.algorithm.network.state_dict())

    def _publish(self, numbers: Mapping[str, torch.Tensor]) -> None:
        if numbers:
            self._published.put({k: v.detach().to("cpu", copy=True) for k, v in numbers.items()})

    # Files ----------------------------------------------------------------------------------------------

    def save(self, due: bool = True) -> bool:
        """Write a checkpoint and its brain; a full disk is warned of and survived. Whether it was written."""
        judged, self._judged = self._judged, None
        step, reward = self.trainer.step, self.trainer.episodes.mean_since_update()

        def export(path: Path) -> None:
            for suffix, brain in brains_of(self.algorithm.network).items():
                file = path.with_name(f"{path.stem}{suffix}.onnx")
                try:
                    export_brain(brain, file, behavior=self.name, step=step, reward=reward)
                    logger.info("Exported %s", file)
                except BrainVerificationError as error:
                    logger.error("The brain %s was not written; the checkpoint itself is. %s", file, error)

        state = {
            **self.trainer.state_dict(),
            "acting": self.policy.generator.get_state(),
            BRAIN: describe_brain(
                self.name,
                self.spec,
                self.settings.network_settings,
                list(self.settings.reward_signals),
                *(getattr(self.algorithm.network, key, None) for key in ("shared_critic", "arguments")),
            ),
            "judged": judged,
        }
        brains = export if self.leaves_brains else None
        saved = self.checkpoints.save(step, state, reward, brains, judged=judged, due=due) is not None
        if saved:
            self.run.display.checkpoint(self.name, step)
        return saved

    def finish(self) -> Path:
        """Count what still waits, save once more and copy the newest brain to where the engine's user looks.

        Raises:
            CheckpointError: the weights or the brain could not be written.
            Exception: what still waited could not be taken in, such as a FloatingPointError of numbers that
                are not finite; all else is written then.
        """
        flaw: Exception | None = None
        try:
            self.trainer.take_in()
        except Exception as error:  # whatever it is: what was learnt before is to be saved
            flaw = error
        self._judge()
        saved = self.save()
        brain = self.checkpoints.finish()
        if not saved:
            raise CheckpointError(
                f"{self.name}: the weights at the end of the run, step {self.trainer.step}, were not saved: "
                "see the warning before. Older checkpoints are as they were; --resume goes on from the last."
            )
        if brain is None and self.leaves_brains:
            raise CheckpointError(
                f"{self.name}: the weights at the end of the run, step {self.trainer.step}, are saved, but "
                f"not their brain: see the message before. {self.run.folder / self.name}.onnx, if it is "
                "there, is of an older checkpoint. `lanista export` makes a brain of a checkpoint."
            )
        if flaw is not None:
            raise flaw
        return brain or self.checkpoints.latest_path

    def conclude(self) -> None:
        """End an inference that had a limit: what was earned since the last summary is told too."""
        if self.run.inference_steps is not None:
            self.trainer.take_in()
            self.summary(self.trainer.step)

    def _restore(self) -> None:
        if self.run.resume and self.checkpoints.any_saved:
            state = self.checkpoints.load()
            self._load(state)
            if self.run.training:
                self.checkpoints.best.resume(self.trainer.step, state.get("judged"))
            logger.info("%s: resuming training from step %d.", self.name, self.trainer.step)
            if self.run.training and not self.trainer.should_still_train:
                self._warn_of_the_end()
        else:
            if self.run.resume:
                logger.warning(
                    "%s: the run had saved no checkpoint yet; training starts from step 0.", self.name
                )
            path = initial_checkpoint(self.name, self.settings.init_path, self.run.initialize_from)
            if path is not None:
                self._begin_with(path)
            elif not self.run.training:
                logger.warning(
                    "%s: there are no weights to act by; it acts by random ones. Give the trained run's "
                    "--run-id with --resume, or --initialize-from.",
                    self.name,
                )
        if self.acts_apart:
            self.acting.load_state_dict(self.algorithm.network.state_dict())

    def _warn_of_the_end(self) -> None:
        """Say why a resumed run has nothing to train."""
        rewarded = self.trainer.reached is not None
        key, what = ("stop_at_reward", "is reached") if rewarded else ("max_steps", "are taken")
        logger.warning(
            "%s: its %s, %s, %s: nothing is left to train. To go on, allow more with "
            "--set behaviors.%s.%s=...",
            *(self.name, key, getattr(self.settings, key), what, self.name, key),
        )

    def _load(self, state: dict[str, Any]) -> None:
        try:
            self.trainer.load_state_dict(state)
            self.policy.generator.set_state(state["acting"])
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise self._unfit(error) from error

    def _begin_with(self, path: Path) -> None:
        """Take what fits of a checkpoint into a new run."""
        state = load_checkpoint(path)
        try:
            misfits = self.algorithm.begin_with(state)
        except CheckpointError as error:
            raise CheckpointError(f"{self.name}: could not initialize from {path}: {error}") from error
        if misfits:
            logger.warning(
                "%s: not all of %s fits, and what does not begins with random weights: %s.",
                *(self.name, path, "; ".join(misfits)),
            )
        logger.info("%s: starting training from step 0 with the weights of %s.", self.name, path)

    def _unfit(self, error: Exception) -> CheckpointError:
        """The error for a checkpoint that is whole, and of another network or program."""
        causes = [line.strip() for line in str(error).splitlines() if line.strip()]
        cause = causes[1] if len(causes) > 1 else f"{type(error).__name__}: {error}"
        return CheckpointError(
            f"{self.name}: the saved run cannot be resumed, because its checkpoint does not fit: {cause} Use "
            "the settings that it was made with (network_settings, reward_signals and trainer_type; they are "
            "in its configuration.yaml) and an environment with the same observations and actions."
        )
