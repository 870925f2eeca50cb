"""Evaluates the policies of a run: when that is due, training pauses and all behaviors act together."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from ....envs.base import EngineStatistics, EnvironmentStep, StatsAggregationMethod
from ....envs.manager.async_env import Parameters
from ....envs.manager.restarts import StopAsked
from ...callbacks.dispatcher import CallbackDispatcher
from ...callbacks.events import EvaluationEnd, EvaluationStep
from ...episodes.scores import EpisodeScore, Scores
from ...stats.summary import StatsSummary
from ...utils.films import Frame
from .environment import EVALUATION_SEED, EvaluationEnvironment, warnings_only
from .rollout import EvaluationPolicy, EvaluationRollout, Watch

if TYPE_CHECKING:
    from ...trainer.learner import Learner


logger = logging.getLogger(__name__)

HISTOGRAM, AVERAGE = StatsAggregationMethod.HISTOGRAM, StatsAggregationMethod.AVERAGE
MOST_RECENT = StatsAggregationMethod.MOST_RECENT


class Evaluator:
    """Evaluates the newest policies in an environment of their own, launched for every evaluation.

    An environment that is launched with the same seed each time puts every policy into the same situations,
    so evaluations are comparable; and between evaluations it costs nothing. A failed evaluation is logged,
    and training continues.
    """

    def __init__(
        self,
        environment: EvaluationEnvironment,
        callbacks: CallbackDispatcher,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._environment = environment
        self._callbacks = callbacks
        self._clock = clock
        self._policies: dict[str, EvaluationPolicy] = {}
        self._aborted = False
        """The last evaluation was; the run then ends without another one."""

    def is_due(self, learners: Mapping[str, Learner]) -> bool:
        """Whether some behavior is to be evaluated now."""
        return any(one.evaluation_schedule.is_due(one.trainer.step) for one in learners.values())

    def is_due_at_end(self, learners: Mapping[str, Learner]) -> bool:
        """Whether some behavior's final policy has not been evaluated, and that was not aborted."""
        return not self._aborted and any(
            one.evaluation_schedule.is_due_at_end(one.trainer.step) for one in learners.values()
        )

    def run(
        self, learners: Mapping[str, Learner], parameters: Parameters, should_stop: Callable[[], bool]
    ) -> None:
        """Evaluate the current weights of all behaviors with a `test_frequency`; nothing learns meanwhile.

        Args:
            learners: of all behaviors, by name; those that are never evaluated act too.
            parameters: the environment parameters.
            should_stop: whether the run is to end; the evaluation is then aborted, and stays due.
        """
        evaluated = {
            name: learner for name, learner in learners.items() if learner.evaluation_schedule.enabled
        }
        for learner in learners.values():
            learner.trainer.finish_update()
        best: dict[tuple[str, bool], tuple[float, EpisodeScore]] = {}  # of agents, and of groups
        steps = {name: learner.trainer.step for name, learner in evaluated.items()}

        def watch(number: int, step: EnvironmentStep, ended: Sequence[EpisodeScore]) -> bool:
            for episode in ended:
                for by_groups, earned in (False, episode.reward), (True, episode.group_reward):
                    key = episode.behavior, by_groups
                    if earned is not None and (key not in best or earned > best[key][0]):
                        best[key] = earned, episode
            if self._callbacks.has_hook(EvaluationStep):
                event = EvaluationStep(number, step, steps, ended, self._environment.render)
                self._callbacks.dispatch(event)
            return True

        start = self._clock()
        try:
            with isolated_random_state(EVALUATION_SEED):
                self._copy_weights(learners)
            rollout = self._roll_out(evaluated, parameters, should_stop, watch)
        except StopAsked:
            rollout = None
        except Exception as error:  # of an engine, or of a user's environment: no reason to end training
            for name, learner in evaluated.items():
                learner.evaluation_schedule.advance(learner.trainer.step)
                logger.warning(
                    "%s: the test at step %d failed, and is left out; training goes on. %s: %s",
                    name,
                    learner.trainer.step,
                    type(error).__name__,
                    error,
                    exc_info=logger.isEnabledFor(logging.DEBUG),
                )
            return
        self._aborted = rollout is None
        if rollout is None:
            logger.info("The test was aborted; a resumed run starts with it.")
            return
        seconds = self._clock() - start
        for name, learner in evaluated.items():
            learner.evaluation_schedule.advance(learner.trainer.step)
            scores = rollout.counter.scores[name]
            _, shown = best.get((name, scores.by_groups), (0.0, None))
            film = partial(self._film, evaluated, parameters, should_stop, shown)
            report(learner, scores, rollout.statistics, seconds, film)

    def _copy_weights(self, learners: Mapping[str, Learner]) -> None:
        """Take over the newest weights of all behaviors."""
        for name, learner in learners.items():
            if name not in self._policies:
                self._policies[name] = EvaluationPolicy(
                    learner.spec,
                    learner.algorithm.network,
                    learner.settings.time_horizon,
                    learner.algorithm.traits.roster_size,
                )
            self._policies[name].reset(learner.algorithm.network.state_dict())

    def _roll_out(
        self,
        evaluated: Mapping[str, Learner],
        parameters: Parameters,
        should_stop: Callable[[], bool],
        watch: Watch,
    ) -> EvaluationRollout | None:
        """The finished rollout of the copied weights; None if it was aborted."""
        for policy in self._policies.values():
            policy.reset({})
        rendered, environment = self._callbacks.wants_frames, self._environment
        with (
            isolated_random_state(EVALUATION_SEED),
            warnings_only(),
            environment.launched(rendered=rendered, should_stop=should_stop) as envs,
        ):
            scores = [
                Scores(
                    name,
                    one.settings.test_episodes,
                    one.settings.test_max_decisions,
                    environment.env,
                    groups_earn=one.trainer.episodes.history.by_groups,
                )
                for name, one in evaluated.items()
            ]
            rollout = EvaluationRollout(envs, self._policies, scores, watch)
            return rollout if rollout.run(parameters, should_stop) else None

    def _film(
        self,
        evaluated: Mapping[str, Learner],
        parameters: Parameters,
        should_stop: Callable[[], bool],
        best: EpisodeScore | None,
        most: int,
    ) -> list[Frame] | None:
        """The first frames of an episode of the evaluation, which is replayed; see `EvaluationEnd.film`."""
        if best is None or not self._environment.draws:
            return []
        frames, replayed = list[Frame](), list[EpisodeScore]()

        def shoot(number: int, step: EnvironmentStep, ended: Sequence[EpisodeScore]) -> bool:
            replayed.extend(ended)
            if best.first <= number < best.first + most:
                image = self._environment.render()
                if image is None:
                    frames.clear()
                    return False
                frames.append(Frame(image))
            return number < best.last

        try:
            done = self._roll_out(evaluated, parameters, should_stop, shoot)
        except StopAsked:
            return None
        except Exception as error:  # as in `run`
            logger.warning("%s: the test was not filmed. %s: %s", best.behavior, type(error).__name__, error)
            return None
        if frames and done and best not in replayed:
            logger.warning(
                "%s: the environment did not repeat the test, though it got the same seed: the video shows "
                "another episode than the best one.",
                best.behavior,
            )
        return frames if done else None


