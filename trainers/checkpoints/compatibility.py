"""What becomes of a checkpoint whose settings have changed although all of its tensors still fit: one table.

A setting whose change adds tensors, or alters their shapes, needs no entry: loading them tells it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from pydantic import ValidationError

from ..networks.observations import is_named
from ..settings.base import found, plain
from ..settings.models.behavior import TrainerSettings
from ..settings.models.networks import NetworkSettings

SETTINGS = "settings"
"""The entry of a checkpoint's description with the table's settings by their paths; 0.1.0 has none."""
TRAINER_TYPE = "trainer_type"
"""The entry with the trainer that made the weights; 0.1.0 has none."""
SIGNALS = "reward_signals"
"""The entry with the names of the reward signals, in their order."""
SEQUENCE_LENGTH = "network_settings.memory.sequence_length"
OBSERVATIONS = "critic_only_observations"
STATE = "hyperparameters.state_observation"


class Resumed(Enum):
    """What --resume does where a setting is another one than the checkpoint was saved with."""

    REFUSED = auto()
    """The run does not start: the weights would compute something else."""
    WARNED = auto()
    """The run goes on, with a warning."""
    ROLLOUT_DROPPED = auto()
    """The run goes on without the steps that waited for the next update, which were computed otherwise."""
    STEPS_DROPPED = auto()
    """The run goes on without these steps, and without a saved replay."""
    ALLOWED = auto()
    """The run goes on: the checkpoint does not depend on the setting."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of a checkpoint where one setting has changed."""

    resumed: Resumed
    warned_at_start: bool = False
    """Whether a run that only starts from the weights (--initialize-from, init_path) warns of the change."""
    why: str = ""
    """The reason that the warning of `Resumed.WARNED` gives."""


REFUSED = Rule(Resumed.REFUSED, warned_at_start=True)
_CUSTOM = Rule(Resumed.WARNED, True, "the saved weights are read by it as they are")
_UNITS = Rule(Resumed.WARNED, True, "the values learned so far are in other units, until they have adapted")
_ACTIONS = Rule(Resumed.WARNED, True, "its discriminator has compared other actions so far")
NETWORKS = ("network_settings", "network_settings.critic", f"{SIGNALS}.*.network_settings")
"""The paths at which networks are described; a critic that is not described is like the policy."""
OF_NETWORKS = {
    "activation": REFUSED,
    "layer_norm": REFUSED,
    OBSERVATIONS: REFUSED,
    "encoders": _CUSTOM,
    "body": _CUSTOM,
    "initialization": Rule(Resumed.ALLOWED),
    "deterministic": Rule(Resumed.ALLOWED),
}
TABLE: dict[str, Rule] = {
    TRAINER_TYPE: REFUSED,
    SIGNALS: REFUSED,
    **{f"{network}.{key}": rule for network in NETWORKS for key, rule in OF_NETWORKS.items()},
    SEQUENCE_LENGTH: Rule(Resumed.ROLLOUT_DROPPED),
    f"{SIGNALS}.*.gamma": Rule(Resumed.ROLLOUT_DROPPED),
    f"{SIGNALS}.*.strength": Rule(Resumed.STEPS_DROPPED),
    f"{SIGNALS}.*.engine_actions": _ACTIONS,
    "hyperparameters.lambd": Rule(Resumed.ROLLOUT_DROPPED),
    "hyperparameters.reward": Rule(Resumed.ROLLOUT_DROPPED),
    "hyperparameters.normalize_rewards": _UNITS,
    STATE: REFUSED,
}
"""The rules by the settings' paths within a behavior; `*` is any name."""


@dataclass(frozen=True, slots=True)
class Change:
    """A setting of the table that is another one than the checkpoint was saved with."""

    path: str
    was: Any
    now: Any
    rule: Rule

    def __str__(self) -> str:
        return f"{self.path} was {found(self.was)}, is {found(self.now)}"


def recorded_settings(settings: TrainerSettings) -> dict[str, Any]:
    """The table's settings of a behavior by their paths, as plain values for a checkpoint's description."""
    values = {path: value for key in TABLE for path, value in _values(settings, key.split("."))}
    if not settings.hyperparameters.learns_sequences:
        values.pop(SEQUENCE_LENGTH, None)
    return {**values, SIGNALS: list(settings.reward_signals)}


