"""The loop of a run: answer the engines, collect what they say, let the trainers learn."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from mlagents_envs.base_env import BehaviorSpec, DecisionSteps

from ...agent_processor.rosters import RosterFullError
from ...envs.base import BehaviorName, Decision, EnvironmentStep
from ...envs.manager.manager import EnvManager
from ...envs.manager.restarts import EngineStopped
from ...envs.manager.specs import SharedGroups
from ..callbacks.dispatcher import CallbackDispatcher
from ..callbacks.events import StepTaken
from ..curriculum.curriculum import Curriculum, TrainingProgress
from ..stats.display import Display
from ..stats.timers import Timers
from ..trainer.learner import Learner
from ..trainer.self_play.team_rotation import TeamRotation
from ..trainer.thread import LearnerThread, resting
from ..utils.errors import TrainerError
from .evaluation.evaluator import Evaluator

logger = logging.getLogger(__name__)

WAIT = 0.25
"""Seconds between looks at whether the user asked to stop, while no engine answers."""

BRIEFLY = 1.0
"""Seconds for an update in hand where the user wants the end at once."""

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
        patience: float = 60.0,
        on_first_learner: Callable[[], None] = lambda: None,
        timers: Timers | None = None,
        callbacks: CallbackDispatcher | None = None,
        evaluation: Evaluator | None = None,
        rotation: TeamRotation | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            make_envs: the environments, not yet started; called again for every restart of all engines.
            make_learner: the learner of a behaviour that an environment has shown.
            display: what the user sees.
            curriculum: the lessons by which the environments' parameters change.
            training: learn and save; else only act.
            patience: seconds within which some agent has to ask for its first decision.
            on_first_learner: called once there is something to save.
            timers: where the time of each part of the loop is counted.
            callbacks: whom the run tells what happens, and who may end it.
            evaluation: tests the policies; None where that is never wanted.
            rotation: which team learns; when another one does, the environments are reset.
        """
        self._make_envs = make_envs
        self._make_learner = make_learner
        self.display = display
        self.curriculum = curriculum or Curriculum()
        self.training = training
        self.envs = make_envs()
        self.learners: dict[str, Learner] = {}
        self._of_behavior: dict[str, Learner] = {}
        self._threads: list[LearnerThread] = []
        self._stopping = False
        self._patience = patience
        self._on_first_learner = on_first_learner
        self._somebody_asked = False
        self._shared_groups = SharedGroups()
        self._timers = timers or Timers()
        self._callbacks = callbacks or CallbackDispatcher()
        self._tells_steps = self._callbacks.hears(StepTaken)
        self._evaluation = evaluation
        self._rotation = rotation or TeamRotation()

    def stop(self) -> None:
        """Finish the tick in hand and end the run in good order."""
        self._stopping = True
        self.display.status("Saving and exporting. Press Ctrl-C again to stop at once.")

    def run(self) -> None:
        """The whole run, with its last checkpoints and brains also when it ends with an error.

        Raises:
            KeyboardInterrupt: to stop at once; nothing is saved then.
        """
        try:
            try:
                self._loop()
            except EngineStopped as end:
                logger.info("%s Finishing the run.", end)
                logger.info(INTERRUPTED)
            except Exception:
                self._save(keep_quiet=True)
                raise
            self._save()
            self._callbacks.raise_failure()
        except KeyboardInterrupt:
            self._stop_threads(BRIEFLY)
            self.envs.close(at_once=True)
            raise
        finally:
            self.envs.close()

    def _save(self, *, keep_quiet: bool = False) -> None:
        """Write the last checkpoints and brains of a training run, all that can be written.

        Raises:
            Exception: one could not be, or a learner's thread had failed; with `keep_quiet` that is only
                logged, behind a worse error.
        """
        self._stop_threads()
        # The loop may have ended before it saw them; one that it saw is the worse error.
        unseen = [] if keep_quiet else [thread.error for thread in self._threads if thread.error is not None]
        with self._timers.span("TrainerController._save_models"):
            failures = [*unseen, *self._finish_learners()]
        if failures and not keep_quiet:
            raise failures[0]
        for failure in failures:
            logger.error("%s", failure)

    def _finish_learners(self) -> list[Exception]:
        """What went wrong with those whose last files could not be written."""
        failures: list[Exception] = []
        for learner in self.learners.values():
            try:
                if self.training:
                    learner.finish()
                else:
                    learner.conclude()
            except Exception as error:  # whatever it is: the others are still to be saved
                failures.append(error)
        return failures

    def _stop_threads(self, patience: float | None = None) -> None:
        """Let the learners' threads end, all at once; wait for each, at most for `patience` seconds."""
        for thread in self._threads:
            thread.ask_to_stop()
        for thread in self._threads:
            thread.stop(patience)

    def _loop(self) -> None:
        with self._timers.span("TrainerController._reset_env"):
            self.envs.start()
            steps = self.envs.reset(self.curriculum.samplers())
        silent_until = time.monotonic() + self._patience
        while self._goes_on():
            with self._timers.span("TrainerController.advance"):
                steps = self._advance(steps)
            if not self.envs.num_envs:  # engines that came by themselves have left
                silent_until = time.monotonic() + self._patience
            if not self._somebody_asked and time.monotonic() > silent_until:
                raise TrainerError(self._nobody_asked())
        self._callbacks.raise_failure()
        if self._stopping:
            logger.info(INTERRUPTED)

    def _advance(self, steps: Sequence[EnvironmentStep]) -> list[EnvironmentStep]:
        """One turn: answer, learn, and take the next steps of whoever has them."""
        with self._timers.span("env_step"):
            self._take(steps)
        with self._timers.span("trainer_advance"):
            self._learn()
        self._test()
        if any(learner.restart_due for learner in self.learners.values()):
            with self._timers.span("TrainerController._reset_env"):
                return self._restart_engines()
        if self._begin_lessons(len(steps)) | self._rotation.take_change():
            with self._timers.span("TrainerController._reset_env"):
                return self.envs.reset()
        with self._timers.span("EnvManager.wait"):
            return self.envs.wait(WAIT)

    def _test(self) -> None:
        """Test the policies if that is due; learners in threads rest meanwhile."""
        if self._evaluation is None or self._is_to_end() or not self._evaluation.due(self.learners):
            return
        with self._timers.span("Evaluation"), resting(self._threads):
            parameters = self.curriculum.samplers()
            self._evaluation.run(self.learners, parameters, self._is_to_end)

    def _is_to_end(self) -> bool:
        """Whether the user, or a callback, wants the run to end."""
        return self._stopping or self._callbacks.wants_the_end

    def _begin_lessons(self, looks: int) -> bool:
        """Look as often as environments have answered whether lessons are over; whether to reset for it."""
        reset = changed = False
        for _ in range(looks):
            advance = self.curriculum.advance(self._progress)
            if advance is None:
                continue
            for parameter in advance.parameters:
                logger.info("%s", self.curriculum.line(parameter))
                self.show_lesson(parameter)
            for learner in self.learners.values():
                learner.begin_lesson()
            changed, reset = True, reset or advance.reset
        if changed:
            self.envs.set_parameters(self.curriculum.samplers())
        return reset

    def show_lesson(self, parameter: str) -> None:
        """Let the display show the lesson that a parameter is in."""
        lessons, number = self.curriculum.lessons[parameter], self.curriculum.numbers[parameter]
        if len(lessons) > 1:
            self.display.lesson(parameter, lessons[number].name, number + 1, len(lessons))

    def _progress(self, behavior: str) -> TrainingProgress | None:
        learner = self.learners.get(behavior)
        return None if learner is None else learner.progress()

    def _nobody_asked(self) -> str:
        seen = ", ".join(self.envs.behavior_specs) or "none"
        return (
            f"No agent has asked for a decision within {self._patience:g} s (env_settings.timeout_wait, "
            f"--timeout-wait), although the environment goes on; behaviors that it has shown: {seen}. The "
            "scene needs an active agent whose Behavior Type is Default, and each agent a Decision Requester "
            "component or code that calls RequestDecision."
        )

    def _goes_on(self) -> bool:
        if self._is_to_end():
            return False
        return not self.learners or any(learner.goes_on for learner in self.learners.values())

    def _take(self, steps: Sequence[EnvironmentStep]) -> None:
        """Answer first: engines go on meanwhile. But agents that act by their place need one before."""
        if any(self._learner(behavior_id).acts_by_place for step in steps for behavior_id in step.steps):
            self._collect(steps)
            self._answer(steps)
        else:
            self._answer(steps)
            self._collect(steps)
        if self._tells_steps:
            counted = {name: learner.trainer.step for name, learner in self.learners.items()}
            for step in steps:
                self._callbacks.tell(StepTaken(step, counted))

    def _answer(self, steps: Sequence[EnvironmentStep]) -> None:
        """Decide for all agents that wait, one forward pass per behaviour; every engine gets its answer."""
        with self._timers.span("SubprocessEnvManager._take_step"):
            self._decide_and_send(steps)

    def _decide_and_send(self, steps: Sequence[EnvironmentStep]) -> None:
        waiting: dict[Learner, list[tuple[int, str, DecisionSteps]]] = {}
        for step in steps:
            for behavior_id, learner in self._of_behavior.items():
                learner.end_episodes(step, behavior_id)
            for behavior_id, (decisions, _) in step.steps.items():
                if len(decisions):
                    entry = (step.env, behavior_id, decisions)
                    waiting.setdefault(self._learner(behavior_id), []).append(entry)
        self._somebody_asked = self._somebody_asked or bool(waiting)
        answers: dict[int, dict[str, Decision]] = {step.env: {} for step in steps if not step.left}
        for learner, entries in waiting.items():
            asking = [(env, behavior_id) for env, behavior_id, _ in entries]
            with self._timers.span("TorchPolicy.evaluate"):
                decided = learner.decide([decisions for _, _, decisions in entries], asking)
            for (env, behavior_id, _), decision in zip(entries, decided, strict=True):
                answers[env][behavior_id] = decision
        for env, decisions_by_id in answers.items():
            self.envs.send(env, decisions_by_id)

    def _collect(self, steps: Sequence[EnvironmentStep]) -> None:
        """While the engines compute, hand what they said to the agent processors."""
        for step in steps:
            self._shared_groups.look(step)
            if step.fresh:
                self._forget(step.env)
            for behavior_id, (decisions, terminals) in step.steps.items():
                manager = self._learner(behavior_id).manager(behavior_id)
                if behavior_id in step.void_agents:
                    void = step.void_agents[behavior_id]
                    self._learner(behavior_id).forget_agents(behavior_id, step.env, void)
                # A decision counts also where only others' agents are in the message that answers it, as
                # when behaviours take turns.
                if len(decisions) or len(terminals) or behavior_id in step.decisions:
                    try:
                        manager.add_experiences(
                            decisions,
                            terminals,
                            step.env,
                            step.decisions.get(behavior_id),
                            step.lost_lives.get(behavior_id),
                        )
                    except RosterFullError as error:
                        raise TrainerError(str(error)) from error
            if step.statistics:
                for learner in self.learners.values():
                    # Once per behaviour, whatever the number of its teams: sums would count double.
                    first = next(iter(learner.managers.values()))
                    first.record_environment_stats(step.statistics, step.env)

    def _forget(self, env: int | None) -> None:
        for learner in self.learners.values():
            learner.forget(env)

    def _learn(self) -> None:
        for thread in self._threads:
            if thread.error is not None:
                raise thread.error
        for learner in self.learners.values():
            if not learner.settings.threaded:
                learner.advance()
            self.display.progress(learner.name, learner.trainer.step)

    def _restart_engines(self) -> list[EnvironmentStep]:
        self.envs.close()
        for learner in self.learners.values():
            learner.restart_due = False
            learner.collected.drain()
        self._forget(None)
        self.envs = self._make_envs()
        self.envs.start()
        return self.envs.reset(self.curriculum.samplers())

    def _learner(self, behavior_id: str) -> Learner:
        """The learner of a behaviour id, made when the behaviour is first seen."""
        if behavior_id not in self._of_behavior:
            name = BehaviorName.parse(behavior_id).name
            if name not in self.learners:
                self.learners[name] = self._make_learner(name, self.envs.behavior_specs[behavior_id])
                self.learners[name].manager(behavior_id)
                self._on_first_learner()
                if self.learners[name].settings.threaded:
                    self._threads.append(LearnerThread(self.learners[name]))
                    self._threads[-1].start()
            self._of_behavior[behavior_id] = self.learners[name]
            self.learners[name].manager(behavior_id)
        return self._of_behavior[behavior_id]
