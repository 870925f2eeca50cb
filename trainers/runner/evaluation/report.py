"""Reports an evaluation: metrics, a console line, an event, and perhaps the best checkpoint so far."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....envs.base import StatsAggregationMethod
from ...callbacks.events import EvaluationEnd
from ...stats.summary import StatsSummary
from .scores import Scores

if TYPE_CHECKING:
    from ...trainer.learner import Learner

logger = logging.getLogger(__name__)

HISTOGRAM, AVERAGE = StatsAggregationMethod.HISTOGRAM, StatsAggregationMethod.AVERAGE


def report(learner: Learner, scores: Scores, seconds: float) -> None:
    """Report an evaluation of `learner`'s policy that took `seconds`; save one of the best policies."""
    if not scores.rewards:
        logger.warning(
            "%s: the test at step %d has counted no episode: none of its agents was in the environment.",
            *(scores.behavior, learner.trainer.step),
        )
        return
    step = learner.trainer.step
    learner.reporter.write_between(metrics(scores, seconds), step)
    logger.info("%s", line(scores, step, seconds))
    saved = learner.save_if_best(scores.mean())
    _notify_callbacks(learner, scores, seconds, saved)


def metrics(scores: Scores, seconds: float) -> dict[str, StatsSummary]:
    """The statistics of an evaluation, by name."""
    values: dict[str, tuple[Sequence[float], StatsAggregationMethod]] = {
        "Evaluation/Cumulative Reward": (scores.rewards, HISTOGRAM),
        "Evaluation/Cumulative Reward Std": ([_std(scores.rewards)], AVERAGE),
        "Evaluation/Episode Length": (scores.lengths, AVERAGE),
        "Evaluation/Seconds": ([seconds], AVERAGE),
    }
    if any(scores.group_rewards):
        values["Evaluation/Group Cumulative Reward"] = (scores.group_rewards, HISTOGRAM)
        values["Evaluation/Group Cumulative Reward Std"] = ([_std(scores.group_rewards)], AVERAGE)
    return {key: StatsSummary(list(samples), method) for key, (samples, method) in values.items()}


def line(scores: Scores, step: int, seconds: float) -> str:
    """The evaluation as a console line, in the words of summaries."""
    of = "Group Reward" if scores.returns is not scores.rewards else "Reward"
    cut = f" ({scores.cut} of them cut at {scores.most_decisions} decisions)" if scores.cut else ""
    return (
        f"{scores.behavior}. Test at Step: {step}. Mean {of}: {scores.mean():0.3f}. Std of {of}: "
        f"{scores.std():0.3f}. Episodes: {len(scores.returns)}{cut}. Took: {seconds:0.1f} s."
    )


def _std(values: Sequence[float]) -> float:
    return StatsSummary(values).std


def _notify_callbacks(learner: Learner, scores: Scores, seconds: float, saved: Path | None) -> None:
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
            score=scores.mean(),
            std=scores.std(),
            rewards=scores.rewards,
            group_rewards=scores.group_rewards,
            lengths=scores.lengths,
            seconds=seconds,
            folder=learner.checkpointer.folder,
            save=lambda: saved or learner.checkpointer.save_now(),
            show_video=show,
        )
    )
