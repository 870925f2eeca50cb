"""The loop of a run: wait for the engines, act, learn, evaluate, reset."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from mlagents_envs.base_env import BehaviorSpec, DecisionSteps

from ...agent_processor.groups import GroupSlotsFullError
from ...envs.base import BehaviorId, BehaviorName, Decision, EnvironmentStep
from ...envs.manager.manager import EnvManager
from ...envs.manager.restarts import EngineStopped, StopAsked
from ...envs.manager.specs import SharedGroups
from ..callbacks.events import StepTaken
from ..curriculum import LessonChange
from ..policies.agent_states import BatchSource
from ..policies.joint import JointPolicies
from ..trainer.context import RunContext
from ..trainer.learner import Learner
from ..trainer.thread import LearnerThread, paused, stop_all
from ..utils.errors import ProcessLostError, TrainerError, call_without_exit
from .awaited import AwaitedDecisions
from .engine_errors import dispatch_new, raise_stop
from .evaluation.evaluator import Evaluator
from .resume_point import has_new_checkpoint, set_resume_point

logger = logging.getLogger(__name__)

POLL_INTERVAL = 0.25
"""Seconds between checks whether the user has asked to stop, while no engine answers."""

ABORT_TIMEOUT = 1.0
"""Seconds that an update under way may still take when the user wants to stop at once."""

INTERRUPTED = "Learning was interrupted. Please wait while the graph is generated."
"""ML-Agents' own line, which scripts look for: the user or the engine has ended the run before its steps."""


