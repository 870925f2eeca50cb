"""The loop of a run: wait for the engines, act, learn, evaluate, reset."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from mlagents_envs.base_env import BehaviorSpec, DecisionSteps

from ...agent_processor.groups import GroupSlotsFullError
from ...envs.base import BehaviorId, BehaviorName, Decision, EnvironmentStep
from ...envs.manager.manager import EnvManager
from ...envs.manager.restarts import EngineStopped, StopAsked
from ...envs.manager.specs import SharedGroups
from ..callbacks.dispatcher import CallbackDispatcher
from ..callbacks.events import StepTaken
from ..curriculum import Curriculum, LessonChange, TrainingProgress
from ..policies.agent_states import BatchSource
from ..policies.joint import JointPolicies
from ..stats.display import Display
from ..stats.timers import Timers
from ..trainer.context import StopRequest
from ..trainer.learner import Learner
from ..trainer.self_play.team_rotation import TeamRotation
from ..trainer.thread import LearnerThread, paused
from ..utils import distributed
from ..utils.errors import ProcessLostError, TrainerError
from .coordinator import RankCoordinator
from .evaluation.evaluator import Evaluator
from .resume_point import has_new_checkpoint, set_resume_point

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.25
"""Seconds between checks whether the user has asked to stop, while no engine answers."""

ABORT_TIMEOUT = 1.0
"""Seconds that an update under way may still take when the user wants to stop at once."""

INTERRUPTED = "Learning was interrupted. Please wait while the graph is generated."
"""ML-Agents' own line, which scripts look for: the user or the engine has ended the run before its steps."""

MakeLearner = Callable[[str, BehaviorSpec], Learner]


