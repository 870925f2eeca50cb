"""Makes a BehaviorSpec of what a game tells of its observations and actions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
from mlagents_envs.base_env import (
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from numpy.typing import NDArray

from ..base import BehaviorName
from ..errors import WireError
from ..named_actions import NamedAction, named_action_spec
from ..utils.sizes import too_many_actions, too_many_choices, too_many_sensors

_MOST_NUMBERS = 1 << 26
"""The most numbers of one observation of one agent."""
_MOST_CHOICES_TOGETHER = 1 << 22
"""The most choices of one observation, over all agents of a behavior."""
_MOST_AGENTS = 1 << 16
_HALVES = re.compile("[\ud800-\udfff]")
_SLIDING = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE


class SensorType(Enum):
    """How a sensor's values are written."""

    NUMBERS = "numbers"
    """A list of numbers."""
    CHOICE = "choice"
    """A whole number below a size; it becomes that many numbers, of which one is 1."""
    IMAGE = "image"
    """Bytes, rows of pixels; it becomes channels first."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """One observation of a behavior."""

    name: str
    type: SensorType
    shape: tuple[int, ...]
    """The shape as returned: [channels, height, width] for images."""

    @property
    def size(self) -> int:
        """How many numbers an agent's observation has."""
        return math.prod(self.shape)

    @property
    def spec(self) -> ObservationSpec:
        """The observation's specification, for a BehaviorSpec."""
        properties = (DimensionProperty.NONE,) + ((_SLIDING,) * 2 if len(self.shape) == 3 else ())
        return ObservationSpec(self.shape, properties, ObservationType.DEFAULT, self.name)


@dataclass(frozen=True, slots=True)
class GodotBehavior:
    """A behavior as a game describes it."""

    name: str
    """The behavior's name with its team, as in `chaser?team=0`."""
    sensors: tuple[Sensor, ...]
    actions: tuple[NamedAction, ...]
    """The actions in the game's order, in which continuous and discrete ones may alternate."""
    agents: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    """The places of this behavior's agents, where messages list agents one by one."""

    @property
    def spec(self) -> BehaviorSpec:
        """The BehaviorSpec: continuous actions one after the other, and a branch for every discrete one."""
        return BehaviorSpec([sensor.spec for sensor in self.sensors], named_action_spec(self.actions))


def behaviors_of_agents(info: Mapping[str, Any], where: str) -> list[GodotBehavior]:
    """The behaviors of a message `env_info` that lists agents one by one, as godot_rl_agents writes it.

    Agents of one `policy_name` are of one behavior and must have the same spaces. Old plugins write one
    space for all agents, and no names.

    Raises:
        WireError: Something is missing or impossible; names the agent and the key.
    """
    count = info.get("n_agents")
    if isinstance(count, float) and count.is_integer():
        count = int(count)
    if not isinstance(count, int) or not 1 <= count <= _MOST_AGENTS:
        raise WireError(
            f"{where}: the game has no agents to train (n_agents is {short(count)}). Each agent needs an "
            "AIController whose control_mode is Training, or Inherit From Sync with the Sync node at "
            "Training."
        )
    observations = _per_agent(info, "observation_space", count, where)
    actions = _per_agent(info, "action_space", count, where)
    names = _per_agent({"agent_policy_names": "shared_policy", **info}, "agent_policy_names", count, where)
    members: dict[str, list[int]] = {}
    for agent, name in enumerate(names):
        members.setdefault(_behavior_name(name, f"{where}: agent {agent}"), []).append(agent)
    found = []
    for name, agents in members.items():
        first = agents[0]
        for agent in agents:  # a space that all share is looked at once
            label = f"{where}: behavior {name!r}, agent {agent}"
            if agent == first or observations[agent] is not observations[first]:
                _sensors_by_name(observations[agent], label)
            if agent == first or actions[agent] is not actions[first]:
                _actions_by_name(actions[agent], label)
        for other in agents[1:]:
            for kind, spaces in (("observation", observations), ("action", actions)):
                if spaces[other] is not spaces[first] and spaces[other] != spaces[first]:
                    raise WireError(
                        f"{where}: behavior {name!r}: agents {first} and {other} have one policy_name and "
                        f"different {kind} spaces, {spaces[first]} and {spaces[other]}. Give agents that "
                        "differ policy names of their own."
                    )
        label = f"{where}: behavior {name!r}, agent {first}"
        sensors = _sensors_by_name(observations[first], label)
        for sensor in sensors:
            if sensor.type is SensorType.CHOICE and len(agents) * sensor.size > _MOST_CHOICES_TOGETHER:
                raise WireError(
                    f"{label}: observation {sensor.name!r}: {sensor.size:,} choices are too many."
                )
        found.append(
            GodotBehavior(name, sensors, _actions_by_name(actions[first], label), np.array(agents, np.intp))
        )
    return found


