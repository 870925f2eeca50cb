"""Tells the protocol of a game's messages, and speaks that of godot_rl_agents, which lists agents one by one.

Its agents exist for the whole session, and all act in every step. The plugin tells the end of an episode
by `done`, and sends with it what the agent sees already in its next episode: the last observation is unknown,
unless `info` has `terminal_observation`. It is therefore replaced by the one before, and an episode that has
ended is not bootstrapped from, unless `info` says `TimeLimit.truncated`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..base import BehaviorSteps, EngineStatistics, ObsArray
from ..errors import ObservationError, WireError
from ..images import FULL, Images
from .columns import ColumnMessages
from .spaces import GodotBehavior, Sensor, SensorType, behaviors_of_agents, short

_MOST_VALUES = 1 << 23
"""The most values of a message, such as 128 numbers of each of 65,536 agents: an empty list takes three bytes
here, and 64 once it is parsed."""
_NULL = {
    SensorType.IMAGE: "A camera has no picture where the game has no display: leave --no-graphics out, or "
    "give it a virtual one (Xvfb)."
}


class AgentLists:
    """Reads and writes the messages of godot_rl_agents, for one game.

    Args:
        info: The game's answer to `env_info`.
        where: The environment's name in messages.
        images: The dtype of images.

    Raises:
        WireError: The answer lacks something; names it.
    """

    takes_parameters = False

    def __init__(self, info: Mapping[str, Any], where: str, images: Images) -> None:
        self._where = where
        self._images = images
        self._behaviors = behaviors_of_agents(info, where)
        self.specs: dict[str, BehaviorSpec] = {one.name: one.spec for one in self._behaviors}
        self._count = sum(len(one.agents) for one in self._behaviors)
        self._ids = np.arange(self._count, dtype=np.int32)
        """The id of every agent's episode: the agent's place in the messages, and the number of agents more
        with each episode."""
        self._last: dict[str, list[ObsArray]] = {}
        """The last observations of each behavior's agents."""
        self._is_reset = False

    def encode_reset(self, parameters: Mapping[str, float]) -> bytes:
        """The message that asks every agent to begin anew. There are no parameters."""
        return b'{"type":"reset"}'

    def encode_step(self, actions: Mapping[str, ActionTuple], parameters: Mapping[str, float]) -> bytes:
        """The message with every agent's actions."""
        listed: list[dict[str, Any]] = [{}] * self._count
        for behavior in self._behaviors:
            if behavior.name in actions:
                for agent, action in zip(behavior.agents, _named(behavior, actions[behavior.name])):
                    listed[agent] = action
        return json.dumps({"type": "action", "action": listed}, separators=(",", ":")).encode()

    def answer(self, message: Mapping[str, Any]) -> bytes | None:
        """The message to send at once instead of reading this one; None to read it.

        After a reset the game lets a block of frames pass, with the old actions, before it takes new ones: an
        action for the observations of `reset` would come too late for them. Zeros fill that block, and its
        observations are the first.
        """
        if message.get("type") != "reset":
            return None
        self._is_reset = True
        zeros = {
            one.name: self.specs[one.name].action_spec.empty_action(len(one.agents))
            for one in self._behaviors
        }
        return self.encode_step(zeros, {})

    def take_statistics(self) -> EngineStatistics:
        """Return no statistics: the plugin reports nothing."""
        return {}

    def read(self, message: Mapping[str, Any]) -> dict[str, BehaviorSteps]:
        """The steps of a message of the type `step`.

        Raises:
            WireError: Something is missing, or not what was announced; names behavior, agent and key.
        """
        if message.get("type") != "step":
            raise WireError(
                f"{self._where}: came a message of the type {short(message.get('type'))}; expected 'step'."
            )
        observed = self._list(message, "obs")
        rewards = self._numbers(message, "reward")
        done = self._flags(message, "done")
        infos = self._list(message, "info") if "info" in message else [{}] * self._count
        if self._is_reset:
            rewards, done = np.zeros_like(rewards), np.zeros_like(done)
            self._ids += self._count
            self._last = {}
            self._is_reset = False
        return {one.name: self._steps(one, observed, rewards, done, infos) for one in self._behaviors}

    def _steps(
        self,
        behavior: GodotBehavior,
        observed: Sequence[Any],
        rewards: NDArray[np.float32],
        done: NDArray[np.bool_],
        infos: Sequence[Any],
    ) -> BehaviorSteps:
        agents = behavior.agents
        obs = self._columns(behavior, [observed[agent] for agent in agents], agents)
        ended = np.flatnonzero(done[agents])
        terminals = self._terminals(behavior, ended, rewards, infos, obs)
        if len(ended):
            self._ids[agents[ended]] += self._count
            rewards = np.where(done, np.float32(0), rewards)
        self._last[behavior.name] = obs
        ids, no_group = self._ids[agents], np.zeros(len(agents), np.int32)
        return (
            DecisionSteps(obs, rewards[agents], ids, None, no_group, no_group.astype(np.float32)),
            terminals,
        )

    def _terminals(
        self,
        behavior: GodotBehavior,
        ended: NDArray[np.intp],
        rewards: NDArray[np.float32],
        infos: Sequence[Any],
        now: list[ObsArray],
    ) -> TerminalSteps:
        """The terminal steps of the agents `ended`, with the last observation if known, else that before."""
        agents = behavior.agents[ended]
        obs = [np.array(column[ended]) for column in self._last.get(behavior.name, now)]
        cut = np.zeros(len(ended), np.bool_)
        for row, agent in enumerate(agents):
            info = infos[agent] if isinstance(infos[agent], dict) else {}
            cut[row] = bool(info.get("TimeLimit.truncated", False))
            if (last := info.get("terminal_observation")) is not None:
                for column, value in zip(obs, self._columns(behavior, [last], agents[row : row + 1])):
                    column[row] = value[0]
        no_group = np.zeros(len(ended), np.int32)
        return TerminalSteps(
            obs, rewards[agents], cut, self._ids[agents], no_group, no_group.astype(np.float32)
        )

    def _columns(
        self, behavior: GodotBehavior, observed: Sequence[Any], agents: NDArray[np.intp]
    ) -> list[ObsArray]:
        """The agents' observations, [n, *shape] for each sensor."""
        for agent, one in zip(agents, observed):
            if not isinstance(one, dict) or any(sensor.name not in one for sensor in behavior.sensors):
                names = ", ".join(repr(sensor.name) for sensor in behavior.sensors)
                found = ", ".join(map(repr, one)) if isinstance(one, dict) else short(one)
                raise ObservationError(
                    f"{self._label(behavior, agent)}: its observations are {found or 'empty'}; expected "
                    f"{names}. "
                    "Does get_obs() end with a script error?"
                )
        columns = []
        for sensor in behavior.sensors:
            values = [one[sensor.name] for one in observed]
            try:
                columns.append(_column(sensor, values, self._images))
            except (ValueError, TypeError, OverflowError):
                for agent, value in zip(agents, values):
                    self._check(sensor, value, f"{self._label(behavior, agent)}: observation {sensor.name!r}")
                raise
        return columns

    def _check(self, sensor: Sensor, value: Any, label: str) -> None:
        """Raise an error that says what is wrong with one agent's value, if anything is."""
        if value is None:
            hint = _NULL.get(sensor.type, "Does get_obs() end with a script error?")
            raise ObservationError(f"{label} is null. {hint}")
        try:
            _column(sensor, [value], self._images)
        except (ValueError, TypeError, OverflowError) as error:
            texts = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
            why = f"{texts[0]!r} is no number; write a vector's one by one (v.x, v.y)" if texts else error
            raise ObservationError(f"{label} is {short(value)}: {why}.") from error

    def _label(self, behavior: GodotBehavior, agent: int) -> str:
        return f"{self._where}: behavior {behavior.name!r}, agent {agent}"

    def _list(self, message: Mapping[str, Any], key: str) -> list[Any]:
        values = message.get(key)
        if not isinstance(values, list):
            raise WireError(f"{self._where}: {key} is {short(values)}, not a list of {self._count} agents'.")
        if len(values) != self._count:
            raise WireError(
                f"{self._where}: {key} has {len(values)} entries for the {self._count} agents that the game "
                "announced. godot_rl_agents has a fixed number of agents: they must not be freed, nor added."
            )
        return values

    def _numbers(self, message: Mapping[str, Any], key: str) -> NDArray[np.float32]:
        values = self._list(message, key)
        try:
            with np.errstate(over="ignore"):
                numbers = np.array(values, np.float32)
            if numbers.shape == (self._count,):
                return numbers
        except (ValueError, TypeError, OverflowError):
            pass
        agent = next((i for i, one in enumerate(values) if not isinstance(one, (int, float))), 0)
        raise WireError(f"{self._where}: the {key} of agent {agent} is {short(values[agent])}, no number.")

    def _flags(self, message: Mapping[str, Any], key: str) -> NDArray[np.bool_]:
        values = self._list(message, key)
        for agent, value in enumerate(values):
            if not isinstance(value, (bool, int, float)):
                raise WireError(
                    f"{self._where}: {key} of agent {agent} is {short(value)}, not true or false."
                )
        return np.array(values, np.bool_)


