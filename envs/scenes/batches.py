"""Building the batches that a world hands to its client."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..wire.engine_codec import AgentBatch, Observed


@dataclass(frozen=True, slots=True)
class Ended:
    """Agents whose episodes ended together, with the last that they saw and earned."""

    agent_id: NDArray[np.int32]
    obs: Sequence[Observed]
    """One array [n, ...] for each sensor."""
    reward: NDArray[np.float32]
    interrupted: NDArray[np.bool_] | None = None
    """True where the episode was cut, not finished; None for nowhere."""


def without_groups(
    agent_id: NDArray[np.int32],
    obs: Sequence[Observed],
    reward: NDArray[np.float32],
    ended: Sequence[Ended] = (),
    action_mask: NDArray[np.bool_] | None = None,
) -> AgentBatch:
    """First the agents whose episode ended, then those that ask for a decision; nobody is in a group.

    Args:
        agent_id: [n], who asks.
        obs: One array [n, ...] for each sensor; uint8 [n, channels, height, width] is a picture.
        reward: [n], earned since the agent's last decision or the beginning of its episode.
        ended: The ends since the last batch, in order.
        action_mask: [n, sum of branch sizes], True where an action is not allowed.
    """
    if ended:
        asking = agent_id
        agent_id = np.concatenate([*(end.agent_id for end in ended), asking])
        obs = [np.concatenate([*(end.obs[k] for end in ended), rows]) for k, rows in enumerate(obs)]
        reward = np.concatenate([*(end.reward for end in ended), reward])
        if action_mask is not None:
            nothing = np.zeros((len(agent_id) - len(asking), action_mask.shape[1]), np.bool_)
            action_mask = np.concatenate([nothing, action_mask])
    count = len(agent_id)
    done = np.zeros(count, np.bool_)
    interrupted = np.zeros(count, np.bool_)
    first = 0
    for end in ended:
        last = first + len(end.agent_id)
        done[first:last] = True
        if end.interrupted is not None:
            interrupted[first:last] = end.interrupted
        first = last
    return AgentBatch(
        obs=obs,
        reward=reward,
        done=done,
        interrupted=interrupted,
        agent_id=agent_id,
        group_id=np.zeros(count, np.int32),
        group_reward=np.zeros(count, np.float32),
        action_mask=action_mask,
    )
