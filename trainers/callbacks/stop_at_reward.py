"""Stops the run once agents earn enough."""

from __future__ import annotations

from collections import deque
from typing import Any

from .base import Callback
from .events import EpisodeEnd, EvaluationEnd, TrainingBegin


class StopAtReward(Callback):
    """Stops the whole run once a behavior's mean reward is high enough.

    The setting stop_at_reward ends the training of one behavior and counts rewards of groups; this stops the
    run, and can use evaluations. It does not apply to inference.
    """

    def __init__(
        self, reward: float, behavior: str | None = None, episodes: int = 100, evaluation: bool = False
    ) -> None:
        """Set the condition.

        Args:
            reward: the mean reward to reach.
            behavior: whose; None: of any behavior.
            episodes: the number of last episodes that the mean is taken over.
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
        self._recent: dict[str, deque[float]] = {}
        self._learns = True

    def on_training_begin(self, event: TrainingBegin) -> None:
        """Check whether the run is an inference."""
        self._learns = not event.options.checkpoint_settings.inference

    def on_episode_end(self, event: EpisodeEnd) -> str | None:
        """Check the mean of the last episodes."""
        if self.evaluation or not self._learns or not self._watches(event.behavior):
            return None
        recent = self._recent.setdefault(event.behavior, deque(maxlen=self.episodes))
        recent.append(event.reward)
        if len(recent) < self.episodes or (mean := sum(recent) / len(recent)) < self.reward:
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
        """The last rewards."""
        return {"recent": {name: list(rewards) for name, rewards in self._recent.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        self._recent = {name: deque(old, self.episodes) for name, old in state["recent"].items()}