class TrainerController:
    """Runs until every trainer has its steps, the user stops it, or an engine ends the session."""

    def __init__(
        self,
        run: RunContext,
        make_envs: Callable[[], EnvManager],
        make_learner: Callable[[str, BehaviorSpec], Learner],
        *,
        on_first_learner: Callable[[], None] = lambda: None,
        evaluator: Evaluator | None = None,
        envs: EnvManager | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            run: what its behaviors share; some agent has to request its first decision within its `timeout`.
            make_envs: makes the environments, not yet started; called again whenever all engines restart.
            make_learner: makes the learner of a behavior when an environment first shows it.
            on_first_learner: called once there is something to save.
            evaluator: evaluates the policies; None if no behavior asks for it.
            envs: the first environments, where they are being launched already.
        """
        self._run = run
        self._make_envs = make_envs
        self._make_learner = make_learner
        self.curriculum = run.curriculum
        """The lessons, which set the environments' parameters."""
        self.envs = envs or make_envs()
        self.learners: dict[str, Learner] = {}
        """The learners by behavior name."""
        self._learner_of: dict[BehaviorId, Learner] = {}
        self._new: list[Learner] = []
        """Learners that have not acted yet."""
        self._collects_first = False
        """Whether some policy acts by the slots that agents get when their steps are collected."""
        self._threads: list[LearnerThread] = []
        self._awaited = AwaitedDecisions(run)
        self._on_first_learner = on_first_learner
        self._shared_groups = SharedGroups(lambda: self.envs.present)
        self._timers = run.timers
        self._policies = JointPolicies()
        self._callbacks = run.callbacks
        self._errors = run.errors
        self._notifies_steps = run.callbacks.has_hook(StepTaken)
        self._evaluator = evaluator

    def run(self) -> None:
        """The whole run: train, then write the last checkpoints and models, even after an error.

        Before they are written, a training that was not ended from outside evaluates the final policies.

        Raises:
            KeyboardInterrupt: the user wants to stop at once; nothing is saved then.
            StoppedByEngineError: an engine has printed an error, and the user wants the run to end then.
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
                logger.info(INTERRUPTED)
            except Exception as error:  # what was learned is saved, whatever has failed
                if not self._is_stopped_without(error):
                    if any(self.steps().values()):
                        self._save(log_failures=True)
                    else:  # there is nothing to keep
                        stop_all(self._threads)
                    raise
                logger.warning("%s", error)
                logger.info(INTERRUPTED)
            self._save(evaluate=complete)
        except KeyboardInterrupt:
            stop_all(self._threads, ABORT_TIMEOUT)
            self.envs.close(at_once=True)
            raise
        finally:
            self._errors.save()
            for learner in self.learners.values():
                learner.close()
            self.envs.close()
        # Only now have the engines printed all that they will.
        dispatch_new(self._errors.printed, self._callbacks, self.steps)
        self._callbacks.raise_failure()
        raise_stop(self._errors, saved=self._run.training and bool(self.learners))

    def _train_until_stopped(self) -> bool:
        """Run the loop; return whether it came to its own end, and not by an engine or by the user."""
        try:
            call_without_exit(self._train)
        except (EngineStopped, StopAsked) as end:
            if isinstance(end, EngineStopped):
                logger.info("%s Finishing the run.", end)
            self._on_early_end()
            return False
        finally:
            dispatch_new(self._errors.printed, self._callbacks, self.steps)
        return not self._is_ending()

    def _on_early_end(self) -> None:
        """Handle that an engine, or the user, has ended the run while it waited for an environment."""
        logger.info(INTERRUPTED)

    def _is_stopped_without(self, error: BaseException) -> bool:
        """Whether the user has ended the run, and all that is wrong is a process that does not answer."""
        return self.stopped and isinstance(error, ProcessLostError)

    def _train(self) -> None:
        """The loop: wait, act, send, collect, learn, evaluate, reset."""
        span = self._timers.span
        steps = self._start_engines()
        self._awaited.begin()

        while self._should_continue():
            with span("TrainerController.advance"):
                # Wait: until at least one engine has answered. A reset has its answers already.
                with span("EnvManager.wait"):
                    steps = steps or self.envs.wait(POLL_INTERVAL)
                self._add_new_behaviors(steps)
                if self._new and not self._should_continue():  # resumed with nothing left to train
                    break

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
                        for step in steps:
                            self._callbacks.dispatch(StepTaken(step, self.steps()))

                # Learn: take trajectories in, update what is due, save what is due.
                with span("trainer_advance"):
                    self._learn()

                if self._errors.printed.new:
                    dispatch_new(self._errors.printed, self._callbacks, self.steps)

                # Evaluate: in an environment of its own, while training pauses.
                evaluator = self._evaluator
                if evaluator is not None and evaluator.is_due(self.learners) and not self._should_stop():
                    with span("Evaluation"), paused(self._threads):
                        evaluator.run(self.learners, self.curriculum.samplers(), self._should_stop)

                # Save: where one behavior has saved, so that all of them resume from one moment.
                if has_new_checkpoint(self._known_learners):
                    with paused(self._threads):
                        set_resume_point(self._known_learners)
                        self._errors.save()

                # Reset: for a new lesson, another learning team, or because the engines are restarted.
                steps = self._reset_if_due(len(steps))

        self._callbacks.raise_failure()
        if self._is_ending():
            logger.info(INTERRUPTED)

    def _should_stop(self) -> bool:
        """Whether the user, a callback or an engine's error wants the run to end."""
        return self._is_ending() or self._callbacks.should_stop

    def _should_continue(self) -> bool:
        """Whether some behavior still wants steps, and no one has asked to stop.

        Raises:
            TrainerError: no agent has requested a decision within the timeout.
        """
        if self._should_stop():
            return False
        self._awaited.check(self.envs, self.learners)
        for learner in self.learners.values():
            if learner.should_continue:
                return True
        return not self.learners

    def _add_new_behaviors(self, steps: Sequence[EnvironmentStep]) -> None:
        """Make the learner of every behavior that is seen for the first time."""
        for step in steps:
            for behavior_id in step.steps:
                if behavior_id not in self._learner_of:
                    self._add_behavior(behavior_id)

    def _add_behavior(self, behavior_id: BehaviorId) -> None:
        name = BehaviorName.parse(behavior_id).name
        is_new = name not in self.learners
        if is_new:
            self.learners[name] = self._make_learner(name, self.envs.behavior_specs[behavior_id])
        learner = self._learner_of[behavior_id] = self.learners[name]
        with paused(self._threads):  # a team that appears late gets weights as they are between two updates
            learner.add_team(behavior_id)
        self._collects_first |= learner.inference.acts_by_slot
        if is_new:
            self._new.append(learner)
            self._on_first_learner()
            if learner.in_thread:
                self._threads.append(LearnerThread(learner))
                self._threads[-1].start()

    def _learn(self) -> None:
        """Let every trainer learn that has enough steps, and show how far it is."""
        for thread in self._threads:
            thread.raise_error()
        for learner in self.learners.values():
            if learner.in_thread or learner.advance():
                self._run.display.progress(learner.name, learner.trainer.step)

    def _act(self, steps: Sequence[EnvironmentStep]) -> dict[int, dict[BehaviorId, Decision]]:
        """Decide for all agents that request it; return what to send to each environment that answered."""
        decisions: dict[int, dict[BehaviorId, Decision]] = {}
        requests: dict[Learner, tuple[list[DecisionSteps], list[BatchSource]]] = {}
        now, asked_at = self._awaited.count(steps), self._awaited.asked_at
        for step in steps:
            if not step.left:
                decisions[step.env] = {}
            for behavior_id, learner in self._learner_of.items():
                if learner.inference.remembers_agents:
                    learner.inference.end_episodes(step, behavior_id)
            for behavior_id, (decision_steps, _) in step.steps.items():
                if len(decision_steps):
                    asked_at[behavior_id] = now
                    batches, sources = requests.setdefault(self._learner_of[behavior_id], ([], []))
                    batches.append(decision_steps)
                    sources.append((step.env, behavior_id))
        if requests:
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
        """The learners that are saved, in one order."""
        return list(self.learners.values())

    def steps(self) -> dict[str, int]:
        """Trainer steps so far, by behavior."""
        return {name: learner.trainer.step for name, learner in self.learners.items()}

    def _reset_if_due(self, answers: int) -> list[EnvironmentStep]:
        """Reset or restart the environments if something asks for it; return their first steps then.

        Args:
            answers: how many environments have answered; lessons are measured once for each.
        """
        for learner in self.learners.values():
            if learner.restart_due:
                return self._restart_engines()
        new_lesson, rotation = self._advance_lessons(answers), self._run.rotation
        if (rotation.changed and rotation.take_change()) or new_lesson:
            with self._timers.span("TrainerController._reset_env"):
                return self.envs.reset()
        return []

    def _restart_engines(self) -> list[EnvironmentStep]:
        self.envs.close()
        for learner in self.learners.values():
            learner.on_engine_restart()
        self.envs = self._make_envs()
        return self._start_engines()

    def _start_engines(self) -> list[EnvironmentStep]:
        with self._timers.span("TrainerController._reset_env"):
            self.envs.should_stop = self._is_ending
            self.envs.start()
            return self.envs.reset(self.curriculum.samplers())

    def _advance_lessons(self, answers: int) -> bool:
        """Measure, once per answer, whether lessons are completed; return whether to reset for new ones."""
        if not self.curriculum.has_next:
            return False
        reset = changed = False
        for _ in range(answers):
            change = self.curriculum.advance(
                lambda name: self.learners[name].progress() if name in self.learners else None
            )
            if change is None:
                continue
            self._begin_lessons(change)
            changed, reset = True, reset or change.reset
        if changed:
            self.envs.set_parameters(self.curriculum.samplers())
        return reset

    def _begin_lessons(self, change: LessonChange) -> None:
        for parameter in change.parameters:
            self.show_lesson(parameter)
        for learner in self.learners.values():
            learner.on_new_lesson()

    def show_lesson(self, parameter: str) -> None:
        """Log the lesson that a parameter is in, and let the display show it."""
        logger.info("%s", self.curriculum.line(parameter))
        lessons, number = self.curriculum.lessons[parameter], self.curriculum.numbers[parameter]
        if len(lessons) > 1:
            self._run.display.lesson(parameter, lessons[number].name, number + 1, len(lessons))

    @property
    def stopped(self) -> bool:
        """Whether the user has asked for the end."""
        return self._run.stop.asked

    def _is_ending(self) -> bool:
        """Whether the run is to end, so that what is awaited of the environments is not wanted any more."""
        return self._run.stop.asked or self._errors.printed.should_stop

    def stop(self) -> None:
        """Finish the current tick, then end the run in good order."""
        self._run.stop.asked = True
        self._run.display.status("saving; Ctrl-C again stops at once")

    def _save(self, *, evaluate: bool = False, log_failures: bool = False) -> None:
        """Write the last checkpoints and models of a training run, as many as can be written.

        Args:
            evaluate: evaluate the policies before, if that has not been done at this step.
            log_failures: only log failures, because a worse error is about to be raised.

        Raises:
            Exception: a file could not be written, or a learner's thread had failed.
        """
        stop_all(self._threads)
        # The loop may have ended before it noticed a thread's error. One that it noticed is the worse error.
        threads = [] if log_failures else self._threads
        failures: list[Exception | BaseException] = [t.error for t in threads if t.error is not None]
        learners = self._known_learners
        if self._run.training:
            for learner in learners:
                learner.process_remaining()
            if evaluate and not failures:
                self._evaluate_at_end()
        with self._timers.span("TrainerController._save_models"):
            for learner in learners:
                try:
                    end = learner.finish if self._run.training else learner.conclude
                    call_without_exit(end, "Its last model is not saved.")
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
                evaluator.run(self.learners, self.curriculum.samplers(), self._is_ending)
