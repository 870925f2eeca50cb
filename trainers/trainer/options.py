"""What a trainer is made with: whom it tells of what is due, and its optional arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypedDict

import torch

from ...envs.validation import NonFinitePolicy
from ..algorithms.fast.threads import UpdateThreads
from ..stats.timers import Timers


class TrainerEvents(Protocol):
    """What a trainer calls when something is due; the run writes the files."""

    def on_summary(self, step: int) -> bool:
        """The statistics belong to this multiple of `summary_freq`. True: `on_best_policy` is due too."""
        ...

    def on_best_policy(self) -> bool:
        """Save the best policy so far, beside the checkpoints that are due. Returns as `on_checkpoint`."""
        ...

    def on_checkpoint(self) -> bool:
        """Save now. True: drop what has not been counted yet, because the engines restart."""
        ...

    def on_reward_reached(self, reached: float) -> None:
        """The mean reward, in self-play the rating, has reached `stop_at_reward`: training is over."""
        ...

    def on_steps_processed(self) -> None:
        """Trajectories were processed: the normalizer's statistics have changed."""
        ...

    def on_update(self, metrics: Mapping[str, float]) -> None:
        """The policy has new weights; the update's metrics, by statistics' names."""
        ...


class TrainerOptions(TypedDict, total=False):
    """The optional arguments of every trainer."""

    training: bool
    """Learn; else only act. Default: True."""
    non_finite: NonFinitePolicy
    """Default: STOP."""
    returns_kept: int
    """How many returns of the last episodes are kept. Default: 1."""
    seed: int
    """Of what is sampled for updates. Default: 0."""
    device: torch.device
    """Where it learns. Default: the CPU."""
    update_threads: UpdateThreads | None
    """CPU threads of an update. Default: those of torch, as far as products are large enough for them."""
    in_thread: bool
    """It updates in a thread of its own. Default: False."""
    spread_updates: bool
    """Off-policy updates that are due at once are made gradually, in calls of `continue_updates` too.
    Default: False."""
    timers: Timers | None
    """Default: timers of its own."""