def behaviors_by_name(described: object, where: str) -> list[GodotBehavior]:
    """The behaviors that Lanista's addon describes, by their names.

    Raises:
        WireError: Something is missing or impossible; names the behavior and the key.
    """
    if not isinstance(described, dict):
        raise WireError(f"{where}: behaviors is {short(described)}, not an object with behaviors by name.")
    found = []
    for given, one in described.items():
        name = _behavior_name(given, where)
        label = f"{where}: behavior {name!r}"
        if not isinstance(one, dict):
            raise WireError(f"{label}: its description is {short(one)}, not an object.")
        sensors = [_sensor(entry, label) for entry in _list(one, "observations", label)]
        actions = [
            _action(_text(entry, "name", label), entry, label) for entry in _list(one, "actions", label)
        ]
        found.append(GodotBehavior(name, _checked(sensors, label), _checked_actions(actions, label)))
    return found


def _per_agent(info: Mapping[str, Any], key: str, count: int, where: str) -> list[Any]:
    values = info.get(key)
    if isinstance(values, (dict, str)):  # a plugin from before agents could differ
        return [values] * count
    if not isinstance(values, list) or len(values) != count:
        number = f"{len(values)} entries" if isinstance(values, list) else short(values)
        raise WireError(f"{where}: {key} has {number} for {count} agents: one for each was expected.")
    return values


def _behavior_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise WireError(f"{where}: the policy name is {short(name)}; a text that is not empty was expected.")
    check_letters(name, f"{where}: the policy name {name!r}")
    try:
        return BehaviorName.parse(name).rebuilt
    except ValueError as error:
        raise WireError(f"{where}: {error}") from None


def _sensors_by_name(space: object, label: str) -> tuple[Sensor, ...]:
    if not isinstance(space, dict) or not space:
        raise WireError(
            f"{label}: it has no observation space ({short(space)}). get_obs_space() must return a "
            'dictionary such as {"obs": {"size": [4], "space": "box"}}.'
        )
    sensors = []
    for name, one in space.items():
        kind = _text(one, "space", f"{label}: observation {name!r}")
        if kind == "discrete":
            size = _size(one.get("size"), f"{label}: observation {name!r}")
            if reason := too_many_choices(size):
                raise WireError(f"{label}: observation {name!r}: {reason}.")
            sensors.append(Sensor(name, SensorType.CHOICE, (size,)))
        elif kind == "box":
            shape = _shape(one.get("size"), f"{label}: observation {name!r}")
            is_image = "2d" in name and len(shape) == 3
            sensors.append(Sensor(name, SensorType.IMAGE if is_image else SensorType.NUMBERS, shape))
        else:
            raise WireError(f"{label}: observation {name!r}: space is {kind!r}, not 'box' or 'discrete'.")
    return _checked(sensors, label)


def _actions_by_name(space: object, label: str) -> tuple[NamedAction, ...]:
    if not isinstance(space, dict) or not space:
        raise WireError(
            f"{label}: it has no action space ({short(space)}). get_action_space() must return a dictionary "
            'such as {"move": {"size": 2, "action_type": "continuous"}}.'
        )
    return _checked_actions([_action(name, one, label) for name, one in space.items()], label)


