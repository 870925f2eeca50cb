"""What the steps of a replay are worth, as far as rewards tell (Sutton & Barto 2018, section 7.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .observations import Ints


class Returns(NamedTuple):
    """The n-step returns of B steps; S reward signals."""

    rewards: NDArray[np.float32]
    """[B, S] the discounted sum of the rewards of the steps until `following`."""
    discounts: NDArray[np.float32]
    """[B, S] what the value at `following` counts: gamma to the power of the number of steps, or 0."""
    following: Ints
    """[B] the slot of the observation where a value stands for the rest."""


def n_step_returns(
    places: Ints,
    rewards: NDArray[np.float32],
    following: NDArray[np.int32],
    ended: NDArray[np.bool_],
    gammas: NDArray[np.float32],
    ignores_ends: NDArray[np.bool_],
    n: int,
) -> Returns:
    """Sum each step's reward and those of up to n - 1 steps of the same agent behind it.

    Args:
        places: [B] of the steps.
        rewards: [places, S].
        following: [places] the slot of the next observation. It is the next step's place where the agent
            goes on, the step's own place where its episode was interrupted, else beyond all places.
        ended: [places] behind these steps nothing is earned.
        gammas: [S].
        ignores_ends: [S] signals that go on behind ends.
        n: at least 1.
    """
    at, total = places, rewards[places]
    powers = np.repeat(gammas[None], len(places), axis=0)
    going = np.ones(len(places), np.bool_)
    for _ in range(n - 1):
        ahead = following[at].astype(np.int64)
        going &= ~ended[at] & (ahead < len(rewards)) & (ahead != at)
        if not going.any():
            break
        at = np.where(going, ahead, at)
        total += np.where(going[:, None], powers * rewards[at], np.float32(0.0))
        powers *= np.where(going[:, None], gammas, np.float32(1.0))
    powers[ended[at][:, None] & ~ignores_ends] = 0.0
    return Returns(total, powers, following[at].astype(np.int64))
