"""Pictures of a test, as many as the best episode so far and those that still go on need."""

from __future__ import annotations

from collections import deque

from ..animation import Frame
from .events import EpisodeScore, EvaluationStep


class Footage:
    """The first pictures of the best counted episode of one behaviour."""

    def __init__(self, behavior: str, most: int) -> None:
        """`most`: pictures."""
        self.behavior = behavior
        self.most = most
        self.best: EpisodeScore | None = None
        self.frames: list[Frame] = []
        """Of the best episode."""
        self._recent: deque[tuple[int, Frame]] = deque()
        """By the numbers of their steps."""

    def take(self, event: EvaluationStep, frame: Frame | None) -> None:
        """Take in a step of the test and its picture, if anybody needs it."""
        if frame is not None:
            self._recent.append((event.number, frame))
        for episode in event.ended:
            better = self.best is None or episode.reward > self.best.reward
            if episode.behavior == self.behavior and better:
                self.best = episode
                shown = [frame for number, frame in self._recent if number >= episode.first]
                self.frames = shown[: self.most]
        while self._recent and self._recent[0][0] < event.oldest:
            self._recent.popleft()
