"""One behaviour in a run: its trainer, the policy that acts for it, its statistics and its files."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from numpy.typing import NDArray

from ...agent_processor.processor import AgentManager, TrajectoryQueue
from ...agent_processor.queues import AgentManagerQueue
from ...agent_processor.trajectory import AgentKey, EpisodesForgotten
from ...envs.base import BehaviorId, Decision, EnvironmentStep
from ..callbacks.events import EpisodeEnd, UpdateEnd
from ..checkpoints.run_folder import require_folder_name
from ..curriculum.curriculum import TrainingProgress
from ..policies.agent_states import Asking
from ..policies.policy import Policy
from ..settings.models.behavior import NEVER, TrainerSettings
from ..stats.reporter import StatsReporter
from ..stats.writer import StatsPropertyType
from .checkpointing import LearnerCheckpointer
from .context import RunContext
from .episode_stats import EPISODES
from .factory import make_algorithm, make_trainer
from .inference import InferencePolicy, apart
from .schedules import EvaluationSchedule
from .self_play.manager import SelfPlayManager
from .trainer import Trainer

logger = logging.getLogger(__name__)

THREADED_QUEUE = 20
"""Trajectories that may wait for a threaded trainer before the collector is held up."""


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
        if settings.self_play is not None:
            self.reporter.add_property(StatsPropertyType.SELF_PLAY, True)
        self.algorithm = make_algorithm(spec, settings, run.device, run.seed, run.non_finite, run.precision)
        self.trainer = self._make_trainer()
        self.collected: TrajectoryQueue = AgentManagerQueue(name, THREADED_QUEUE if settings.threaded else 0)
        """What the agents of all teams have brought, in the order in which it came."""
        self._to_learn = AgentManagerQueue(name) if self._plays else self.collected
        """What of that is learnt from."""
        self.trainer.subscribe(self._to_learn)
        self.side = InferencePolicy(
            *(name, spec, self.algorithm, run.seed + 2),
            apart=apart(settings.threaded, run.device),
            deterministic=self._acts_without_chance(),
            places=self._places,
        )
        """By what its agents act."""
        self.contest = self._make_self_play()
        """Its self-play."""
        self.tests = EvaluationSchedule(settings.test_frequency if run.training else NEVER)
        self.files = LearnerCheckpointer(
            *(name, spec, run, self.trainer, self.algorithm.network, self.side.policy),
            *(self.tests, self.contest),
        )
        self._judged: float | None = None
        """The mean reward, or the rating, by which the policy of this moment is one of the best."""
        self.managers: dict[str, AgentManager] = {}
        self.files.restore()
        self.side.load()
        self._first_step = self.trainer.step
        if run.callbacks.hears(EpisodeEnd):
            self.trainer.episodes.on_episode = self._episode_ended

    def _acts_without_chance(self) -> bool:
        """Whether agents do what is likeliest; greedy ones do anyway, and explore while they learn."""
        if self.algorithm.traits.is_greedy and not self.run.training:
            return True
        explores = self.algorithm.explorer is not None
        return self.settings.network_settings.deterministic and not explores

    def _make_trainer(self) -> Trainer:
        settings, run = self.settings, self.run
        return make_trainer(
            *(self.name, self.spec, settings, self.algorithm, self.reporter, self),
            training=run.training,
            non_finite=run.non_finite,
            returns_kept=run.curriculum.returns_kept(self.name),
            seed=run.seed,
            device=run.device,
            update_threads=None if settings.threaded else run.update_threads(),
            timers=run.timers.of_thread() if settings.threaded else run.timers,
        )

    def _make_self_play(self) -> SelfPlayManager | None:
        """The self-play, where it is wanted; without training all teams act by the same weights."""
        settings, run = self.settings, self.run
        if settings.self_play is None or not self._plays:
            return None
        return SelfPlayManager(
            *(self.name, settings.self_play, run.rotation, self.algorithm.network, self.side.opponent),
            *(self.reporter, run.seed + 5),
        )

    @property
    def _plays(self) -> bool:
        return self.settings.self_play is not None and self.run.training

    @property
    def elo(self) -> float | None:
        """The rating of self-play."""
        return None if self.contest is None else self.contest.elo

    def manager(self, behavior_id: str) -> AgentManager:
        """The agent manager of one of the behaviour's ids (one per team)."""
        if behavior_id not in self.managers:
            self._meet(behavior_id)
            manager = AgentManager(
                behavior_id,
                self.spec,
                self.settings.time_horizon,
                self.reporter,
                memory_size=self.side.network.memory_size,
                trajectory_queue=self.collected,
                places=self.algorithm.traits.roster_size,
                by_worker=self.settings.worker_statistics,
            )
            self.managers[behavior_id] = manager
        return self.managers[behavior_id]

    def _meet(self, behavior_id: str) -> None:
        """A team is seen for the first time."""
        if self.contest is not None:
            self.contest.join(behavior_id)
        elif len(self.managers) == 1 and self.run.training:
            logger.warning(
                "%s: this trainer doesn't support adversarial games: its teams (%s, %s) all learn at once, "
                "by one policy. With a section self_play one of them learns and plays against older selves.",
                *(self.name, *self.managers, behavior_id),
            )

    def decide(self, batches: Sequence[DecisionSteps], asking: Sequence[Asking] = ()) -> list[Decision]:
        """Act for all agents that wait, with the newest weights that the learner has published.

        `asking`: whose agents each batch holds, by which those with a memory are known again.
        """
        self.side.catch_up()
        self._asked += sum(len(batch) for batch in batches)
        if self.contest is None:
            return self._act(self.side.policy, batches, asking)
        return self.contest.decide(self.side.policy, batches, asking, self._act)

    def _act(
        self, policy: Policy, batches: Sequence[DecisionSteps], asking: Sequence[Asking]
    ) -> list[Decision]:
        return self.side.act(policy, batches, asking, self.trainer.step)

    def end_episodes(self, step: EnvironmentStep, behavior_id: BehaviorId) -> None:
        """What acting keeps of agents ends with their episodes: to be called before they are answered."""
        self.side.end_episodes(step, behavior_id)

    @property
    def acts_by_place(self) -> bool:
        """What agents say has to be collected before they act: that is when they get their places."""
        return self.side.acts_by_place

    def _places(self, batches: Sequence[DecisionSteps], asking: Sequence[Asking]) -> torch.Tensor:
        """[n] the places of the agents of all batches."""
        places = [
            self.manager(behavior_id).places(env, np.asarray(batch.agent_id))
            for (env, behavior_id), batch in zip(asking, batches, strict=True)
        ]
        return torch.from_numpy(np.concatenate(places))

    def advance(self) -> None:
        """Let the trainer take in and learn, once enough steps are worth a call of it."""
        portion = self.trainer.portion
        if self._asked >= (portion if self.contest is None else self.contest.portion(portion)):
            self._asked = 0
            self.learn()

    def learn(self) -> bool:
        """Let the trainer take in and learn what has come. False: there was nothing to do."""
        if self.contest is None:
            return self.trainer.advance()
        self._sift(self.contest)
        something = self.trainer.advance()
        if not self.restart_due:  # else what falls due now is done when the engines run again
            self.contest.advance(self.trainer.step)
        return something

    def _sift(self, contest: SelfPlayManager) -> None:
        for item in contest.sift(self.collected.drain(), self.trainer.step):
            self._to_learn.put(item)

    def forget(self, env: int | None = None) -> None:
        """The unfinished episodes of one environment's agents, or of all, will never end."""
        for manager in self.managers.values():
            manager.end_episode(env)
        self.collected.put(EpisodesForgotten(env))

    def forget_agents(self, behavior_id: str, env: int, agent_ids: NDArray[np.int32]) -> None:
        """The same of some agents of one environment."""
        self.manager(behavior_id).forget_agents(env, agent_ids)
        self.collected.put(EpisodesForgotten(env, agent_ids))

    def progress(self) -> TrainingProgress:
        """How far the training has come, by which lessons are measured; from any thread."""
        returns = self.trainer.episodes.recent_returns.copy()
        return TrainingProgress(self.trainer.step, self.settings.max_steps, returns, self.elo)

    def begin_lesson(self) -> None:
        """A lesson has begun: what episodes and the best policies earned before says nothing about it."""
        self.trainer.episodes.begin_lesson()
        self.files.checkpoints.best.reset()

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
        for parameter, lesson in self.run.curriculum.numbers.items():
            self.reporter.set_stat(f"Environment/Lesson Number/{parameter}", float(lesson))
        self.reporter.write_stats(step)
        return self.trainer.should_still_train and self._judge()

    def _judge(self) -> bool:
        if self.settings.keep_best and self.run.training and not self.tests.on:
            mean = self.trainer.episodes.record.judge()
            self._consider(None if mean is None else self._worth(mean))
        return self._judged is not None

    def save_if_best(self, score: float) -> Path | None:
        """Save the policy if it is one of the best by test; the path of its weights then."""
        if not self.settings.keep_best:
            return None
        self._consider(self._worth(score))
        if self._judged is None:
            return None
        step, before = self.trainer.step, self.files.saved
        self.best()
        return self.files.weights(step) if self.files.saved != before else None

    def _worth(self, reward: float) -> float:
        """What a policy of this mean reward is judged by: in self-play its rating."""
        return reward if self.contest is None else self.contest.elo

    def _consider(self, judged: float | None) -> None:
        best = self.files.checkpoints.best
        self._judged = judged if judged is not None and best.admits(judged) else None

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
        if self.side.apart:
            self.side.publish(dict(self.algorithm.network.named_buffers()))
        if self.contest is not None:
            self.contest.taken_in()

    def updated(self, figures: Mapping[str, float]) -> None:
        """Hand new weights to the acting copy, where there is one."""
        if self.side.apart:
            self.side.publish(self.algorithm.network.state_dict())
        if self.contest is not None:
            self.contest.learnt()
        self.run.callbacks.tell(UpdateEnd(self.name, self.trainer.step, figures))

    def _episode_ended(self, agent: AgentKey, reward: float, group_reward: float | None, length: int) -> None:
        event = EpisodeEnd(
            *(self.name, self.trainer.step, agent.env, agent.agent, reward, group_reward, length)
        )
        self.run.callbacks.tell(event)

    # Files ----------------------------------------------------------------------------------------------

    def save(self, due: bool = True) -> bool:
        """Write a checkpoint and its brain; a full disk is warned of and survived. Whether it was written."""
        judged, self._judged = self._judged, None
        return self.files.save(judged, due)

    def finish(self) -> Path:
        """Count what still waits, save once more and copy the newest brain to where the engine's user looks.

        Raises:
            CheckpointError: the weights or the brain could not be written.
            Exception: what still waited could not be taken in, such as a FloatingPointError of numbers that
                are not finite; all else is written then.
        """
        flaw: Exception | None = None
        try:
            if self.contest is not None:
                self._sift(self.contest)
            self.trainer.take_in()
        except Exception as error:  # whatever it is: what was learnt before is to be saved
            flaw = error
        self._judge()
        brain = self.files.finish(saved=self.save())
        if flaw is not None:
            raise flaw
        return brain

    def conclude(self) -> None:
        """End an inference that had a limit: what was earned since the last summary is told too."""
        if self.run.inference_steps is not None:
            self.trainer.take_in()
            self.summary(self.trainer.step)