def _column(sensor: Sensor, values: Sequence[Any], images: Images) -> ObsArray:
    """Convert n agents' values to [n, *shape]. Raises ValueError, TypeError, OverflowError with a reason."""
    if sensor.type is SensorType.CHOICE:
        return _one_hot(values, sensor.size)
    if sensor.type is SensorType.IMAGE and isinstance(values[0], str):
        pixels = np.stack([_pixels(value, sensor.shape) for value in values])
        return pixels if images == "uint8" else np.divide(pixels, FULL, dtype=np.float32)
    if any(value is None or isinstance(value, str) for value in values):
        raise ValueError("no list of numbers")
    with np.errstate(over="ignore"):
        column = np.array(values, np.float32)
    if column.size != len(values) * sensor.size:
        raise ValueError(f"{column.size // len(values)} numbers, and {sensor.size} were announced")
    return column.reshape(len(values), *sensor.shape)


def _one_hot(values: Sequence[Any], size: int) -> NDArray[np.float32]:
    chosen = np.array(values, np.float64)
    if chosen.shape != (len(values),) or not ((chosen >= 0) & (chosen < size) & (chosen % 1 == 0)).all():
        raise ValueError(f"not a whole number from 0 to {size - 1}")
    column = np.zeros((len(values), size), np.float32)
    column[np.arange(len(values)), chosen.astype(np.intp)] = 1.0
    return column


