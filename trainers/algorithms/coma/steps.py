"""The columns that COMA holds until its next update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....agent_processor.rollout import first_steps, runs
from ....agent_processor.trajectory import Rollout
from ....envs.base import ObsArray
from ...buffers.rollout_buffer import OnPolicySteps

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(slots=True)
class RosterSteps(OnPolicySteps):
    """Columns of N agent-steps, and of the R rows that they reach: their own and other members'.

    They come in parts, one rollout each; a part's rows are those of its own steps, then those of others.
    `roster` counts rows from the start of its part, so that parts can be concatenated.
    """

    obs: list[ObsArray]
    """[R, *shape]."""
    discrete: NDArray[np.int32]
    """[R, branches]."""
    roster: Ints
    """[N, slots], -1 where there is no member."""
    action_mask: NDArray[np.bool_] | None
    log_probs: Floats
    """[N, branches], of when the actions were sampled, with the exploration of that time."""
    exploration: Floats
    """[N]."""
    returns: Floats
    """[N, signals], the critic's targets for the actions taken."""
    lengths: Ints
    """[J] of the trajectories; their sum is N."""
    actor_states: Floats | None
    """[J, memory_size], the actor's state before each trajectory; None without a memory."""
    critic_states: Floats | None
    """[J, the critic's memory size], the same of the critic."""
    step_counts: Ints
    """[parts] steps of each part."""
    row_counts: Ints
    """[parts] rows of each part."""

    def __len__(self) -> int:
        return len(self.exploration)

    def linked(self) -> tuple[Ints, Ints]:
        """Each step's row [N], and its roster [N, slots], both counted from the first row of all parts."""
        first_rows = np.repeat(first_steps(self.row_counts), self.step_counts)
        own = runs(first_steps(self.row_counts), self.step_counts)
        return own, np.where(self.roster >= 0, self.roster + first_rows[:, None], -1)


def roster_steps(rollout: Rollout, targets: Floats, critic_states: Floats | None = None) -> RosterSteps:
    """A rollout as a part, with the critic's targets of its own steps.

    Rows of no own step's roster are left out.
    """
    assert rollout.roster is not None and rollout.exploration is not None
    n, roster = rollout.steps, rollout.roster
    others = np.unique(roster[roster >= n])
    index = np.empty(len(rollout.reward), dtype=np.int64)
    rows = np.concatenate([np.arange(n), others])
    index[rows] = np.arange(len(rows))
    return RosterSteps(
        obs=[o[rows] for o in rollout.obs],
        discrete=rollout.discrete[rows],
        roster=np.where(roster >= 0, index[roster], -1),
        **rollout.own("action_mask", "log_probs", "exploration"),
        returns=targets,
        lengths=rollout.lengths,
        actor_states=None if rollout.memory is None else rollout.memory[first_steps(rollout.lengths)],
        critic_states=critic_states,
        step_counts=np.array([n]),
        row_counts=np.array([len(rows)]),
    )


def slots_of(own: Ints, roster: Ints) -> Ints:
    """[N] the slot of each step's own row [N] in its roster [N, slots]."""
    slots: Ints = (roster == own[:, None]).argmax(axis=1)
    return slots