def _sensor(entry: object, label: str) -> Sensor:
    name = _text(entry, "name", label)
    label = f"{label}: observation {name!r}"
    kind = _text(entry, "type", label)
    shape = _shape(entry.get("shape"), label)  # type: ignore[attr-defined]
    if kind not in ("float", "image") or (kind == "image") > (len(shape) == 3):
        raise WireError(
            f"{label}: its type is {kind!r} and its shape {list(shape)}; expected 'float', or 'image' with "
            "[channels, height, width]."
        )
    return Sensor(name, SensorType.IMAGE if kind == "image" else SensorType.NUMBERS, shape)


def _action(name: str, one: object, label: str) -> NamedAction:
    label = f"{label}: action {name!r}"
    kind = _text(one, "action_type", label)
    size = _size(one.get("size"), label)  # type: ignore[attr-defined]
    if kind == "discrete":
        return NamedAction(name, size, "discrete")
    if kind == "continuous":
        return NamedAction(name, size, "continuous")
    raise WireError(f"{label}: action_type is {kind!r}, not 'discrete' or 'continuous'.")


def check_letters(text: str, what: str) -> None:
    """Refuse half of a pair of code units (a surrogate): JSON can say it, and no file can hold it."""
    if _HALVES.search(text):
        raise WireError(f"{what} holds half of a character; expected whole ones.")


def _checked(sensors: Sequence[Sensor], label: str) -> tuple[Sensor, ...]:
    if not sensors:
        raise WireError(f"{label}: it has no observations, so that nothing can be learned. Give it one.")
    if reason := too_many_sensors(len(sensors)):
        raise WireError(f"{label}: {reason}.")
    for sensor in sensors:
        check_letters(sensor.name, f"{label}: the observation's name {sensor.name!r}")
    if len({sensor.name for sensor in sensors}) < len(sensors):
        raise WireError(f"{label}: two observations have the same name.")
    return tuple(sensors)


def _checked_actions(actions: Sequence[NamedAction], label: str) -> tuple[NamedAction, ...]:
    if not actions:
        raise WireError(f"{label}: it has no actions, so that nothing can be learned. Give it one.")
    for action in actions:
        check_letters(action.name, f"{label}: the action's name {action.name!r}")
    if len({action.name for action in actions}) < len(actions):
        raise WireError(f"{label}: two actions have the same name.")
    branches = [action.size for action in actions if action.discrete]
    continuous = sum(action.size for action in actions if not action.discrete)
    if reason := too_many_actions(continuous, sum(branches), len(branches)):
        raise WireError(f"{label}: {reason}.")
    return tuple(actions)


def _shape(size: object, label: str) -> tuple[int, ...]:
    """Read a shape of one or three dimensions; others are flattened."""
    values = size if isinstance(size, list) else [size]
    shape = tuple(_size(value, label) for value in values)
    if not shape or math.prod(shape) > _MOST_NUMBERS:
        raise WireError(f"{label}: a size of {short(size)} is impossible.")
    return shape if len(shape) in (1, 3) else (math.prod(shape),)


def _size(value: object, label: str) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1 <= value <= _MOST_NUMBERS:
        raise WireError(f"{label}: a size of {short(value)} is impossible.")
    if value != int(value):
        raise WireError(f"{label}: a size of {value} is not a whole number.")
    return int(value)


def _list(entry: Mapping[str, Any], key: str, label: str) -> list[Any]:
    value = entry.get(key)
    if not isinstance(value, list):
        raise WireError(f"{label}: {key} is {short(value)}, not a list.")
    return value


def _text(entry: object, key: str, label: str) -> str:
    value = entry.get(key) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        what = f"{key} is {short(value)}" if isinstance(entry, dict) else f"it is {short(entry)}"
        raise WireError(f"{label}: {what}; a text {key!r} was expected.")
    return value


def short(value: object) -> str:
    """The text of a value in an error message, of at most 80 characters; `missing` for None."""
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