def _pixels(text: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Convert rows of pixels in hexadecimal digits to [channels, height, width].

    Cameras declare three channels, and with OpenGL send four, of which the last is opacity.
    """
    channels, height, width = shape
    data = np.frombuffer(bytes.fromhex(text), np.uint8)
    sent, rest = divmod(len(data), height * width)
    if rest or not (sent == channels or (sent, channels) == (4, 3)):
        raise ValueError(f"{len(data)} bytes, and {channels} x {height} x {width} were announced")
    return np.ascontiguousarray(data.reshape(height, width, sent)[..., :channels].transpose(2, 0, 1))


def _named(behavior: GodotBehavior, action: ActionTuple) -> Iterator[dict[str, Any]]:
    """Each agent's actions by name."""
    for continuous, discrete in zip(action.continuous.tolist(), action.discrete.tolist()):
        named: dict[str, Any] = {}
        first, branch = 0, 0
        for one in behavior.actions:
            if one.discrete:
                named[one.name] = discrete[branch]
                branch += 1
            else:
                named[one.name] = continuous[first : first + one.size]
                first += one.size
        yield named


Messages = AgentLists | ColumnMessages
"""A reader and writer of the messages of one game."""


def parse_message(data: bytes, where: str) -> dict[str, Any]:
    """Parse a message, which must be a JSON object.

    Python's own parser takes 8 microseconds for a step of four agents, where an engine takes 600.

    Raises:
        WireError: It is no JSON, or nested too deeply, or has too many values, or is no object.
    """
    if len(data) > _MOST_VALUES and (values := sum(map(data.count, (b",", b"[", b"{")))) > _MOST_VALUES:
        raise WireError(
            f"{where}: a message of {len(data):,} bytes has {values:,} values; expected at most "
            f"{_MOST_VALUES:,}. Send less at once: fewer agents or sensors, pictures as cameras send them."
        )
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise WireError(
            f"{where}: a message of {len(data):,} bytes is no JSON ({error}); it begins with {data[:40]!r}."
        ) from error
    if not isinstance(message, dict):
        raise WireError(f"{where}: a message of {len(data):,} bytes is {short(message)}, no object.")
    return message


def make_messages(info: Mapping[str, Any], where: str, images: Images) -> Messages:
    """Make the reader and writer of the messages of a game that gives this answer to `env_info`.

    Raises:
        WireError: It is another message, or lacks something; names it.
    """
    if info.get("type") != "env_info":
        raise WireError(
            f"{where}: the game began with a message of the type {short(info.get('type'))}; expected "
            "'env_info'. Does another program call on this port?"
        )
    return ColumnMessages(info, where, images) if "lanista" in info else AgentLists(info, where, images)
