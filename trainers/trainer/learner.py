"""One behavior in a run: its trainer, the policy that acts for it, its statistics and its files."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from numpy.typing import NDArray

from ...agent_processor.processor import AgentManager, TrajectoryQueue
from ...agent_processor.queues import AgentManagerQueue
from ...agent_processor.trajectory import AgentKey, EpisodesDropped
from ...envs.base import BehaviorId
from ..algorithms.base import OnPolicyAlgorithm
from ..callbacks.events import EpisodeEnd, UpdateEnd
from ..checkpoints.run_folder import require_folder_name
from ..curriculum import TrainingProgress
from ..policies.agent_states import BatchSource
from ..policies.joint import ActRequest
from ..settings.models.behavior import NEVER, TrainerSettings
from ..stats.earned import EPISODES
from ..stats.reporter import StatsReporter
from ..stats.writer import StatsPropertyType
from ..utils import distributed
from .checkpointing import LearnerCheckpointer
from .context import RunContext
from .distributed import rank_seed, rank_settings
from .factory import make_algorithm, make_trainer
from .inference import InferencePolicy
from .learner_process import LearnerPlan, LearnerProcess
from .on_policy import OnPolicyTrainer
from .schedules import EvaluationSchedule
from .self_play.manager import SelfPlayManager
from .trainer import Trainer

logger = logging.getLogger(__name__)

THREADED_QUEUE = 20
"""Trajectories that may be queued for a threaded trainer before the collector has to wait."""


class Learner:
    """Joins the parts of one behavior; as the trainer's `TrainerEvents` it writes what is due.

    The weights are the algorithm's: the trainer updates them, the policy acts with them or with a copy that
    `InferencePolicy` owns, and the checkpointer writes them. Updates are made where `settings.threaded` says:
    in the run's loop, or beside it by a process (`LearnerProcess`), or by a thread (`in_thread`) where the
    algorithm cannot learn from steps of older weights.
    """

    def __init__(self, name: str, spec: BehaviorSpec, settings: TrainerSettings, run: RunContext) -> None:
        """Make the parts, and load the weights that the run starts from or resumes with.

        Raises:
            TrainerError: the behavior's name cannot name a folder, or weights are missing or do not fit.
            UnsupportedObservationError: there is no network for such observations.
        """
        require_folder_name(name, run.terms)
        self.name = name
        self.spec = spec
        self.run = run
        self.restart_due = False
        """Whether the engines are to be restarted, because a checkpoint was saved."""
        self._requests = 0
        """The number of decisions since the trainer last advanced."""
        self._acted = False
        """Whether there were decisions since the last call of `advance`."""
        self._failure: Exception | None = None
        """The error of `process_remaining`."""
        self.managers: dict[BehaviorId, AgentManager] = {}
        """The agent managers of the behavior's teams."""
        self.reporter = StatsReporter(name, run.writers)
        self.reporter.add_property(StatsPropertyType.HYPERPARAMETERS, settings.as_dict())
        self.reporter.add_property(StatsPropertyType.MAX_STEPS, settings.max_steps)
        if settings.self_play is not None:
            self.reporter.add_property(StatsPropertyType.SELF_PLAY, True)
        self.settings = settings = rank_settings(settings)
        seed = rank_seed(run.seed)
        self.algorithm = make_algorithm(spec, settings, run.device, seed, run.non_finite, run.precision)
        in_process = isinstance(self.algorithm, OnPolicyAlgorithm) and self.algorithm.learns_from_older
        self.in_thread = settings.threaded and not in_process
        """Whether the trainer learns in a thread of its own."""
        self.trainer = self._make_trainer(seed)
        self.collected: TrajectoryQueue = AgentManagerQueue(
            name, THREADED_QUEUE if self.in_thread else 0, lambda: run.stop.asked
        )
        """The trajectories of all teams, in the order in which they ended."""
        self.inference = InferencePolicy(
            name,
            spec,
            self.algorithm,
            seed + 2,
            self.managers,
            separate=self.in_thread or run.device.type != "cpu",
            deterministic=self._is_deterministic(),
            random_steps=settings.hyperparameters.random_steps if run.training else 0,
        )
        self.self_play = self._make_self_play()
        self._to_learn = self.collected if self.self_play is None else AgentManagerQueue(name)
        """The trajectories that are learned from."""
        self.trainer.subscribe(self._to_learn)
        self.evaluation_schedule = EvaluationSchedule(
            settings.test_frequency if run.training else NEVER,
            math.inf if settings.endless else settings.max_steps,
        )
        self.checkpointer = LearnerCheckpointer(
            name, spec, run, self.trainer, self.inference.policy, self.evaluation_schedule, self.self_play
        )
        self.checkpointer.restore()
        self.inference.load()
        self._first_step = self.trainer.step
        starts = settings.threaded and run.training and in_process
        self._process = self._start_process(seed) if starts else None
        """The process that makes the updates; None where a thread or the run's loop makes them."""
        if run.callbacks.has_hook(EpisodeEnd):
            self.trainer.episodes.on_episode = self._episode_ended

    def _start_process(self, seed: int) -> LearnerProcess:
        """The process that updates the trainer, with as many threads as the run leaves it."""
        assert isinstance(self.trainer, OnPolicyTrainer)
        run, threads = self.run, self.run.update_threads()
        if not threads.fixed:
            threads = replace(threads, most=max(1, threads.most - 1))
        settings = self.settings.model_copy(update={"threaded": False})  # there nothing acts beside it
        plan = LearnerPlan(
            self.name, self.spec, settings, seed, run.device, run.non_finite, run.precision, threads
        )
        process = LearnerProcess(plan, run.timers.of_thread(), run.timeout, lambda: run.stop.asked)
        self.trainer.learner_process = process
        return process

    def close(self) -> None:
        """End the process that learns, if there is one."""
        if self._process is not None:
            self._process.close()

    def _is_deterministic(self) -> bool:
        """Whether agents take the likeliest actions. Greedy policies do anyway; in training they explore."""
        if self.algorithm.traits.is_greedy and not self.run.training:
            return True
        explores = self.algorithm.explorer is not None
        return self.settings.network_settings.deterministic and not explores

    def _make_trainer(self, seed: int) -> Trainer:
        """Make the trainer of what is `collected`; it updates in a thread of its own or in this one."""
        settings, run = self.settings, self.run
        return make_trainer(
            self.spec,
            settings,
            self.algorithm,
            self.reporter,
            self,
            name=self.name,
            training=run.training,
            non_finite=run.non_finite,
            returns_kept=run.curriculum.returns_kept(self.name),
            seed=seed,
            device=run.device,
            update_threads=None if settings.threaded else run.update_threads(),
            in_thread=self.in_thread,
            spread_updates=run.device.type == "cpu" and distributed.world_size() == 1 and not self.in_thread,
            timers=run.timers.of_thread() if self.in_thread else run.timers,
        )

    def _make_self_play(self) -> SelfPlayManager | None:
        """Make self-play; None if unwanted or nothing is learned: all teams then act by the same weights."""
        settings, run = self.settings.self_play, self.run
        if settings is None or not run.training:
            return None
        manager = SelfPlayManager(
            self.name,
            settings,
            run.rotation,
            network=self.algorithm.network,
            make_policy=self.inference.make_opponent,
            stats=self.reporter,
            seed=run.seed + 5,
            terms=run.terms,
        )
        self.trainer.rating = lambda: manager.elo
        return manager

    def load_rest(self) -> None:
        """Import what acting does not need, but the first checkpoint will."""
        if self.run.training:
            self.checkpointer.load_exporter()

    def add_team(self, behavior_id: BehaviorId) -> AgentManager:
        """Make the agent manager of one of the behavior's ids (one per team), unless it is there."""
        if behavior_id in self.managers:
            return self.managers[behavior_id]
        if self.self_play is not None:
            self.self_play.add_team(behavior_id)
        elif (
            len(self.managers) == 1
            and self.run.training
            and "self_play" not in self.settings.model_fields_set
        ):
            logger.warning(
                "%s: this trainer doesn't support adversarial games: its teams (%s, %s) all learn at once, "
                "by one policy. With a section self_play one of them learns and plays against older selves; "
                "self_play: null says that all are to learn.",
                self.name,
                *self.managers,
                behavior_id,
            )
        self.trainer.episodes.expect(behavior_id)
        self.managers[behavior_id] = AgentManager(
            behavior_id,
            self.spec,
            self.settings.time_horizon,
            self.reporter,
            memory_size=self.inference.network.memory_size,
            trajectory_queue=self.collected,
            places=self.algorithm.traits.roster_size,
            by_worker=self.settings.worker_statistics,
        )
        return self.managers[behavior_id]

    # Acting ---------------------------------------------------------------------------------------------

    def act_requests(
        self, batches: Sequence[DecisionSteps], sources: Sequence[BatchSource]
    ) -> list[ActRequest]:
        """What to ask the policies of all agents that request a decision.

        They act with the newest weights that the trainer has published.

        Args:
            batches: at least one agent in all.
            sources: the environment and the behavior id of each batch.

        Returns:
            One request for each policy; every batch is in one of them.
        """
        for batch in batches:
            self._requests += len(batch)
        self._acted = True
        if self.inference.separate:
            self.inference.load_published()
        if self.self_play is None:
            return [self.inference.request(self.inference.policy, batches, sources, self.trainer.step)]
        request = partial(self.inference.request, step=self.trainer.step)
        return self.self_play.opponents.requests(self.inference.policy, batches, sources, request)

    def reset_agents(
        self,
        env: int | None = None,
        behavior_id: BehaviorId | None = None,
        agent_ids: NDArray[np.int32] | None = None,
    ) -> None:
        """Drop the unfinished episodes of all agents, of one environment's, or of some of its agents.

        Args:
            env: the environment; None for all of them.
            behavior_id: of the agents in `agent_ids`.
            agent_ids: [n]; None for all agents of all teams.
        """
        if behavior_id is not None and env is not None and agent_ids is not None:
            self.managers[behavior_id].reset_agents(env, agent_ids)
        else:
            for manager in self.managers.values():
                manager.end_episode(env)
        self.collected.put(EpisodesDropped(env, agent_ids))

    def on_engine_restart(self) -> None:
        """Forget what is under way, as a run that is resumed here."""
        self.restart_due = False
        self.collected.drain()
        self._requests = 0
        self.reset_agents()

    # Learning -------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Learn if it is time, or make updates left over; return whether any were made."""
        acted, self._acted = self._acted, False
        if self.is_due:
            self.learn()
            return True
        # Not after each wait for an engine: how many of them are in vain depends on the machine.
        return acted and self.trainer.continue_updates()

    @property
    def is_due(self) -> bool:
        """Whether there are enough steps for the trainer to advance."""
        interval = self.trainer.advance_interval
        return self._requests >= (interval if self.self_play is None else self.self_play.interval(interval))

    def learn(self) -> bool:
        """Let the trainer process what has been collected and update. False: there was nothing to do."""
        self._requests = 0
        if not self.trainer.has_overdue_updates:
            self._split_by_team()
        worked = self.trainer.advance()
        # Before the engines restart, what falls due now is left to when they run again.
        if self.self_play is not None and not self.restart_due:
            self.self_play.advance(self.trainer.step)
            if self.run.rotation.changed:  # its own team may not learn again for long
                self.trainer.finish_update()
        return worked

    def synchronize(self) -> None:
        """Start, or continue, where rank 0 does; every rank of the run has met the behavior."""
        self.checkpointer.synchronize()
        self.inference.load()

    def _split_by_team(self) -> None:
        """Pass on the trajectories of the team that learns, in self-play."""
        if self.self_play is not None:
            for item in self.self_play.select(self.collected.drain(), self.trainer.step):
                self._to_learn.put(item)

    def progress(self) -> TrainingProgress:
        """How far the training has come, by which lessons are measured; from any thread."""
        elo = None if self.self_play is None else self.self_play.elo
        earned = self.trainer.episodes.history
        by_groups, returns = earned.by_groups, earned.last.copy()  # in this order: see `count_groups`
        return TrainingProgress(self.trainer.step, self.settings.max_steps, returns, elo, by_groups)

    def on_new_lesson(self) -> None:
        """A lesson has begun: rewards from before, of episodes and of the best policies, do not compare."""
        self.trainer.episodes.clear_history()
        self.checkpointer.checkpoints.best.reset()

    @property
    def should_continue(self) -> bool:
        """Whether steps are still wanted: to learn from, or of an inference."""
        if self.run.training:
            return self.trainer.should_still_train
        limit = self.run.inference_steps
        return limit is None or self.trainer.step - self._first_step < limit

    # TrainerEvents --------------------------------------------------------------------------------------

    def on_summary(self, step: int) -> bool:
        """Write statistics of the last `summary_freq` steps; return whether the policy is one of the best."""
        self.reporter.add_stat("Is Training", float(self.trainer.should_still_train))
        for parameter, lesson in self.run.curriculum.numbers.items():
            self.reporter.set_stat(f"Environment/Lesson Number/{parameter}", float(lesson))
        self.reporter.join_ranks(self.run.first_environment)
        self.reporter.write_stats(step)
        is_better = self.trainer.should_still_train and self._is_one_of_the_best()
        return distributed.sums(is_better)[0] > 0  # rank 0 decides

    def _is_one_of_the_best(self) -> bool:
        """Compare by what was earned in training, unless evaluations decide."""
        compares = self.settings.keep_best and self.run.training and not self.evaluation_schedule.enabled
        if not compares or distributed.rank():
            return False
        return self.checkpointer.compare_with_best(self.trainer.episodes.history.next_mean())

    def save_if_best(self, mean_reward: float) -> Path | None:
        """Save the policy if by an evaluation it is one of the best; return the path of its weights then."""
        best = self.settings.keep_best and self.checkpointer.compare_with_best(mean_reward)
        saved = best and self.save(due=False)
        return self.checkpointer.weights(self.trainer.step) if saved else None

    def on_best_policy(self) -> bool:
        """Save one of the best policies between two checkpoints that are due."""
        self.save(due=False)
        return self.restart_due

    def on_checkpoint(self) -> bool:
        """Save a numbered checkpoint and its model."""
        self.save()
        return self.restart_due

    def on_reward_reached(self, reached: float) -> None:
        """Log why the training is over before max_steps."""
        of = f"mean reward of the last {EPISODES} episodes"
        if len(self.managers) > 1:
            of += " of each team"
        if self.self_play is not None:
            of = "rating"
        logger.info(
            "%s: the %s, %.3f, has reached stop_at_reward (%g) at step %d. "
            "Training of this behavior is over.",
            self.name,
            of,
            reached,
            self.settings.stop_at_reward,
            self.trainer.step,
        )

    def on_steps_processed(self) -> None:
        """Publish the normalizer's new statistics to the acting copy, where there is one."""
        if self.inference.separate:
            self.inference.publish(dict(self.algorithm.network.named_buffers()))
        if self.self_play is not None:
            self.self_play.on_steps_processed()

    def on_update(self, metrics: Mapping[str, float]) -> None:
        """Publish the new weights to the acting copy, where there is one."""
        self.evaluation_schedule.on_update()
        if self.inference.separate:
            self.inference.publish(self.algorithm.network.state_dict())
        if self.self_play is not None:
            self.self_play.on_update()
        self.run.callbacks.dispatch(UpdateEnd(self.name, self.trainer.step, metrics))

    def _episode_ended(
        self, agent: AgentKey, seat: str, reward: float, group_reward: float | None, length: int
    ) -> None:
        env, number, step = agent.env, agent.agent, self.trainer.step
        event = EpisodeEnd(self.name, step, env, number, reward, group_reward, length, seat)
        self.run.callbacks.dispatch(event)

    # Files ----------------------------------------------------------------------------------------------

    def save(self, due: bool = True, *, final: bool = False) -> bool:
        """Write a checkpoint and its model; return whether that succeeded. A full disk costs a warning."""
        self.restart_due = self.run.restart_engines_at_checkpoints
        return self.checkpointer.save(due, final=final)

    def process_remaining(self) -> None:
        """Process what is still queued, before `finish`, which raises the error if that fails."""
        try:
            self._split_by_team()
            self.trainer.process_queues()
            self.trainer.finish_update()
        except Exception as error:  # whatever it is: what was learned before is to be saved
            self._failure = error

    def finish(self) -> Path:
        """Save once more and copy the newest model to `<run>/<behavior>.onnx`.

        Raises:
            CheckpointError: the weights or the model could not be written.
            Exception: of `process_remaining`, such as a FloatingPointError of numbers that are not finite;
                everything else is written then.
        """
        self._is_one_of_the_best()
        model = self.checkpointer.finish(saved=self.save(final=True))
        if self._failure is not None:
            raise self._failure
        return model

    def conclude(self) -> None:
        """End an inference that had a limit, with a summary of what was earned since the last one."""
        if self.run.inference_steps is not None:
            self.trainer.process_queues()
            self.on_summary(self.trainer.step)
