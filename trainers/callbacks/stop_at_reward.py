"""Stops the run once agents earn enough."""

from __future__ import annotations

from typing import Any

from ..stats.earned import RewardHistory
from .base import Callback
from .events import EpisodeEnd, EvaluationEnd, TrainingBegin


class StopAtReward(Callback):
    """Stops the whole run once a behavior's mean reward is high enough.

    A behavior earns what its groups earn where these do, else what its agents do; the mean is over the means
    of its teams. The setting stop_at_reward ends the training of one behavior; this stops the run, and can
    use evaluations. It does not apply to inference.
    """

    def __init__(
        self, reward: float, behavior: str | None = None, episodes: int = 100, evaluation: bool = False
    ) -> None:
        """Set the condition.

        Args:
            reward: the mean reward to reach.
            behavior: whose; None: of any behavior.
            episodes: the number of last episodes, of each team, that the mean is taken over.
            evaluation: use the score of every evaluation instead.

        Raises:
            ValueError: `episodes` is not at least 1.
        """
        if episodes < 1:
            raise ValueError(f"found episodes {episodes}, expected at least 1")
        self.reward = float(reward)
        self.behavior = behavior
        self.episodes = episodes
        self.evaluation = evaluation
        self._earned: dict[str, RewardHistory] = {}
        self._learns = True

    def on_training_begin(self, event: TrainingBegin) -> None:
        """Check whether the run is an inference."""
        self._learns = not event.options.checkpoint_settings.inference

    def on_episode_end(self, event: EpisodeEnd) -> str | None:
        """Check the mean of the last episodes."""
        if self.evaluation or not self._learns or not self._watches(event.behavior):
            return None
        earned = self._earned.setdefault(event.behavior, RewardHistory(self.episodes))
        ended = event.group_reward is not None
        earned.add(event.seat, event.reward, event.group_reward or 0.0, ended=ended)
        mean = earned.recent_mean(self.episodes)
        if mean is None or mean < self.reward:
            return None
        return (
            f"the mean reward of the last {self.episodes} episodes of {event.behavior} is {mean:.3f}, at "
            f"least {self.reward:g}"
        )

    def on_evaluation_end(self, event: EvaluationEnd) -> str | None:
        """Check the score of an evaluation."""
        if not self.evaluation or not self._watches(event.behavior) or event.score < self.reward:
            return None
        return f"the score of {event.behavior} in a test is {event.score:.3f}, at least {self.reward:g}"

    def _watches(self, behavior: str) -> bool:
        return self.behavior is None or behavior == self.behavior

    def state_dict(self) -> dict[str, Any]:
        """What the behaviors earned last."""
        return {"earned": {name: earned.state_dict() for name, earned in self._earned.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it; an older version kept rewards of agents alone, which are not counted."""
        for name, saved in state.get("earned", {}).items():
            self._earned[name] = RewardHistory(self.episodes)
            self._earned[name].load_state_dict(saved)
            self._earned[name].expect_saved()