@contextmanager
def isolated_random_state(seed: int) -> Iterator[None]:
    """Seed the process's global random generators (Python's, NumPy's, torch's) within the block.

    After it they continue as if nothing had been drawn. Environments in this process may draw from them.
    """
    states = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.random.set_rng_state(states[2])


Film = Callable[[int], "list[Frame] | None"]
"""Renders the best episode of an evaluation; see `EvaluationEnd.film`."""


def report(
    learner: Learner, scores: Scores, statistics: EngineStatistics, seconds: float, film: Film
) -> None:
    """Report an evaluation of `learner`'s policy that took `seconds`; save one of the best policies."""
    if not scores.rewards:
        logger.warning(
            "%s: the test at step %d has counted no episode: none of its agents was in the environment.",
            scores.behavior,
            learner.trainer.step,
        )
        return
    step = learner.trainer.step
    if scores.by_groups:  # this and the next score then compare, and with what training tells
        learner.trainer.episodes.history.count_groups()
    learner.reporter.write_between(metrics(scores, statistics, seconds), step)
    logger.info("%s", line(scores, step, seconds))
    _notify_callbacks(learner, scores, seconds, learner.save_if_best(scores.mean()), film)


def metrics(scores: Scores, statistics: EngineStatistics, seconds: float) -> dict[str, StatsSummary]:
    """The statistics of an evaluation, by name; `statistics`: the engine's own."""
    values: dict[str, tuple[Sequence[float], StatsAggregationMethod]] = {
        "Evaluation/Cumulative Reward": (scores.rewards, HISTOGRAM),
        "Evaluation/Cumulative Reward Std": ([_std(scores.rewards)], AVERAGE),
        "Evaluation/Episode Length": (scores.lengths, AVERAGE),
        "Evaluation/Seconds": ([seconds], AVERAGE),
    }
    if scores.by_groups:
        values["Evaluation/Group Cumulative Reward"] = (scores.group_rewards, HISTOGRAM)
        values["Evaluation/Group Cumulative Reward Std"] = ([_std(scores.group_rewards)], AVERAGE)
    seats = scores.returns_by_seat()
    if len(seats) > 1:
        of = "Group Cumulative Reward" if scores.by_groups else "Cumulative Reward"
        values.update({f"Evaluation/{name}/{of}": (returns, AVERAGE) for name, returns in seats.items()})
    for key, entries in statistics.items():
        method = entries[-1][1]
        samples = [value for value, _ in entries]
        tag = f"Evaluation/{key}"
        values[f"Evaluation/Game/{key}" if tag in values else tag] = (
            samples[-1:] if method is MOST_RECENT else samples,
            method,
        )
    return {key: StatsSummary(list(samples), method) for key, (samples, method) in values.items()}


