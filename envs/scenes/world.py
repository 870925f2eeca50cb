"""The interface of a game that can be trained like a Unity build, and its batches."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ..base import StatsAggregationMethod
from ..protocol.engine import AgentBatch, Observed
from ..protocol.png_writer import FAST
from ..side_channels import Parameters as Parameters
from ..side_channels import SideChannel


@dataclass(frozen=True, slots=True)
class EndedAgents:
    """Agents whose episodes ended together, with their last observations and rewards."""

    agent_id: NDArray[np.int32]
    obs: Sequence[Observed]
    """One array [n, ...] for each sensor."""
    reward: NDArray[np.float32]
    interrupted: NDArray[np.bool_] | None = None
    """Whether each episode was interrupted, [n]; None if none was."""


def without_groups(
    agent_id: NDArray[np.int32],
    obs: Sequence[Observed],
    reward: NDArray[np.float32],
    ended: Sequence[EndedAgents] = (),
    action_mask: NDArray[np.bool_] | None = None,
) -> AgentBatch:
    """A batch of agents without groups: first those whose episode ended, then those that request a decision.

    Args:
        agent_id: [n], the agents that request a decision.
        obs: One array [n, ...] for each sensor; uint8 [n, channels, height, width] is an image.
        reward: [n], since the agent's last decision or the start of its episode.
        ended: The episodes that ended since the last batch, in order.
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


Actions = Mapping[str, tuple[NDArray[np.float32], NDArray[np.int32]]]
"""The actions by behavior: continuous [n, A] and discrete [n, K], a row for each deciding agent."""

Batches = Mapping[str, AgentBatch]
"""The agents that report, by behavior."""

Statistic = tuple[str, float, StatsAggregationMethod]
"""A statistic that a world reports: name, value, and how values of one name are aggregated."""


def take_averages(name: str, values: list[float]) -> list[Statistic]:
    """A statistic of each value, to be averaged; empties `values`."""
    statistics = [(name, value, StatsAggregationMethod.AVERAGE) for value in values]
    values.clear()
    return statistics


class World(ABC):
    """A game of any number of agents, stepped from one decision to the next.

    `lanista.envs.scenes.client.main` makes a program of it that any ML-Agents tool can train;
    `lanista.envs.scenes.in_process.WorldEnvironment` steps it without a process. Options of the
    program are the keyword parameters of the class (integers, floats or strings with defaults), or the fields
    of its `options_type`.
    """

    options_type: ClassVar[type[Any] | None] = None
    """The world's class of `lanista.envs.scenes.options.SceneOptions`; the constructor takes its fields by
    keyword."""

    parameters_read: ClassVar[Collection[str] | None] = None
    """The environment parameters that the rules look up, for a warning about others; None: any may be."""

    other_names: ClassVar[Mapping[str, str]] = {}
    """Behaviors' names in ML-Agents' configurations, without `?team=`, with the names here, if they
    differ."""

    png_level = FAST
    """The compression level of images on the wire, 0 to 9."""

    @abstractmethod
    def specs(self) -> Mapping[str, BehaviorSpec]:
        """Every behavior by its full name, such as `3DBall?team=0`."""

    def prepare(self, seed: int, areas: int) -> None:  # noqa: B027 (most worlds leave it as it is)
        """Prepare for the seed and the number of areas that the trainer requests; called before `specs`.

        Override it if the world needs them before its first `reset`.
        """

    @abstractmethod
    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Start new episodes and return the first observations.

        Args:
            random: The world's only source of random numbers, seeded once by the trainer; keep it.
            parameters: The environment parameters that the trainer sets; keep it, it changes in place.
        """

    @abstractmethod
    def step(self, actions: Actions) -> Batches:
        """Advance until an agent requests a decision.

        Args:
            actions: A row for each agent that was not done in the last batch, in its order. A behavior
                of which no agent requested a decision may be missing.

        Returns:
            For each behavior, first the agents whose episode ended (`done`, with the last observation
            and reward), then those that request a decision; one whose next episode has started is in both.
        """

    def over(self) -> bool:
        """Whether nothing more can happen: the batch is then sent although no agent requests a decision."""
        return False

    def statistics(self) -> Sequence[Statistic]:
        """The statistics since the last call; each is sent to the trainer once."""
        return ()

    def side_channels(self) -> Sequence[SideChannel]:
        """The world's own side channels; a script answers with channels of the same UUIDs. Called once."""
        return ()
