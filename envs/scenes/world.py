"""What a game has to be so that it can be trained like a Unity build."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from mlagents_envs.base_env import BehaviorSpec
from numpy.typing import NDArray

from ..side_channels import SideChannel
from ..statistics import StatsAggregationMethod
from ..wire.engine_codec import AgentBatch
from ..wire.png_writer import FAST
from .parameters import Parameters

Actions = Mapping[str, tuple[NDArray[np.float32], NDArray[np.int32]]]
"""By behaviour, the continuous [n, A] and discrete [n, K] actions, one row for each agent that asked."""

Batches = Mapping[str, AgentBatch]
"""By behaviour, the agents that have something to tell."""

Statistic = tuple[str, float, StatsAggregationMethod]
"""What a world reports beside its agents: name, value, how values of one name are summarised."""


class World(ABC):
    """A game of any number of agents, stepped from one decision to the next.

    `lanista.envs.scenes.client.main` makes a program of it that any ML-Agents tool can train;
    `lanista.envs.scenes.in_place.WorldEnvironment` steps it without a process. Options of the
    program are the keyword parameters of the class, integers, floats or texts with defaults.
    """

    png_level = FAST
    """How much effort goes into making pictures small on their way, 0 to 9."""

    @abstractmethod
    def specs(self) -> Mapping[str, BehaviorSpec]:
        """Every behaviour by its full name, such as `3DBall?team=0`."""

    def prepare(self, seed: int, areas: int) -> None:  # noqa: B027 (most worlds leave it as it is)
        """Get ready: the trainer has said which seed and how many areas it wants. `specs` is asked next.

        Only for a world that needs to know them before its first `reset`; the others have nothing to do.
        """

    @abstractmethod
    def reset(self, random: np.random.Generator, parameters: Parameters) -> Batches:
        """Begin anew, and give the first observations.

        Args:
            random: The source of all chance of this world, seeded by the trainer once; keep it.
            parameters: What the trainer sets; keep it, it changes in place.
        """

    @abstractmethod
    def step(self, actions: Actions) -> Batches:
        """Advance until an agent asks for a decision again.

        Args:
            actions: A row for each agent that was not done in the last batch, in its order. A behaviour
                of which no agent asked may be missing.

        Returns:
            For each behaviour, first the agents whose episode ended (`done`, with the last observation
            and reward), then those that ask; an agent that ended and began again is in both parts.
        """

    def over(self) -> bool:
        """Whether nothing more can come: then what is there is told, although nobody asks for a decision."""
        return False

    def statistics(self) -> Sequence[Statistic]:
        """What happened since the last call; each is sent to the trainer once."""
        return ()

    def side_channels(self) -> Sequence[SideChannel]:
        """Channels of this world's own, each with a UUID that a script's channel has too; asked once."""
        return ()

    def draw(self, size: tuple[int, int] = (640, 400)) -> NDArray[np.uint8]:
        """A picture [height, width, 3] of now; `size` is (width, height) in pixels.

        Raises:
            NotImplementedError: This world does not draw itself.
        """
        raise NotImplementedError(f"{type(self).__name__} does not draw itself.")
