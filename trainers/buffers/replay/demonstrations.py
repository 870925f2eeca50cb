"""Demonstrated steps in the batches of a replay (Ball et al. 2023, "RLPD", arXiv 2302.02948)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.rollout import pad_sequences
from ....agent_processor.trajectory import AgentKey, Rollout
from ..demonstrations import Demonstrations
from .buffer import Replay
from .columns import ReplayLayout


class DemonstrationReplay:
    """A replay of all demonstrated steps, which stays as it is, and its share of each batch.

    It is sampled uniformly, and saved with no checkpoint: `demo_path` has it.
    """

    def __init__(
        self,
        rollout: Rollout,
        rewards: NDArray[np.float32],
        layout: ReplayLayout,
        share: float,
        *,
        own_observation: bool = False,
    ) -> None:
        """Store the steps.

        Args:
            rollout: of whole episodes, as of `rollout_of`.
            rewards: [steps, S].
            layout: of the replay whose batches these steps join.
            share: of each batch.
            own_observation: see `Replay`.
        """
        sequences = pad_sequences(rollout.lengths, layout.sequence_length)
        own = replace(
            layout,
            capacity=len(sequences.index),
            dtypes=tuple(obs.dtype for obs in rollout.obs),
            stacks=(1,) * len(layout.stacks),  # frames are kept once where many trajectories come and go
            longest=int(rollout.lengths.max()),
            prioritized=False,
        )
        self.share = share
        self.replay = Replay(own, own_observation=own_observation)
        # What an algorithm adds to steps that it has evaluated is a state of its memory: zeros, as at first.
        extra: dict[str, NDArray[Any]] = {
            column.name: np.zeros((rollout.steps, *column.shape), column.dtype) for column in layout.extra
        }
        self.replay.append(rollout, rewards, extra)

    def units(self, units: int) -> int:
        """How many of a batch's units are demonstrated; at least one is, and one is not, if there are two."""
        return min(max(round(self.share * units), 1), units - 1)


def rollout_of(demos: Demonstrations) -> Rollout:
    """Demonstrated episodes as if agents of one environment had just played them, one agent each."""
    count, ends = len(demos), np.cumsum(demos.lengths) - 1
    done, interrupted = demos.done[ends], demos.interrupted[ends]
    mask = demos.action_mask
    return Rollout(
        obs=demos.obs,
        continuous=demos.continuous,
        discrete=demos.discrete,
        log_probs=np.zeros((count, demos.continuous.shape[1] + demos.discrete.shape[1]), np.float32),
        action_mask=mask,
        reward=demos.reward,
        group_reward=demos.group_reward,
        done=demos.done,
        interrupted=demos.interrupted,
        memory=None,
        prev_discrete=demos.prev_discrete,
        numbers=np.arange(count),
        teammates=None,
        lengths=demos.lengths,
        next_obs=demos.next_obs,
        next_teammates_obs=None,
        next_teammates=np.zeros(len(ends), np.int64),
        done_reached=done,
        interrupted_at_end=done & interrupted,
        all_group_dones=done,
        agents=[AgentKey(0, episode) for episode in range(len(ends))],
        behavior_ids=[""] * len(ends),
        next_action_mask=None if mask is None else mask[ends] & ~(done & ~interrupted)[:, None],
    )
