"""Returns and advantages of many trajectories at once.

Trajectories are concatenated in flat arrays (`lengths`); each sum runs backwards in time and stops at its
trajectory's end. With v[T] the bootstrap value after the last step:

    GAE:         delta[t] = r[t] + gamma * v[t+1] - v[t]    (Schulman et al. 2016, arXiv 1506.02438)
                 A[t] = delta[t] + gamma * lambda * A[t+1], A[T] = 0
    TD(lambda):  G[t] = r[t] + gamma * (lambda * G[t+1] + (1 - lambda) * v[t+1]),  G[T] = v[T]
                 (Sutton and Barto 2018, chapter 12)
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def discounted_sums(x: Floats, decay: float, lengths: Ints) -> Floats:
    """y[t] = x[t] + decay * y[t+1] within each trajectory, in float64 inside.

    Doubling: after k passes y[t] holds the terms up to t + 2^k - 1, so a trajectory of T steps takes
    log2(T) array operations instead of T.

    Args:
        x: [N], trajectories one after another.
        decay: the factor from one step to the one before.
        lengths: [J], their sum is N.
    """
    if len(x) == 0:
        return x.astype(np.float32)
    y = x.astype(np.float64)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(x))  # steps to the trajectory's end
    span, factor = 1, float(decay)
    longest = int(lengths.max())
    while span < longest and factor != 0.0:
        inside = left[:-span] > span
        y[:-span] += np.where(inside, factor * y[span:], 0.0)
        span, factor = 2 * span, factor * factor
    return y.astype(np.float32)


def shift_back(values: Floats, bootstrap: Floats, lengths: Ints) -> Floats:
    """v[t+1] for every step; `bootstrap` [J] follows each trajectory's last step."""
    following = np.empty_like(values)
    following[:-1] = values[1:]
    following[np.cumsum(lengths) - 1] = bootstrap
    return following


def generalized_advantages(
    rewards: Floats, values: Floats, bootstrap: Floats, gamma: float, lambd: float, lengths: Ints
) -> Floats:
    """[N] generalized advantage estimates (rewards, values [N]; bootstrap [J])."""
    delta = rewards + np.float32(gamma) * shift_back(values, bootstrap, lengths) - values
    return discounted_sums(delta, gamma * lambd, lengths)


def lambda_returns(
    rewards: Floats, values: Floats, bootstrap: Floats, gamma: float, lambd: float, lengths: Ints
) -> Floats:
    """[N] TD(lambda) targets (rewards, values [N]; bootstrap [J])."""
    following = shift_back(values, bootstrap, lengths)
    x = rewards + np.float32((1.0 - lambd) * gamma) * following
    last = np.cumsum(lengths) - 1
    x[last] = rewards[last] + np.float32(gamma) * bootstrap
    return discounted_sums(x, gamma * lambd, lengths)
