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
    """The row numbers [T] of the steps, oldest first."""
    next_row: int
    """The row whose observation followed the last step."""
    next_teammates: NDArray[np.int64]
    """The rows of the teammates' newest observations after the last step, one for each teammate."""
    done_reached: bool
    interrupted: bool
    all_group_dones_reached: bool
    """Whether every teammate's last step ended its episode; True without teammates."""
    next_roster: NDArray[np.int64] | None = None
    """The rows [places] of the group's newest observations after the last step, -1 for none:
    those of members who live, and of members whose episodes were interrupted. None without rosters."""

    next_agents: NDArray[np.int64] | None = None
    """The ids [places] of the agents in `next_roster`, -1 for none. None without rosters."""
    life_lost: bool = False
    """Whether the agent lost a life: for what is learned its episode is done, and yet it goes on."""
    by_snapshot: bool = False
    """Whether a snapshot of earlier weights decided (see `Decision`), the same for all of the steps."""
    of_opponent: bool = False
    """Whether the rewards are an opponent's, which count in no statistics; the trajectory is learned from."""
    counts_group: bool = True
    """Whether the end of a group is counted with it: of members that end together, with one of them. Where
    nobody has a group each agent counts, beside groups none does."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def last_reward(self) -> float:
        """The reward of the last step, the agent's own and its group's together."""
        last = self.blocks.columns(self.rows[-1:])
        return float(last.reward[0]) + float(last.group_reward[0])

    @property
    def teammates(self) -> NDArray[np.int64] | None:
        """The row numbers [T, M] of the teammates' steps, -1 where there is none; None without a group."""
        return self.blocks.teammates(self.rows)

    @property
    def next_obs(self) -> list[ObsArray]:
        """The observation after the last step (no batch axis), one array per sensor."""
        return [obs[0] for obs in self.blocks.obs(np.array([self.next_row]))]

    @property
    def next_teammates_obs(self) -> list[list[ObsArray]]:
        """The observations of each teammate after the last step: [mate][sensor]."""
        obs = self.blocks.obs(self.next_teammates)
        return [[sensor[i] for sensor in obs] for i in range(len(self.next_teammates))]


@dataclass(frozen=True, slots=True, eq=False)
class EpisodesDropped:
    """A notice among the trajectories to a trainer: episodes that it knows the beginnings of will never end.

    The notice takes its turn in the queue, so that no trajectory of these episodes is counted after it.
    """

    env: int | None = None
    """The environment whose episodes are meant; None: all environments."""
    agent_ids: NDArray[np.int32] | None = None
    """The ids [n] of the agents whose episodes are meant; None: all agents of the environment."""


@dataclass(slots=True, kw_only=True)
class Rollout(RowColumns):
    """The steps of J trajectories as columns of N rows.

    The first `steps` rows are the trajectories' own, one trajectory after another (`lengths`); the rows after
    them belong to teammates whose trajectories are not among these.
    """

    numbers: NDArray[np.int64]
    """The rows' numbers [N]: a number means the same step in every rollout."""
    teammates: NDArray[np.int64] | None
    """The row numbers [steps, M] of the teammates' steps within this Rollout, -1 where there is none."""
    lengths: NDArray[np.int64]
    """The number of steps of each trajectory [J]; their sum is `steps`."""
    next_obs: list[ObsArray]
    """The observations after each trajectory's last step, per sensor [J, *shape]."""
    next_teammates_obs: list[ObsArray] | None
    """The teammates' observations after each trajectory's last step, per sensor [J, M', *shape]; rows beyond
    a trajectory's `next_teammates` are zeros."""
    next_teammates: NDArray[np.int64]
    """The number of teammates [J] in `next_teammates_obs`."""
    done_reached: NDArray[np.bool_]
    interrupted_at_end: NDArray[np.bool_]
    all_group_dones: NDArray[np.bool_]
    """Whether every teammate's last step ended its episode [J]; the two columns above are [J], too."""
    agents: list[AgentKey]
    """The agent of each trajectory [J]."""
    behavior_ids: list[str]
    """The behaviors' names [J], with their teams."""
    roster: NDArray[np.int64] | None = None
    """The row numbers [steps, places] within this Rollout of all members of the group when the step began,
    at their places, the step's own among them; -1 for none. None without rosters."""
    next_roster: NDArray[np.int64] | None = None
    """The roster [J, places] after each trajectory's last step; its rows have observations, masks and memory
    alone. No member continues where all are -1."""
    next_place: NDArray[np.int64] | None = None
    """The place in `next_roster` at which the trajectory's own agent goes on [J]; -1 where it does not."""
    next_agents: NDArray[np.int64] | None = None
    """The ids [J, places] of the agents in `next_roster`, all of the trajectory's environment; -1: none."""
    life_lost: NDArray[np.bool_] | None = None
    """Whether a `done_reached` is a lost life [J], with an episode that goes on. None: none is."""
    of_opponent: NDArray[np.bool_] | None = None
    """Whether the rewards are an opponent's [J], see `Trajectory`. None: none are."""
    counts_group: NDArray[np.bool_] | None = None
    """Whether the end of a group is counted with it [J], see `Trajectory`. None: with each of them."""
    next_numbers: NDArray[np.int64] | None = None
    """The numbers [J] of the rows that `next_obs` is of. Where the agent goes on, its next trajectory begins
    with this row. None where somebody else than `rollout` made this Rollout."""
    next_action_mask: NDArray[np.bool_] | None = None
    """The action masks [J, sum of branch sizes] of `next_obs`; where an episode was interrupted, that of its
    last decision, since engines send none; all False after an end. None where `action_mask` is None."""

    @property
    def episode_over(self) -> NDArray[np.bool_]:
        """Whether an episode has come to its end with each trajectory [J]."""
        return self.done_reached if self.life_lost is None else self.done_reached & ~self.life_lost

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Whether nothing is earned after each trajectory [J]: its episode is done, and not interrupted."""
        return self.done_reached & ~self.interrupted_at_end

    @property
    def steps(self) -> int:
        """The number of the trajectories' own rows."""
        return int(self.lengths.sum())

    def at_ends(self, of_trajectories: NDArray[Any]) -> NDArray[Any]:
        """[steps] these values [J] at the trajectories' last steps, and zeros or False elsewhere."""
        column = np.zeros(self.steps, of_trajectories.dtype)
        column[np.cumsum(self.lengths) - 1] = of_trajectories
        return column

    def own(self, *names: str) -> dict[str, Any]:
        """These columns of rows by name, cut to the trajectories' own steps."""
        return {name: take_rows(getattr(self, name), slice(self.steps)) for name in names}


def take_rows(column: Any, which: Any) -> Any:
    """The rows of a column, or of each of a list of columns, that an index selects; None stays None."""
    if isinstance(column, list):
        return [one[which] for one in column]
    return None if column is None else column[which]
