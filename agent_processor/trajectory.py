"""A trajectory, and the columns that trainers take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..envs.base import ObsArray
from .blocks import Blocks, RowColumns


class AgentKey(NamedTuple):
    """An agent of one behavior among all environments, for one life."""

    env: int
    agent: int

    def __str__(self) -> str:
        return f"agent_{self.env}-{self.agent}"


@dataclass(slots=True, eq=False)
class Trajectory:
    """Consecutive steps of one agent, as numbers of rows; the rows themselves stay in their blocks.

    T is the number of steps, M the largest number of teammates that any of them has.
    """

    blocks: Blocks
    """Where the rows are; held here so that they live as long as the trajectory."""
    behavior_id: str
    agent: AgentKey
    rows: NDArray[np.int64]
    """[T] row numbers, oldest first."""
    next_row: int
    """The row whose observation followed the last step."""
    next_teammates: NDArray[np.int64]
    """The rows of the teammates' newest observations at that moment, one each."""
    done_reached: bool
    interrupted: bool
    all_group_dones_reached: bool
    """Every teammate's last step ended its episode; True without teammates."""
    next_roster: NDArray[np.int64] | None = None
    """[places] the rows of the group's newest observations after the last step, -1 for none:
    those of members who live, and of members whose episodes were interrupted. None without rosters."""

    next_agents: NDArray[np.int64] | None = None
    """[places] the ids of the agents whose rows these are, -1 for none. None without rosters."""
    life_lost: bool = False
    """The agent lost a life: for what is learned its episode is done, and yet it goes on."""
    by_snapshot: bool = False
    """As of the decisions of its steps: a trajectory's are all alike."""
    of_opponent: bool = False
    """It is learned from, but its rewards are an opponent's, which count in no statistics."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last_reward(self) -> float:
        """What the last step earned, the agent's own reward and its group's together."""
        last = self.blocks.columns(self.rows[-1:])
        return float(last.reward[0]) + float(last.group_reward[0])

    @property
    def teammates(self) -> NDArray[np.int64] | None:
        """[T, M] row numbers of the teammates' steps, -1 where there is none; None without a group."""
        return self.blocks.teammates(self.rows)

    @property
    def next_obs(self) -> list[ObsArray]:
        """The observation after the last step (no batch axis), one array per sensor."""
        return [obs[0] for obs in self.blocks.obs(np.array([self.next_row]))]

    @property
    def next_teammates_obs(self) -> list[list[ObsArray]]:
        """The same of each teammate: [mate][sensor]."""
        obs = self.blocks.obs(self.next_teammates)
        return [[sensor[i] for sensor in obs] for i in range(len(self.next_teammates))]


@dataclass(frozen=True, slots=True, eq=False)
class EpisodesDropped:
    """Among trajectories on their way to a trainer: episodes that it knows the beginnings of will never end.

    It takes its turn in the queue, so that no trajectory of these episodes is counted after it.
    """

    env: int | None = None
    """The environment whose episodes they are; None: those of all."""
    agent_ids: NDArray[np.int32] | None = None
    """[n] the agents whose episodes they are; None: all of the environment's."""


@dataclass(slots=True, kw_only=True)
class Rollout(RowColumns):
    """The steps of J trajectories as columns of N rows.

    The first `steps` rows are the trajectories' own, one trajectory after another (`lengths`); the rows after
    them belong to teammates whose trajectories are not among these.
    """

    numbers: NDArray[np.int64]
    """[N] the rows' numbers: a number means the same step in every rollout."""
    teammates: NDArray[np.int64] | None
    """[steps, M] row numbers within this Rollout, -1 where there is none."""
    lengths: NDArray[np.int64]
    """[J]; their sum is `steps`."""
    next_obs: list[ObsArray]
    """Per sensor [J, *shape]."""
    next_teammates_obs: list[ObsArray] | None
    """Per sensor [J, M', *shape]; rows beyond a trajectory's `next_teammates` are zeros."""
    next_teammates: NDArray[np.int64]
    """[J] number of teammates in `next_teammates_obs`."""
    done_reached: NDArray[np.bool_]
    interrupted_at_end: NDArray[np.bool_]
    all_group_dones: NDArray[np.bool_]
    """[J] each."""
    agents: list[AgentKey]
    """[J]."""
    behavior_ids: list[str]
    """[J] the behaviors' names, with their teams."""
    roster: NDArray[np.int64] | None = None
    """[steps, places] row numbers within this Rollout of all members of the group when the step began, at
    their places, the step's own among them; -1 for none. None without rosters."""
    next_roster: NDArray[np.int64] | None = None
    """[J, places] the same after each trajectory's last step; these rows have observations, masks and memory
    alone. No member continues where all are -1."""
    next_place: NDArray[np.int64] | None = None
    """[J] where in `next_roster` the trajectory's own agent goes on; -1 where it does not."""
    next_agents: NDArray[np.int64] | None = None
    """[J, places] the ids of the agents in `next_roster`, all of the trajectory's environment; -1: none."""
    life_lost: NDArray[np.bool_] | None = None
    """[J] which of the `done_reached` are lost lives, with episodes that go on. None: none."""
    of_opponent: NDArray[np.bool_] | None = None
    """[J] see `Trajectory`. None: none."""
    next_numbers: NDArray[np.int64] | None = None
    """[J] the numbers of the rows that `next_obs` is of. Where the agent goes on, its next trajectory begins
    with this row. None where somebody else than `rollout` made this Rollout."""
    next_action_mask: NDArray[np.bool_] | None = None
    """[J, sum of branch sizes] the masks there; where an episode was interrupted that of its last decision,
    since engines send none; all False after an end. None as `action_mask`."""

    @property
    def episode_over(self) -> NDArray[np.bool_]:
        """[J] with which trajectories an episode has come to its end."""
        return self.done_reached if self.life_lost is None else self.done_reached & ~self.life_lost

    @property
    def steps(self) -> int:
        """The number of the trajectories' own rows."""
        return int(self.lengths.sum())

    def own(self, *names: str) -> dict[str, Any]:
        """These columns of rows by name, cut to the trajectories' own steps."""
        return {name: take_rows(getattr(self, name), slice(self.steps)) for name in names}


def take_rows(column: Any, which: Any) -> Any:
    """The rows of a column, or of each of a list of columns, that an index selects; None stays None."""
    if isinstance(column, list):
        return [one[which] for one in column]
    return None if column is None else column[which]
