"""One behaviour in a run: its trainer, the policy that acts for it, its statistics and its files."""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps

from ..agent_processor.processor import AgentManager
from ..envs.finite import NonFinite
from ..envs.steps import Decision
from .acting_memories import ActingMemories, Asking
from .brains.export import export_brain
from .brains.verify import BrainVerificationError
from .checkpoint_brain import KEY as BRAIN
from .checkpoint_brain import describe_brain
from .checkpoints import CheckpointError, CheckpointManager, load_checkpoint
from .on_policy import OnPolicyTrainer
from .policy import Policy
from .ppo.ppo import PPO
from .rewards.extrinsic import ExtrinsicReward
from .settings.behavior import TrainerSettings
from .stats.display import Display
from .stats.reporter import StatsReporter
from .stats.writer import StatsPropertyType, StatsWriter
from .threads import ACTING_THREADS
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
    initialize_from: Path | None = None
    """The run folder whose weights a new run starts from."""
    non_finite: NonFinite = NonFinite.STOP
    restart_engines_at_checkpoints: bool = False
    """A run that goes on then learns, bit for bit, what a run resumed from its checkpoints learns."""
    update_threads: int = ACTING_THREADS
    """Processor threads of a policy update that nothing runs beside."""


class Learner:
    """Joins a behaviour's parts; as the trainer's `TrainerEvents` it writes what falls due."""

    def __init__(self, name: str, spec: BehaviorSpec, settings: TrainerSettings, run: RunContext) -> None:
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
        self.algorithm = PPO(spec, settings, run.device, run.seed, run.non_finite)
        self.trainer = OnPolicyTrainer(
            settings,
            self.algorithm,
            {signal: ExtrinsicReward() for signal in settings.reward_signals},
            self.reporter,
            self,
            training=run.training,
            update_threads=ACTING_THREADS if settings.threaded else run.update_threads,
        )
        self.acts_apart = settings.threaded or run.device.type != "cpu"
        """Acting has a copy of the network on the CPU, which gets the learner's weights after updates."""
        network = self.algorithm.network
        if self.acts_apart:
            network = copy.deepcopy(network).cpu().requires_grad_(False)
        self.policy = Policy(
            network, spec, run.seed + 2, deterministic=settings.network_settings.deterministic
        )
        self.memories = ActingMemories(network.memory_size) if network.memory_size else None
        self.checkpoints = CheckpointManager(name, run.folder, settings.keep_checkpoints, run.status)
        self.managers: dict[str, AgentManager] = {}
        self._restore()

    def manager(self, behavior_id: str) -> AgentManager:
        """The agent manager of one of the behaviour's ids (one per team)."""
        if behavior_id not in self.managers:
            network = self.policy.network
            manager = AgentManager(
                behavior_id,
                self.spec,
                self.settings.time_horizon,
                self.reporter,
                memory_size=network.memory_size,
                max_queued=THREADED_QUEUE if self.settings.threaded else 0,
            )
            self.managers[behavior_id] = manager
            self.trainer.subscribe(manager.trajectory_queue)
        return self.managers[behavior_id]

    def decide(self, batches: Sequence[DecisionSteps], asking: Sequence[Asking] = ()) -> list[Decision]:
        """Act for all agents that wait, with the newest weights that the learner has published.

        `asking`: whose agents each batch holds, by which those with a memory are known again.
        """
        if self.acts_apart:
            newest = [weights for m in self.managers.values() for weights in m.policy_queue.drain()]
            if newest:
                self.policy.network.load_state_dict(newest[-1])  # type: ignore[arg-type]
        self._asked += sum(len(batch) for batch in batches)
        if self.memories is None:
            return self.policy.act(batches)
        decided = self.policy.act(batches, self.memories.read(asking, batches))
        self.memories.store(asking, decided)
        return decided

    def advance(self) -> None:
        """Let the trainer take in and learn, once enough steps are worth a call of it."""
        if self._asked >= self.trainer.portion:
            self._asked = 0
            self.trainer.advance()

    # What falls due in the trainer ----------------------------------------------------------------------

    def summary(self, step: int) -> None:
        """Write the statistics of the last `summary_freq` steps."""
        self.reporter.add_stat("Is Training", float(self.trainer.should_still_train))
        self.reporter.write_stats(step)

    def checkpoint(self) -> bool:
        """Save a numbered checkpoint and its brain."""
        self.save()
        self.restart_due = self.run.restart_engines_at_checkpoints
        return self.restart_due

    def updated(self) -> None:
        """Hand new weights to the acting copy, where there is one."""
        if self.acts_apart:
            weights = {k: v.detach().cpu().clone() for k, v in self.algorithm.network.state_dict().items()}
            next(iter(self.managers.values())).policy_queue.put(weights)

    # Files ----------------------------------------------------------------------------------------------

    def save(self) -> bool:
        """Write a checkpoint and its brain; a full disk is warned of and survived. Whether it was written."""
        step, reward = self.trainer.step, self.trainer.episodes.mean_since_update()

        def export(path: Path) -> None:
            try:
                export_brain(self.algorithm.network, path, behavior=self.name, step=step, reward=reward)
                logger.info("Exported %s", path)
            except BrainVerificationError as error:
                logger.error("The brain %s was not written; the checkpoint itself is. %s", path, error)

        state = {
            **self.trainer.state_dict(),
            "acting": self.policy.generator.get_state(),
            BRAIN: describe_brain(
                self.name,
                self.spec,
                self.settings.network_settings,
                list(self.settings.reward_signals),
                self.algorithm.network.shared_critic,
            ),
        }
        saved = self.checkpoints.save(step, state, reward, export) is not None
        if saved:
            self.run.display.checkpoint(self.name, step)
        return saved

    def finish(self) -> Path | None:
        """Save once more and copy the newest brain to where the engine's user looks for it.

        Raises:
            CheckpointError: the weights could not be written.
        """
        saved = self.save()
        brain = self.checkpoints.finish()
        if not saved:
            raise CheckpointError(
                f"{self.name}: the weights at the end of the run, step {self.trainer.step}, were not saved: "
                "see the warning before. Older checkpoints are as they were; --resume goes on from the last."
            )
        return brain

    def _restore(self) -> None:
        if self.run.resume and not self.checkpoints.any_saved:
            logger.warning("%s: the run had saved no checkpoint yet; training starts from step 0.", self.name)
        elif self.run.resume:
            self._load(self.checkpoints.load())
            logger.info("%s: resuming training from step %d.", self.name, self.trainer.step)
        elif self.run.initialize_from is not None:
            path = self.run.initialize_from / self.name / "checkpoint.pt"
            self._begin_with(load_checkpoint(path))
            logger.info("%s: starting training from step 0 with the weights of %s.", self.name, path)
        if self.acts_apart:
            self.policy.network.load_state_dict(self.algorithm.network.state_dict())

    def _load(self, state: dict[str, Any]) -> None:
        try:
            self.trainer.load_state_dict(state)
            self.policy.generator.set_state(state["acting"])
        except (RuntimeError, KeyError, TypeError, ValueError) as error:
            raise self._unfit("resumed", error) from error

    def _begin_with(self, state: dict[str, Any]) -> None:
        try:
            self.algorithm.network.load_state_dict(state["Policy"])
        except (RuntimeError, KeyError) as error:
            raise self._unfit("started from", error) from error

    def _unfit(self, what: str, error: Exception) -> CheckpointError:
        """The error for a checkpoint that is whole, and of another network or program."""
        causes = [line.strip() for line in str(error).splitlines() if line.strip()]
        cause = causes[1] if len(causes) > 1 else f"{type(error).__name__}: {error}"
        return CheckpointError(
            f"{self.name}: the saved run cannot be {what}, because its checkpoint does not fit: {cause} Use "
            "the settings that it was made with (network_settings, reward_signals and trainer_type; they are "
            "in its configuration.yaml) and an environment with the same observations and actions."
        )


class LearnerThread(threading.Thread):
    """Advances a trainer beside the collector (`threaded: true`)."""

    IDLE_WAIT = 0.0005

    def __init__(self, learner: Learner) -> None:
        super().__init__(name=f"learner {learner.name}", daemon=True)
        self.learner = learner
        self.error: BaseException | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        """Advance until told to stop; what goes wrong is kept for the main thread."""
        try:
            while not self._stopping.is_set():
                if not self.learner.trainer.advance():
                    time.sleep(self.IDLE_WAIT)
        except BaseException as error:
            self.error = error
            self._drain_until_stopped()

    def _drain_until_stopped(self) -> None:
        """A collector that waits at a full queue must get on to see the error."""
        while not self._stopping.wait(self.IDLE_WAIT):
            for queue in self.learner.trainer.queues:
                queue.drain()

    def stop(self) -> None:
        """Let the update in hand end, then stop."""
        self._stopping.set()
        self.join()