def _values(node: Any, keys: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The paths below a node that a key of the table stands for, with their values."""
    if not keys:
        yield "", plain(node)
        return
    children = dict(node)  # of settings too: their keys and values
    for name in list(children) if keys[0] == "*" else [key for key in keys[:1] if key in children]:
        if name == "extrinsic" and keys[1:2] == ["network_settings"]:
            continue  # the one signal that has no network
        child = children[name]
        if child is None and len(keys) > 1:
            if name != "critic":
                continue
            child = node  # it is like the policy
        for path, value in _values(child, keys[1:]):
            yield f"{name}.{path}".rstrip("."), value


def changed_settings(saved: Any, current: Mapping[str, Any]) -> list[Change]:
    """The settings of the table that have changed, as far as the checkpoint records them.

    Args:
        saved: the checkpoint's description (`describe_behavior`); None if it has none.
        current: the description of the behavior as it is set up now.
    """
    if not isinstance(saved, Mapping):
        return []
    before, now = _recorded(saved), _recorded(current)
    sensors = [_sensors(described) for described in (saved, current)]
    changes = [
        Change(path, before[path], value, rule)
        for path, value in now.items()
        if path in before
        and (rule := _rule(path)) is not None
        and _compared(path, before[path], sensors[0]) != _compared(path, value, sensors[1])
    ]
    return [change for change in changes if not _is_of_policy(change, changes)]


def _recorded(described: Mapping[str, Any]) -> dict[str, Any]:
    """The table's settings that a description holds; of one that lacks `SETTINGS`, those of its network."""
    values = described.get(SETTINGS)
    if not isinstance(values, Mapping):
        values = _of_network(described.get("network"))
    named = {key: described[key] for key in (TRAINER_TYPE, SIGNALS) if described.get(key) is not None}
    return {**named, **values}


def _of_network(network: Any) -> dict[str, Any]:
    try:
        settings = NetworkSettings.model_validate(network)
    except ValidationError:  # loading the weights tells it
        return {}
    of_policy = [key for key in TABLE if key.startswith("network_settings.")]
    tree = {"network_settings": settings}
    return {path: value for key in of_policy for path, value in _values(tree, key.split("."))}


def _sensors(described: Mapping[str, Any]) -> list[str]:
    return [str(sensor["name"]) for sensor in described.get("observations") or ()]


def _rule(path: str) -> Rule | None:
    """The table's rule of a setting; None if it has none, as one that another release has recorded."""
    if path in TABLE or not path.startswith(f"{SIGNALS}."):
        return TABLE.get(path)
    name, _, key = path.removeprefix(f"{SIGNALS}.").partition(".")
    return TABLE.get(f"{SIGNALS}.*.{key}") if name else None


def _compared(path: str, value: Any, sensors: Sequence[str]) -> Any:
    """What is compared of a setting: of sensors' names their places, since sensors may be renamed."""
    if path.endswith(f".{OBSERVATIONS}") and isinstance(value, list):
        return [i for i, name in enumerate(sensors) if any(is_named(name, str(one)) for one in value)]
    if path == STATE and value in sensors:
        return sensors.index(value)
    return value


def _is_of_policy(change: Change, changes: Sequence[Change]) -> bool:
    """Whether a critic's setting has changed just as the policy's, whose network it then shares."""
    policy = change.path.replace("network_settings.critic.", "network_settings.")
    return policy != change.path and any(
        (one.path, one.was, one.now) == (policy, change.was, change.now) for one in changes
    )


def refusals(saved: Any, current: Mapping[str, Any]) -> list[str]:
    """The changed settings for which a run is not resumed; arguments as for `changed_settings`."""
    changes = changed_settings(saved, current)
    return [str(change) for change in changes if change.rule.resumed is Resumed.REFUSED]


def lost_at_start(saved: Any, current: Mapping[str, Any]) -> list[str]:
    """The changed settings with which transferred weights mean something else; see `changed_settings`."""
    changes = [change for change in changed_settings(saved, current) if change.rule.warned_at_start]
    return [str(change) for change in changes if _shows_nowhere_else(change, saved, current)]


def _shows_nowhere_else(change: Change, saved: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Whether no tensor's shape shows a change, as numbers of signals and of sensors do.

    Trainers have critics of their own, and policies alike, except that DQN's gives values.
    """
    if change.path == TRAINER_TYPE:
        before, now = (described.get("head") or {} for described in (saved, current))
        return bool(now.get("values")) and not before.get("values")
    if isinstance(change.was, list) and isinstance(change.now, list):
        return len(change.was) == len(change.now)
    return change.path != STATE or None not in (change.was, change.now)
