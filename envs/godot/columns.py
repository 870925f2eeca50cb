"""The messages of Lanista's addon, which send the numbers of all agents of a behavior as one column.

A column is base64 of its bytes, little-endian and row by row: what a game's packed arrays are made of, so
that no number is written out and read again, and every bit arrives. Agents may come and go.
`docs/godot-addon.md` describes the messages.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import DTypeLike, NDArray

from ..base import BehaviorSteps, EngineStatistics, ObsArray, StatsAggregationMethod, no_steps
from ..errors import ObservationError, WireError
from ..images import FULL, Images
from .spaces import GodotBehavior, Sensor, SensorType, behaviors_by_name, check_letters, short

DIALECT = 1
"""The newest version of these messages that is understood; a part of the handshake."""


class ColumnMessages:
    """Reads and writes the messages of Lanista's addon, for one game.

    Args:
        info: The game's answer to `env_info`.
        where: The environment's name in messages.
        images: The dtype of images.

    Raises:
        WireError: The answer lacks something, or is of a newer version; names it.
    """

    takes_parameters = True

    def __init__(self, info: Mapping[str, Any], where: str, images: Images) -> None:
        version = info.get("lanista")
        if version != DIALECT:
            raise WireError(
                f"{where}: the game's addon answers in version {short(version)} of its protocol; this "
                f"Lanista "
                f"knows version {DIALECT}. Install the addon that belongs to it: lanista godot install "
                f"PROJECT."
            )
        self.where = where
        """The source of the messages, as errors name it."""
        self._images = images
        self._behaviors: dict[str, GodotBehavior] = {}
        self.specs: dict[str, BehaviorSpec] = {}
        self._statistics: dict[str, list[tuple[float, StatsAggregationMethod]]] = {}
        self._waiting: dict[str, NDArray[np.int32]] = {}
        self._describe(info.get("behaviors", {}))

    def encode_reset(self, parameters: Mapping[str, float]) -> bytes:
        """The message that asks every agent to begin anew."""
        return _message("reset", {}, parameters)

    def encode_step(self, actions: Mapping[str, ActionTuple], parameters: Mapping[str, float]) -> bytes:
        """The message with the actions of all agents that wait for them."""
        behaviors = {}
        for name, action in actions.items():
            columns = {"ids": _encode(self._waiting[name], "<i4")}
            if action.continuous.shape[1]:
                columns["continuous"] = _encode(action.continuous, "<f4")
            if action.discrete.shape[1]:
                columns["discrete"] = _encode(action.discrete, "<i4")
            behaviors[name] = columns
        return _message("action", {"behaviors": behaviors}, parameters)

    def answer(self, message: Mapping[str, Any]) -> bytes | None:
        """Return None: every message is read; see `AgentLists.answer`."""
        return None

    def read(self, message: Mapping[str, Any]) -> dict[str, BehaviorSteps]:
        """The steps of a message of the type `step` or `reset`.

        Raises:
            WireError: Something is missing, or not what was announced; names behavior and key.
        """
        if message.get("type") not in ("step", "reset"):
            raise WireError(
                f"{self.where}: came a message of the type {short(message.get('type'))}; expected 'step' or "
                "'reset'."
            )
        if "new_behaviors" in message:
            self._describe(message["new_behaviors"])
        self._take_statistics(message.get("statistics", ()))
        content = message.get("behaviors", {})
        if not isinstance(content, dict):
            raise WireError(f"{self.where}: behaviors is {short(content)}, not an object.")
        steps = {}
        for name, one in content.items():
            behavior = self._behaviors.get(name)
            if behavior is None:
                known = ", ".join(map(repr, self._behaviors)) or "none"
                raise WireError(f"{self.where}: behavior {name!r} was never described; known are {known}.")
            steps[name] = self._steps(behavior, one, f"{self.where}: behavior {name!r}")
        self._waiting = {name: decisions.agent_id for name, (decisions, _) in steps.items()}
        return steps

    def take_statistics(self) -> EngineStatistics:
        """The statistics that the game has reported since the last call."""
        taken, self._statistics = self._statistics, {}
        return taken

    def _describe(self, described: object) -> None:
        for behavior in behaviors_by_name(described, self.where):
            known = self._behaviors.get(behavior.name)
            if known is None:
                self._behaviors[behavior.name] = behavior
                self.specs[behavior.name] = behavior.spec
            elif (known.sensors, known.actions) != (behavior.sensors, behavior.actions):
                raise WireError(
                    f"{self.where}: behavior {behavior.name!r} is described again, with other observations "
                    "or actions. Give agents that differ policy names of their own."
                )

    def _steps(self, behavior: GodotBehavior, content: object, label: str) -> BehaviorSteps:
        if not isinstance(content, dict):
            raise WireError(f"{label} is {short(content)}, not an object.")
        no_decisions, no_terminals = no_steps(self.specs[behavior.name])
        decisions, terminals = content.get("decision"), content.get("terminal")
        return (
            no_decisions if decisions is None else self._decisions(behavior, decisions, f"{label}, decision"),
            no_terminals if terminals is None else self._terminals(behavior, terminals, f"{label}, terminal"),
        )

    def _decisions(self, behavior: GodotBehavior, content: object, label: str) -> DecisionSteps:
        columns = _Columns(content, label)
        masks = None
        if columns.has("mask"):
            sizes = [action.size for action in behavior.actions if action.discrete]
            masks = [column != 0 for column in columns.several("mask", sizes, np.dtype(np.uint8))]
        obs = self._observations(behavior, columns)
        return DecisionSteps(
            obs, columns.one("reward", "<f4"), columns.ids, masks, columns.group, columns.group_reward
        )

    def _terminals(self, behavior: GodotBehavior, content: object, label: str) -> TerminalSteps:
        columns = _Columns(content, label)
        interrupted = columns.one("interrupted", np.uint8, optional=True) != 0
        obs = self._observations(behavior, columns)
        return TerminalSteps(
            obs, columns.one("reward", "<f4"), interrupted, columns.ids, columns.group, columns.group_reward
        )

    def _observations(self, behavior: GodotBehavior, columns: _Columns) -> list[ObsArray]:
        sent = columns.list("obs", len(behavior.sensors))
        return [self._observation(sensor, columns, text) for sensor, text in zip(behavior.sensors, sent)]

    def _observation(self, sensor: Sensor, columns: _Columns, text: object) -> ObsArray:
        key = f"observation {sensor.name!r}"
        if sensor.type is not SensorType.IMAGE:
            return columns.decode(key, text, "<f4", sensor.size).reshape(-1, *sensor.shape)
        channels, height, width = sensor.shape
        rows = columns.decode(key, text, np.uint8, sensor.size).reshape(-1, height, width, channels)
        pixels: NDArray[np.uint8] = np.ascontiguousarray(rows.transpose(0, 3, 1, 2))
        return pixels if self._images == "uint8" else np.divide(pixels, FULL, dtype=np.float32)

    def _take_statistics(self, content: object) -> None:
        try:
            for key, value, method in content:  # type: ignore[attr-defined]
                entry = float(value), StatsAggregationMethod(method)
                check_letters(str(key), f"{self.where}: the name {short(key)} of a statistic")
                self._statistics.setdefault(str(key), []).append(entry)
        except (TypeError, ValueError, OverflowError) as error:
            raise WireError(
                f"{self.where}: statistics are {short(content)}; expected a list of [name, number, 0 to 3]. "
                f"({error})"
            ) from error


class _Columns:
    """The columns of some agents of one behavior."""

    def __init__(self, content: object, label: str) -> None:
        if not isinstance(content, dict):
            raise WireError(f"{label} is {short(content)}, not an object.")
        self._content: dict[str, Any] = content
        self._label = label
        self._count = -1
        self.ids: NDArray[np.int32] = self.decode("ids", content.get("ids"), "<i4", 1)[:, 0]
        self._count = len(self.ids)

    @property
    def group(self) -> NDArray[np.int32]:
        """The agents' group ids [n], 0 for agents without a group."""
        return self.one("group", "<i4", optional=True)

    @property
    def group_reward(self) -> NDArray[np.float32]:
        """The agents' group rewards [n]."""
        return self.one("group_reward", "<f4", optional=True)

    def has(self, key: str) -> bool:
        """Whether there is such a column."""
        return self.get(key) is not None

    def get(self, key: str) -> Any:
        """The message's value of this key; None if it is absent."""
        return self._content.get(key)

    def one(self, key: str, dtype: DTypeLike, *, optional: bool = False) -> NDArray[Any]:
        """The column [n] of this key; zeros if it is `optional` and absent."""
        if optional and not self.has(key):
            return np.zeros(self._count, np.dtype(dtype).newbyteorder("="))
        return self.decode(key, self.get(key), dtype, 1)[:, 0]

    def several(self, key: str, sizes: Sequence[int], dtype: DTypeLike) -> list[NDArray[Any]]:
        """The columns of this key, [n, size] for each of these sizes."""
        texts = self.list(key, len(sizes))
        return [
            self.decode(f"{key} {k}", text, dtype, size) for k, (text, size) in enumerate(zip(texts, sizes))
        ]

    def list(self, key: str, length: int) -> Sequence[Any]:
        """The texts of this key's `length` columns."""
        texts = self.get(key)
        if not isinstance(texts, list) or len(texts) != length:
            number = f"{len(texts)} columns" if isinstance(texts, list) else short(texts)
            raise WireError(f"{self._label}: {key} has {number}; expected {length}.")
        return texts

    def decode(self, key: str, text: object, dtype: DTypeLike, size: int) -> NDArray[Any]:
        """Decode the text of one column to an array [n, size]."""
        try:
            data = b64decode(text, validate=True)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise WireError(f"{self._label}: {key} is {short(text)}, no base64 ({error}).") from error
        kind = np.dtype(dtype)
        rows, rest = divmod(len(data), kind.itemsize * size)
        if rest or self._count not in (-1, rows):
            agents = f"{self._count} agents" if self._count >= 0 else "whole agents"
            error_type = ObservationError if key.startswith("observation") else WireError
            raise error_type(
                f"{self._label}: {key} has {len(data)} bytes; expected {kind.itemsize * size} for each of "
                f"{agents}."
            )
        return np.frombuffer(bytearray(data), kind).reshape(rows, size)  # a copy that may be written to


def read_actions(content: object, spec: BehaviorSpec, label: str) -> ActionTuple:
    """The actions of n agents, as `ColumnMessages.encode_step` writes them.

    Raises:
        WireError: Something is missing, or has another size; names the key.
    """
    columns = _Columns(content, f"{label}, actions")
    width, branches = spec.action_spec.continuous_size, spec.action_spec.discrete_size
    action = spec.action_spec.empty_action(len(columns.ids))
    if width:
        action.add_continuous(columns.decode("continuous", columns.get("continuous"), "<f4", width))
    if branches:
        action.add_discrete(columns.decode("discrete", columns.get("discrete"), "<i4", branches))
    return action


def _encode(column: NDArray[Any], dtype: str) -> str:
    return b64encode(np.ascontiguousarray(column, dtype).tobytes()).decode()


def _message(kind: str, content: Mapping[str, Any], parameters: Mapping[str, float]) -> bytes:
    message = {"type": kind, **content, **({"parameters": dict(parameters)} if parameters else {})}
    return json.dumps(message, separators=(",", ":")).encode()