class TrainerController:
    """Runs until every trainer has its steps, the user stops it, or an engine ends the session."""

    def __init__(
        self,
        make_envs: Callable[[], EnvManager],
        make_learner: MakeLearner,
        display: Display,
        curriculum: Curriculum | None = None,
        *,
        training: bool = True,
        decision_timeout: float = 60.0,
        on_first_learner: Callable[[], None] = lambda: None,
        timers: Timers | None = None,
        callbacks: CallbackDispatcher | None = None,
        evaluator: Evaluator | None = None,
        rotation: TeamRotation | None = None,
        envs: EnvManager | None = None,
        stop: StopRequest | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            make_envs: makes the environments, not yet started; called again whenever all engines restart.
            make_learner: makes the learner of a behavior when an environment first shows it.
            display: what the user sees.
            curriculum: the lessons, which set the environments' parameters.
            training: learn and save; otherwise only act.
            decision_timeout: seconds within which some agent has to request its first decision.
            on_first_learner: called once there is something to save.
            timers: measure each part of the loop.
            callbacks: notified of the run's events; they may stop it.
            evaluator: evaluates the policies; None if no behavior asks for it.
            rotation: which team learns; the environments are reset when it changes.
            envs: the first environments, where they are being launched already.
            stop: what the run's waits ask.
        """
        self._make_envs = make_envs
        self._make_learner = make_learner
        self.display = display
        self.curriculum = curriculum or Curriculum()
        self.training = training
        self.envs = envs or make_envs()
        self.envs.should_stop = self._is_ending
        self.learners: dict[str, Learner] = {}
        """By behavior name."""
        self._learner_of: dict[BehaviorId, Learner] = {}
        self._stateful: dict[BehaviorId, Learner] = {}
        """Learners whose policy keeps a state per agent."""
        self._new: list[Learner] = []
        """Learners that have not acted yet."""
        self._collects_first = False
        """Some policy acts by the slots that agents get when their steps are collected."""
        self._threads: list[LearnerThread] = []
        self._stop = stop or StopRequest()
        self._decision_timeout = decision_timeout
        self._decision_deadline: float | None = None
        """None as soon as an agent has requested a decision."""
        self._on_first_learner = on_first_learner
        self._shared_groups = SharedGroups()
        self._timers = timers or Timers()
        self._policies = JointPolicies()
        self._callbacks = callbacks or CallbackDispatcher()
        self._notifies_steps = self._callbacks.has_hook(StepTaken)
        self._evaluator = evaluator
        self._rotation = rotation or TeamRotation()
        self._ranks = RankCoordinator(self.curriculum) if distributed.world_size() > 1 else None
        self._lesson_reset = False
        """A lesson that rank 0 has begun asks for a reset."""

    def run(self) -> None:
        """The whole run: train, then write the last checkpoints and models, even after an error.

        Before they are written, a training that was not ended from outside evaluates the final policies.

        Raises:
            KeyboardInterrupt: the user wants to stop at once; nothing is saved then.
        """
        complete = False
        try:
            try:
                complete = self._train_until_stopped()
            except KeyboardInterrupt as stopped:
                if stopped.args:  # raised by the run's own handler of signals, which says when
                    raise
                if not any(self.steps().values()):
                    raise KeyboardInterrupt("before anything was learned") from stopped
                # Raised by an environment, or a library has replaced the handler.
                distributed.leave()
                logger.info(INTERRUPTED)
            except Exception as error:  # what was learned is saved, whatever has failed
                distributed.leave()
                if not self._is_stopped_without(error):
                    if any(self.steps().values()):
                        self._save(log_failures=True)
                    else:  # there is nothing to keep
                        self._stop_threads()
                    raise
                logger.warning("%s", error)
                logger.info(INTERRUPTED)
            self._save(evaluate=complete)
            self._callbacks.raise_failure()
        except KeyboardInterrupt:
            self._stop_threads(ABORT_TIMEOUT)
            self.envs.close(at_once=True)
            raise
        finally:
            for learner in self.learners.values():
                learner.close()
            self.envs.close()

    def _train_until_stopped(self) -> bool:
        """The loop; whether it came to its own end, and not by an engine or by the user."""
        try:
            self._train()
        except (EngineStopped, StopAsked) as end:
            if isinstance(end, EngineStopped):
                logger.info("%s Finishing the run.", end)
            if self._ranks is not None:
                self._ranks.end()
            logger.info(INTERRUPTED)
            return False
        return not self.stopped

    def _is_stopped_without(self, error: BaseException) -> bool:
        """Whether the user has ended the run, and all that is wrong is a process that does not answer."""
        return self.stopped and isinstance(error, ProcessLostError)

    def _train(self) -> None:
        """The loop: wait, act, send, collect, learn, evaluate, reset."""
        span = self._timers.span
        with span("TrainerController._reset_env"):
            self.envs.start()
            steps = self.envs.reset(self.curriculum.samplers())
        self._decision_deadline = time.monotonic() + self._decision_timeout

        while self._should_continue():
            with span("TrainerController.advance"):
                # Wait: until at least one engine has answered. A reset has its answers already.
                with span("EnvManager.wait"):
                    steps = steps or self.envs.wait(POLL_INTERVAL)
                self._add_new_behaviors(steps)
                if self._ranks is not None:
                    self._ranks.announce(self.learners)

                with span("env_step"):
                    if self._collects_first:
                        self._collect(steps)
                    with span("SubprocessEnvManager._take_step"):
                        # Act: one forward pass per behavior, for the agents of all environments.
                        decisions = self._act(steps)
                        # Send: every engine that has answered computes its next step meanwhile.
                        for env, decisions_by_id in decisions.items():
                            self.envs.send(env, decisions_by_id)
                    while self._new:  # their engines compute meanwhile: the first step does not wait for it
                        self._new.pop().load_rest()
                    # Collect: agent steps become trajectories.
                    if not self._collects_first:
                        self._collect(steps)
                    if self._notifies_steps:
                        self._notify_steps(steps)

                # Learn: take trajectories in, update what is due, save what is due.
                with span("trainer_advance"):
                    for thread in self._threads:
                        thread.raise_error()
                    if self._ranks is not None:
                        self._learn_with_ranks(self._ranks)
                    else:
                        for learner in self.learners.values():
                            if learner.advance():
                                self.display.progress(learner.name, learner.trainer.step)

                # Evaluate: in an environment of its own, while training pauses.
                evaluator = self._evaluator
                if evaluator is not None and evaluator.is_due(self.learners) and not self._should_stop():
                    with span("Evaluation"), paused(self._threads):
                        for learner in self.learners.values():
                            learner.trainer.finish_update()
                        evaluator.run(self.learners, self.curriculum.samplers(), self._should_stop)

                # Save: where one behavior has saved, so that all of them resume from one moment.
                if has_new_checkpoint(self._known_learners):
                    with paused(self._threads):
                        set_resume_point(self._known_learners)

                # Reset: for a new lesson, another learning team, or because the engines are restarted.
                steps = self._reset_if_due(len(steps))

        self._callbacks.raise_failure()
        if self.stopped:
            logger.info(INTERRUPTED)

    def _should_stop(self) -> bool:
        """Whether the user, or a callback, wants the run to end."""
        return self.stopped or self._callbacks.should_stop

    def _should_continue(self) -> bool:
        """Whether some behavior still wants steps, and no one has asked to stop.

        Raises:
            TrainerError: no agent has requested a decision within the timeout.
        """
        if self._ranks is None and self._should_stop():
            return False
        if self._decision_deadline is not None:
            self._check_decision_deadline(self._decision_deadline)
        if self._ranks is not None:
            return not self._ranks.ended
        for learner in self.learners.values():
            if learner.should_continue:
                return True
        return not self.learners

    def _check_decision_deadline(self, deadline: float) -> None:
        if not self.envs.num_envs:  # engines that connect by themselves have all left
            self._decision_deadline = time.monotonic() + self._decision_timeout
        elif time.monotonic() > deadline:
            shown = ", ".join(self.envs.behavior_specs) or "none"
            raise TrainerError(
                f"No agent has asked for a decision within {self._decision_timeout:g} s "
                "(env_settings.timeout_wait, --timeout-wait), although the environment keeps stepping; "
                f"behaviors that it has shown: {shown}. The scene needs an active agent whose Behavior Type "
                "is Default, and each agent a Decision Requester component or code that calls "
                "RequestDecision."
            )

    def _add_new_behaviors(self, steps: Sequence[EnvironmentStep]) -> None:
        """Make the learner of every behavior that is seen for the first time."""
        for step in steps:
            for behavior_id in step.steps:
                if behavior_id in self._learner_of:
                    continue
                name = BehaviorName.parse(behavior_id).name
                learner = self.learners.get(name)
                if learner is None:
                    learner = self.learners[name] = self._make_learner(
                        name, self.envs.behavior_specs[behavior_id]
                    )
                    learner.add_team(behavior_id)
                    self._new.append(learner)
                    self._on_first_learner()
                    if learner.in_thread:
                        self._threads.append(LearnerThread(learner))
                        self._threads[-1].start()
                else:
                    learner.add_team(behavior_id)
                self._learner_of[behavior_id] = learner
                self._collects_first |= learner.inference.acts_by_slot
                if learner.inference.keeps_agent_states:
                    self._stateful[behavior_id] = learner

    def _act(self, steps: Sequence[EnvironmentStep]) -> dict[int, dict[BehaviorId, Decision]]:
        """Decide for all agents that request a decision; what to send to each environment that answered."""
        decisions: dict[int, dict[BehaviorId, Decision]] = {}
        requests: dict[Learner, tuple[list[DecisionSteps], list[BatchSource]]] = {}
        for step in steps:
            if not step.left:
                decisions[step.env] = {}
            for behavior_id, learner in self._stateful.items():
                learner.inference.end_episodes(step, behavior_id)
            for behavior_id, (decision_steps, _) in step.steps.items():
                if len(decision_steps):
                    batches, sources = requests.setdefault(self._learner_of[behavior_id], ([], []))
                    batches.append(decision_steps)
                    sources.append((step.env, behavior_id))
        if requests:
            self._decision_deadline = None
            with self._timers.span("TorchPolicy.evaluate"):
                asked = [
                    request
                    for learner, (batches, sources) in requests.items()
                    for request in learner.act_requests(batches, sources)
                ]
                answers = self._policies.act(asked)
            for request, decided in zip(asked, answers, strict=True):
                for (env, behavior_id), decision in zip(request.context.sources, decided, strict=True):
                    decisions[env][behavior_id] = decision
        return decisions

    def _collect(self, steps: Sequence[EnvironmentStep]) -> None:
        """Hand what agents observed and earned to the agent processors.

        Raises:
            TrainerError: a group has more agents than there are slots.
        """
        for step in steps:
            if len(step.steps) > 1:
                self._shared_groups.check(step)
            if step.fresh:
                for learner in self.learners.values():
                    learner.reset_agents(step.env)
            for behavior_id, (decision_steps, terminal_steps) in step.steps.items():
                learner = self._learner_of[behavior_id]
                if behavior_id in step.void_agents:
                    learner.reset_agents(step.env, behavior_id, step.void_agents[behavior_id])
                answered = step.decisions.get(behavior_id)
                # A decision counts even if the message that answers it holds only other behaviors' agents,
                # as when behaviors take turns.
                if len(decision_steps) or len(terminal_steps) or answered is not None:
                    try:
                        learner.managers[behavior_id].add_experiences(
                            decision_steps,
                            terminal_steps,
                            step.env,
                            answered,
                            step.lost_lives.get(behavior_id),
                        )
                    except GroupSlotsFullError as error:
                        raise TrainerError(str(error)) from error
            if step.statistics:
                for learner in self.learners.values():
                    # Once per behavior, however many teams it has: sums would be counted twice.
                    first = next(iter(learner.managers.values()))
                    first.record_environment_stats(step.statistics, step.env)

    @property
    def _known_learners(self) -> list[Learner]:
        """Those of all behaviors; with ranks, of those that every rank has met, in one order."""
        names = self.learners if self._ranks is None else self._ranks.behaviors
        return [self.learners[name] for name in names]

    def steps(self) -> dict[str, int]:
        """Trainer steps so far, by behavior."""
        return {name: learner.trainer.step for name, learner in self.learners.items()}

    def _notify_steps(self, steps: Sequence[EnvironmentStep]) -> None:
        """Call the callbacks' `on_environment_step`, once per environment that answered."""
        trainer_steps = self.steps()
        for step in steps:
            self._callbacks.dispatch(StepTaken(step, trainer_steps))

    def _reset_if_due(self, answers: int) -> list[EnvironmentStep]:
        """Reset or restart the environments if something asks for it; their first steps then.

        Args:
            answers: how many environments have answered; lessons are measured once for each.
        """
        for learner in self.learners.values():
            if learner.restart_due:
                with self._timers.span("TrainerController._reset_env"):
                    return self._restart_engines()
        new_lesson, self._lesson_reset = self._lesson_reset, False
        if self.curriculum.has_next and distributed.rank() == 0:
            new_lesson = self._advance_lessons(answers)
        if (self._rotation.changed and self._rotation.take_change()) or new_lesson:
            with self._timers.span("TrainerController._reset_env"):
                return self.envs.reset()
        return []

    def _restart_engines(self) -> list[EnvironmentStep]:
        self.envs.close()
        for learner in self.learners.values():
            learner.restart_due = False
            learner.collected.drain()
            learner.reset_requests()
            learner.reset_agents()
        self.envs = self._make_envs()
        self.envs.should_stop = self._is_ending
        self.envs.start()
        return self.envs.reset(self.curriculum.samplers())

    def _advance_lessons(self, answers: int) -> bool:
        """Measure, once per answer, whether lessons are completed; whether to reset for the next ones."""
        reset = changed = False
        for _ in range(answers):
            change = self.curriculum.advance(self._progress)
            if change is None:
                continue
            self._begin_lessons(change)
            changed, reset = True, reset or change.reset
        if changed:
            self.envs.set_parameters(self.curriculum.samplers())
        return reset

    def _begin_lessons(self, change: LessonChange) -> None:
        for parameter in change.parameters:
            logger.info("%s", self.curriculum.line(parameter))
            self.show_lesson(parameter)
        for learner in self.learners.values():
            learner.on_new_lesson()

    def _learn_with_ranks(self, ranks: RankCoordinator) -> None:
        """Learn when all ranks do, with the lessons of rank 0."""
        if not ranks.should_learn(self.learners, self._should_stop()):
            return
        change = ranks.new_lessons()
        if change is not None:
            self._begin_lessons(change)
            self.envs.set_parameters(self.curriculum.samplers())
            self._lesson_reset = self._lesson_reset or change.reset
        for name in ranks.behaviors:
            self.learners[name].learn()
            self.display.progress(name, self.learners[name].trainer.step)

    def _progress(self, behavior: str) -> TrainingProgress | None:
        learner = self.learners.get(behavior)
        return None if learner is None else learner.progress()

    def show_lesson(self, parameter: str) -> None:
        """Let the display show the lesson that a parameter is in."""
        lessons, number = self.curriculum.lessons[parameter], self.curriculum.numbers[parameter]
        if len(lessons) > 1:
            self.display.lesson(parameter, lessons[number].name, number + 1, len(lessons))

    @property
    def stopped(self) -> bool:
        """Whether the user has asked for the end."""
        return self._stop.asked

    def _is_ending(self) -> bool:
        """Whether the user has asked for the end, of this rank or of another one that now waits for it."""
        return self.stopped or (self._ranks is not None and distributed.ending())

    def stop(self) -> None:
        """Finish the current tick, then end the run in good order."""
        self._stop.asked = True
        distributed.end()
        self.display.status("saving; Ctrl-C again stops at once")

    def _save(self, *, evaluate: bool = False, log_failures: bool = False) -> None:
        """Write the last checkpoints and models of a training run, as many as can be written.

        Args:
            evaluate: evaluate the policies before, if that has not been done at this step.
            log_failures: only log failures, because a worse error is about to be raised.

        Raises:
            Exception: a file could not be written, or a learner's thread had failed.
        """
        self._stop_threads()
        # The loop may have ended before it noticed a thread's error. One that it noticed is the worse error.
        threads = [] if log_failures else self._threads
        failures: list[Exception | BaseException] = [t.error for t in threads if t.error is not None]
        learners = self._known_learners
        if self.training:
            for learner in learners:
                learner.process_remaining()
            if evaluate and not failures:
                self._evaluate_at_end()
        with self._timers.span("TrainerController._save_models"):
            for learner in learners:
                try:
                    if self.training:
                        learner.finish()
                    else:
                        learner.conclude()
                except Exception as error:  # whatever it is: the other learners are still to be saved
                    failures.append(error)
            if has_new_checkpoint(learners):
                set_resume_point(learners, save_others=False)
        if not log_failures:
            for failure in failures:
                if not self._is_stopped_without(failure):
                    raise failure
        for failure in failures:
            logger.error("%s", failure)

    def _evaluate_at_end(self) -> None:
        """Evaluate the policies that are about to be exported, unless they have been; Ctrl-C skips that."""
        evaluator = self._evaluator
        if evaluator is not None and evaluator.is_due_at_end(self.learners):
            with self._timers.span("Evaluation"):
                evaluator.run(self.learners, self.curriculum.samplers(), lambda: self.stopped)

    def _stop_threads(self, timeout: float | None = None) -> None:
        """Stop the learners' threads, all at once; wait at most `timeout` seconds for each."""
        for thread in self._threads:
            thread.request_stop()
        for thread in self._threads:
            thread.stop(timeout)