def line(scores: Scores, step: int, seconds: float) -> str:
    """The evaluation as a console line, in the words of summaries."""
    of = "Group Reward" if scores.by_groups else "Reward"
    cut = f" ({scores.num_cut} of them cut at {scores.most_decisions} decisions)" if scores.num_cut else ""
    means = [f"{name} {np.mean(returns):0.3f}" for name, returns in scores.returns_by_seat().items()]
    seats = f" Seats: {', '.join(means)}." if len(means) > 1 else ""
    return (
        f"{scores.behavior}. Test at Step: {step}. Mean {of}: {scores.mean():0.3f}. Std of {of}: "
        f"{scores.std():0.3f}. Episodes: {scores.num_episodes}{cut}. Took: {seconds:0.1f} s.{seats}"
    )


def _std(values: Sequence[float]) -> float:
    return StatsSummary(values).std


def _notify_callbacks(
    learner: Learner, scores: Scores, seconds: float, saved: Path | None, film: Film
) -> None:
    callbacks = learner.run.callbacks
    if not callbacks.has_hook(EvaluationEnd):
        return
    step = learner.trainer.step

    def show(tag: str, gif: bytes, size: tuple[int, int]) -> None:
        learner.reporter.add_video(tag, gif, size, step)

    callbacks.dispatch(
        EvaluationEnd(
            behavior=scores.behavior,
            step=step,
            score=scores.mean() if learner.self_play is None else learner.self_play.elo,
            by_groups=scores.by_groups and learner.self_play is None,
            std=scores.std(),
            rewards=scores.rewards,
            group_rewards=scores.group_rewards,
            lengths=scores.lengths,
            seats=scores.returns_by_seat(),
            seconds=seconds,
            folder=learner.checkpointer.folder,
            save=lambda: saved or learner.checkpointer.save_now(),
            show_video=show,
            film=film,
        )
    )
