"""Rollouts of agents with a memory."""

from collections.abc import Sequence

import numpy as np
from lanista.agent_processor.trajectory import AgentKey, Rollout


def recurrent_rollout(
    lengths: Sequence[int],
    agents: Sequence[AgentKey],
    begins: Sequence[bool],
    done: Sequence[bool] | None = None,
    memory_size: int = 4,
) -> Rollout:
    """Trajectories of three random observations and one continuous action.

    `begins`: those that begin an episode, where the actor's state is zeros.
    """
    n, j = sum(lengths), len(lengths)
    zeros = np.zeros(n, np.float32)
    memory = np.ones((n, memory_size), np.float32)
    memory[(np.cumsum(lengths) - lengths)[np.array(begins, bool)]] = 0.0
    return Rollout(
        numbers=np.arange(n),
        obs=[np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)],
        continuous=np.zeros((n, 1), np.float32),
        discrete=np.zeros((n, 0), np.int32),
        log_probs=np.full((n, 1), -1.0, np.float32),
        action_mask=None,
        reward=zeros,
        group_reward=zeros,
        done=zeros > 0,
        interrupted=zeros > 0,
        memory=memory,
        prev_discrete=np.zeros((n, 0), np.int32),
        mates=None,
        lengths=np.array(lengths),
        next_obs=[np.zeros((j, 3), np.float32)],
        next_mates_obs=None,
        next_mates=np.zeros(j, np.int64),
        done_reached=np.zeros(j, bool) if done is None else np.array(done),
        interrupted_at_end=np.zeros(j, bool),
        all_group_dones=np.ones(j, bool),
        agents=list(agents),
    )
