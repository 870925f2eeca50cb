"""The seats of a turn-based game: whose behaviour each one is, and what it sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from mlagents_envs.base_env import BehaviorSpec, DimensionProperty, ObservationSpec, ObservationType
from mlagents_envs.exception import UnityEnvironmentException

from ..behavior_name import behavior_id
from ..faults import UnsupportedSpaceError
from ..pixels import Images
from ..steps import ObsArray
from .action_spaces import actor
from .gymnasium_views import stacked
from .pettingzoo_reports import Behavior
from .spaces import Sensor, sensors
from .turns import AECEnv

SEAT = "seat"
"""The sensor that tells a policy which seat it plays."""


@dataclass(frozen=True, slots=True)
class Seat:
    """One seat of every copy of a game."""

    agent: str
    behavior: Behavior
    sensors: list[Sensor]
    """Of one observation, before it is stacked."""
    own: ObsArray | None
    """What the sensor `seat` says; None where there is none."""

    def look(self, observation: Any, before: list[ObsArray] | None) -> list[ObsArray]:
        """An observation behind those that were seen `before` (None: none), as the behaviour's arrays.

        Raises:
            ValueError: the observation is not of the seat's space.
        """
        arrays: list[ObsArray] = []
        specs = self.behavior.spec.observation_specs
        for k, sensor in enumerate(self.sensors):
            size = sensor.spec.shape[0]
            array = np.zeros(specs[k].shape, sensor.dtype)
            if before is not None and len(array) > size:
                array[:-size] = before[k][size:]
            sensor.read(observation, array[len(array) - size :])
            arrays.append(array)
        if self.own is not None:
            arrays.append(self.own)
        return arrays


def make_seats(
    game: AECEnv, self_play: bool | None, stack_size: int, images: Images, *, boards: bool = False
) -> list[Seat]:
    """The seats in the order of the game's possible agents, each a team of its own.

    `self_play`: one policy plays them all; None: if their spaces are equal. `boards`: as of `sensors`.

    Raises:
        UnsupportedSpaceError: a space cannot be used, or has no board where there are to be some.
        UnityEnvironmentException: one policy is to play seats of different spaces.
    """
    agents = list(game.possible_agents)
    spaces = [(game.observation_space(agent), game.action_space(agent)) for agent in agents]
    if self_play is None:
        self_play = all(each == spaces[0] for each in spaces)
    for agent, each in zip(agents, spaces):
        if self_play and each != spaces[0]:
            raise UnityEnvironmentException(
                f"One policy cannot play all seats of {game}: {agents[0]!r} has the spaces {spaces[0]}, and "
                f"{agent!r} has {each}. Leave self_play out (or give --self-play false): each seat is then a "
                "behaviour of its own."
            )
    names = [_stem(agents[0])] * len(agents) if self_play else agents
    seats = []
    for number, (agent, name, each) in enumerate(zip(agents, names, spaces)):
        try:
            seen, acts = sensors(each[0], images=images, boards=boards), actor(each[1])
        except UnsupportedSpaceError as error:
            raise UnsupportedSpaceError(f"The agent {agent!r} of {game}: {error}") from error
        if boards and not any(sensor.board for sensor in seen):
            raise UnsupportedSpaceError(
                f"The agent {agent!r} of {game}: the argument boards is for observations of rows x columns x "
                f"planes; found {each[0]}."
            )
        specs = [stacked(sensor.spec, stack_size) for sensor in seen]
        own = None
        if self_play:
            own = np.eye(len(agents), dtype=np.float32)[number]
            none = (DimensionProperty.NONE,)
            specs.append(ObservationSpec((len(agents),), none, ObservationType.DEFAULT, SEAT))
        behavior = Behavior(
            *(behavior_id(name, number), number, each, BehaviorSpec(specs, acts.spec), seen, acts),
            with_extra=own is not None,
        )
        seats.append(Seat(agent, behavior, seen, own))
    return seats


def _stem(agent: str) -> str:
    """`player_0` is the first of the behaviour `player`."""
    return agent.rstrip("0123456789").rstrip("_- ") or "agent"
