"""What a human has played in a Godot game, as demonstrations: the files of both plugins.

Lanista's addon writes a line of JSON for each episode, with the columns of its messages (`columns.py`).
godot_rl_agents writes one list when the game ends: of trajectories `[observations, actions]`, with one
observation more than actions, and without a word about what they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mlagents_envs.base_env import ActionTuple, BehaviorSpec, DecisionSteps, TerminalSteps
from numpy.typing import NDArray

from ..errors import DemonstrationError, ObservationError, WireError
from ..named_actions import NamedAction
from ..utils.regular_files import read_bytes
from .columns import ColumnMessages, read_actions
from .spaces import GodotBehavior, Sensor, SensorType, short

OBSERVATION = "obs"
"""The name of the only observation that godot_rl_agents records."""


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """An agent's n decisions, and its terminal step."""

    behavior: str
    """The behavior's full name."""
    decisions: DecisionSteps
    """The decision steps [n], all under one id."""
    actions: ActionTuple
    """The actions [n]."""
    terminals: TerminalSteps
    """The terminal step [1]."""


@dataclass(slots=True)
class Recording:
    """The episodes of a file, at least one, and what was left out of them."""

    specs: dict[str, BehaviorSpec] = field(default_factory=dict)
    """The behaviors' specifications, by full name."""
    episodes: list[RecordedEpisode] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_recording(
    path: Path, behavior: str, actions: Sequence[NamedAction], partial: bool = False
) -> Recording:
    """Read a file of either plugin.

    Episodes that the player has taken back are left out; so is, with a note, one that ended before its first
    action. What godot_rl_agents has recorded is without rewards: they are zeros.

    Args:
        path: The file.
        behavior: The behavior's name, for a file by godot_rl_agents, which does not say it.
        actions: What the values of its actions are, in their order.
        partial: Take the whole episodes of a truncated file, such as a killed game leaves, with a note.

    Raises:
        DemonstrationError: It cannot be read, is truncated, is another file, or something in it is missing or
            not what was announced; names the line, or episode and step.
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise DemonstrationError(path, f"it cannot be read: {error.strerror or error}.") from error
    recording = Recording()
    try:
        if data.lstrip().startswith(b"{"):
            _read_lines(recording, data, partial)
        else:
            _read_trajectories(recording, data, behavior, actions)
    except (WireError, ObservationError) as error:
        raise DemonstrationError(path, str(error)) from error
    if not recording.episodes:
        raise DemonstrationError(path, "it has no finished episode.")
    return recording


def _read_lines(recording: Recording, data: bytes, partial: bool) -> None:
    *lines, rest = data.split(b"\n")
    if rest.strip() and not partial:
        raise WireError(
            f"line {len(lines) + 1} is cut: the file ends within it. The episodes before it are used where "
            "you ask for it: --partial."
        )
    if rest.strip():
        recording.notes.append(f"line {len(lines) + 1} is cut, so an episode is missing.")
    messages: ColumnMessages | None = None
    for number, line in enumerate(lines, 1):
        where = f"line {number}"
        entry = _json(line, where)
        kind = entry.get("type") if isinstance(entry, dict) else entry
        if messages is None and kind == "demonstrations":
            messages = ColumnMessages({"behaviors": {}, **entry}, where, "uint8")
            recording.specs = messages.specs
        elif messages is not None and kind == "episode":
            messages.where = where
            recording.episodes.append(_episode(messages, entry))
        elif kind == "remove_last" and recording.episodes:
            recording.episodes.pop()
        else:
            expected = "demonstrations" if messages is None else "episode"
            raise WireError(f"{where}: its type is {short(kind)}; expected {expected!r}.")


def _episode(messages: ColumnMessages, entry: dict[str, Any]) -> RecordedEpisode:
    found = messages.read({**entry, "type": "step"})
    if len(found) != 1:
        raise WireError(f"{messages.where}: it has {len(found)} behaviors; expected one.")
    [(name, (decisions, terminals))] = found.items()
    spec, label = messages.specs[name], f"{messages.where}: behavior {name!r}"
    content = entry.get("actions")
    actions = read_actions(content.get(name) if isinstance(content, dict) else None, spec, label)
    counts = (len(decisions), len(actions.continuous), len(terminals))
    if counts[0] < 1 or counts != (counts[0], counts[0], 1):
        raise WireError(
            f"{label}: it has {counts[0]} observations, {counts[1]} actions and {counts[2]} ends; expected "
            "as many actions as observations, and one end."
        )
    agents = {*decisions.agent_id.tolist(), *terminals.agent_id.tolist()}
    if len(agents) > 1:
        raise WireError(f"{label}: it has the ids {short(sorted(agents))}; expected one id.")
    for steps in (decisions, terminals):
        for one, column in zip(spec.observation_specs, steps.obs):
            _check_finite(column, f"{label}: observation {one.name!r}")
        _check_finite(steps.reward, f"{label}: reward")
        _check_finite(steps.group_reward, f"{label}: group_reward")
    _check_finite(actions.continuous, f"{label}: action")
    for branch, size in enumerate(spec.action_spec.discrete_branches):
        _check_choices(actions.discrete[:, branch], size, f"{label}: branch {branch} of action")
    return RecordedEpisode(name, decisions, actions, terminals)


def _read_trajectories(
    recording: Recording, data: bytes, behavior: str, actions: Sequence[NamedAction]
) -> None:
    trajectories = _json(data, "it")
    if not isinstance(trajectories, list):
        raise WireError(f"it is {short(trajectories)}; expected a list of trajectories.")
    if not actions:
        raise WireError(
            "godot_rl_agents has written it, which does not say what its actions are: name them in the order "
            "of get_action(), as in --actions move:continuous:2 jump:discrete:2."
        )
    name = behavior if "?" in behavior else f"{behavior}?team=0"
    size = 0
    for number, trajectory in enumerate(trajectories):
        where = f"episode {number}"
        obs, taken = _trajectory(trajectory, where)
        if not taken:
            recording.notes.append(f"{where} ended before its first action: it is left out.")
            continue
        size = size or max(1, np.size(_row(obs[0], f"{where}, observation 0")))
        column = _numbers(obs, size, f"{where}, observation")
        width = sum(1 if one.discrete else one.size for one in actions)
        action = _typed(_numbers(taken, width, f"{where}, action"), actions, where)
        recording.episodes.append(_without_rewards(name, column, action, number))
    if size:
        sensor = Sensor(OBSERVATION, SensorType.NUMBERS, (size,))
        recording.specs[name] = GodotBehavior(name, (sensor,), tuple(actions)).spec


def _trajectory(trajectory: object, where: str) -> tuple[list[Any], list[Any]]:
    match trajectory:
        case [list() as obs, list() as actions] if len(obs) == len(actions) + 1:
            return obs, actions
        case [list() as obs, list() as actions]:
            raise WireError(
                f"{where} has {len(obs)} observations and {len(actions)} actions; expected one observation "
                "more, that of its end."
            )
    raise WireError(f"{where} is {short(trajectory)}; expected [observations, actions].")


def _without_rewards(
    name: str, obs: NDArray[np.float32], actions: ActionTuple, number: int
) -> RecordedEpisode:
    ids, zeros = np.full(len(obs), number, np.int32), np.zeros(len(obs), np.float32)
    groups, not_cut = np.zeros(len(obs), np.int32), np.zeros(1, np.bool_)
    return RecordedEpisode(
        name,
        DecisionSteps([obs[:-1]], zeros[:-1], ids[:-1], None, groups[:-1], zeros[:-1]),
        actions,
        TerminalSteps([obs[-1:]], zeros[-1:], not_cut, ids[-1:], groups[-1:], zeros[-1:]),
    )


def _json(data: bytes, where: str) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:
        raise WireError(f"{where} is nested too deeply to be a demonstration.") from error
    except ValueError as error:
        raise WireError(f"{where} is no JSON ({error}). Was it cut?") from error


def _numbers(rows: list[Any], size: int, where: str) -> NDArray[np.float32]:
    """Convert lists of numbers, nested or not, to [n, size]. Raises WireError at the first other row."""
    values = [_row(row, f"{where} {number}") for number, row in enumerate(rows)]
    for number, row in enumerate(values):
        if row.size != size:
            raise WireError(f"{where} {number} has {row.size} numbers; expected {size}.")
    column = np.stack(values)
    _check_finite(column, where)
    return column


def _row(value: object, where: str) -> NDArray[np.float32]:
    try:
        row = np.array(value).ravel() if isinstance(value, list) else np.array(None)
    except (ValueError, OverflowError):  # lists of different lengths in it, or nested too deeply
        row = np.array(None)
    if row.dtype.kind not in "biuf":
        raise WireError(f"{where} is {short(value)}; expected a list of numbers.")
    with np.errstate(over="ignore"):
        return row.astype(np.float32)


def _check_finite(column: NDArray[Any], where: str) -> None:
    wrong = ~np.isfinite(column.reshape(len(column), -1)).all(axis=1)
    if wrong.any():
        raise WireError(f"{where} {int(np.flatnonzero(wrong)[0])} has a number that is not finite.")


def _check_choices(column: NDArray[Any], size: int, where: str) -> None:
    wrong = np.flatnonzero((column < 0) | (column >= size) | (column % 1 != 0))
    if len(wrong):
        raise WireError(
            f"{where} {wrong[0]} is {column[wrong[0]]:g}; expected a whole number from 0 to {size - 1}."
        )


def _typed(values: NDArray[np.float32], actions: Sequence[NamedAction], where: str) -> ActionTuple:
    """The continuous and discrete actions of rows in which all actions stand side by side."""
    continuous, discrete = [values[:, :0]], [values[:, :0]]
    at = 0
    for one in actions:
        column = values[:, at : at + (1 if one.discrete else one.size)]
        at += column.shape[1]
        if not one.discrete:
            continuous.append(column)
            continue
        if one.size == 2 and not all(other.discrete for other in actions):
            # godot-rl makes such a choice beside continuous actions a number in [-1, 1].
            column = (column > 0).astype(np.float32)
        _check_choices(column[:, 0], one.size, f"{where}, {one.name!r} of action")
        discrete.append(column)
    return ActionTuple(np.hstack(continuous), np.hstack(discrete).astype(np.int32))
