"""Which settings have changed since a checkpoint was saved, found before any of its tensors is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ..networks.observations import is_named
from ..settings.base import Settings, found, plain
from ..settings.models.behavior import TrainerSettings
from ..settings.models.networks import NetworkSettings
from ..settings.models.rewards import REWARD_SIGNAL_SETTINGS
from .rules import (
    CRITIC,
    CRITIC_ONLY,
    CUSTOM,
    FUNCTION,
    NETWORK,
    OF_PLUGIN,
    RECIPE,
    SIGNALS,
    STATE,
    TRAINER_TYPE,
    Resumed,
    Rule,
    rule_of,
)

SETTINGS = "settings"
"""The entry of a checkpoint's description with settings by their paths; 0.1.0 has none."""
OBSERVATIONS, ACTIONS = "observations", "actions"
"""The paths of what agents observe and do, which are no settings."""
AS_POLICY, OF_ITS_OWN = "like the policy", "described"
"""What is recorded of a section `critic`, beside its keys."""
_STORED = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class Change:
    """A setting, or what agents observe or do, that is another one than the checkpoint was saved with."""

    path: str
    was: Any
    now: Any
    rule: Rule

    def __str__(self) -> str:
        if self.path == OBSERVATIONS:
            return f"the agents observed {self.was}, now {self.now}"
        if self.path == ACTIONS:
            return f"their actions (continuous + branches) were {self.was}, are {self.now}"
        return f"{self.path} was {found(self.was)}, is {found(self.now)}"


# What is recorded ---------------------------------------------------------------------------------------


def recorded_settings(settings: TrainerSettings) -> dict[str, Any]:
    """The settings on which a checkpoint of a behavior may depend, by their paths, as plain values."""
    values = {path: value for path, value in _leaves(settings) if rule_of(path).recorded}
    if not settings.hyperparameters.learns_sequences:
        values = {path: value for path, value in values.items() if not path.endswith(".sequence_length")}
    return {**values, SIGNALS: list(settings.reward_signals)}


def recorded_in(run: Mapping[str | None, Any], behavior: str, settings: TrainerSettings) -> dict[str, Any]:
    """Like `recorded_settings`, but from the configuration.yaml of a run; {} if that does not tell.

    Args:
        run: what `recorded_behaviors` found there.
        behavior: the behavior's name.
        settings: its current ones; of those of another trainer only its name is read.
    """
    written = run.get(behavior) or run.get(None)
    if not isinstance(written, dict):
        return {}
    trainer = written.get(TRAINER_TYPE, settings.trainer_type)
    if trainer != settings.trainer_type:
        return {TRAINER_TYPE: trainer}
    signals = written.get(SIGNALS)
    if isinstance(signals, dict) and set(signals) - {*REWARD_SIGNAL_SETTINGS, *settings.reward_signals}:
        return {}  # reading them would import plug-ins that only that file names
    try:
        return {TRAINER_TYPE: trainer, **recorded_settings(TrainerSettings.model_validate(written))}
    except ValidationError:  # the shapes of tensors have to tell
        return {}


def _leaves(node: Settings | Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """The paths of all settings below a node, with their values."""
    for key, value in dict(node).items():  # the keys and values of settings too
        path = f"{place}{key}"
        if path == CRITIC:  # one that is not described is like the policy, and may be one network with it
            yield path, AS_POLICY if value is None else OF_ITS_OWN
            yield from _leaves(node if value is None else value, f"{path}.")
        elif key == NETWORK and place == f"{SIGNALS}.extrinsic.":
            continue  # the one signal that has no network
        elif isinstance(value, Settings) or path == SIGNALS:
            yield from _leaves(value, f"{path}.")
        else:
            yield path, _storable(value) if rule_of(path) is OF_PLUGIN else plain(value)


def _storable(value: Any) -> Any:
    """The value of a plug-in's setting, as text unless every checkpoint can hold it."""
    value = plain(value)
    return value if type(value) in _STORED else repr(value)


# What has changed ---------------------------------------------------------------------------------------


def changed_settings(
    saved: Any, current: Mapping[str, Any], written: Mapping[str, Any] | None = None
) -> list[Change]:
    """What has changed since a checkpoint was saved, as far as it is recorded.

    Args:
        saved: the checkpoint's description (`describe_behavior`); None if it has none.
        current: the description of the behavior as it is set up now.
        written: what `recorded_in` knows of an earlier release's checkpoint.
    """
    saved = saved if isinstance(saved, Mapping) else {}
    before, now = {**(written or {}), **_recorded(saved)}, _recorded(current)
    changes = [
        Change(path, was, value, FUNCTION if path in (OBSERVATIONS, ACTIONS) else rule_of(path))
        for path, was, value in _pairs(before, now)
        if _compared(path, was, saved) != _compared(path, value, current)
    ]
    return [change for change in changes if not _is_of_policy(change, changes)]


def _recorded(described: Mapping[str, Any]) -> dict[str, Any]:
    """All that a description records, by its path; of releases without `SETTINGS`, the network's settings."""
    recorded = {key: described[key] for key in (TRAINER_TYPE, SIGNALS) if described.get(key) is not None}
    if OBSERVATIONS in described:
        recorded[OBSERVATIONS] = ", ".join(f"{one['name']} {one['shape']}" for one in described[OBSERVATIONS])
        recorded[ACTIONS] = f"{described['continuous_size']} + {described['discrete_branches']}"
    return {**_of_network(described.get("network")), **recorded, **(described.get(SETTINGS) or {})}


def _of_network(network: Any) -> dict[str, Any]:
    try:
        settings = NetworkSettings.model_validate(network)
    except ValidationError:  # loading the weights tells it
        return {}
    return {path: value for path, value in _leaves({NETWORK: settings}) if rule_of(path).recorded}


def _pairs(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """The paths recorded on both sides, with both values; of a section that one lacks, None there."""
    for path in {**before, **now}:
        if path in before and path in now:
            yield path, before[path], now[path]
        elif before.get(path, now.get(path)) is None:
            was, is_now = (side.get(path, _section(side, path)) for side in (before, now))
            if was or is_now:
                yield path, was, is_now


def _section(values: Mapping[str, Any], path: str) -> dict[str, Any]:
    place = f"{path}."
    return {key.removeprefix(place): value for key, value in values.items() if key.startswith(place)}


def _compared(path: str, value: Any, described: Mapping[str, Any]) -> Any:
    """What is compared of a value: of sensors their places and shapes, since they may be renamed."""
    sensors = described.get(OBSERVATIONS, ())
    names = [str(sensor["name"]) for sensor in sensors]
    if path == OBSERVATIONS:
        return [list(sensor["shape"]) for sensor in sensors]
    if path.endswith(f".{CRITIC_ONLY}") and isinstance(value, list):
        return [i for i, name in enumerate(names) if any(is_named(name, str(one)) for one in value)]
    if path == STATE and value in names:
        return names.index(value)
    return value


def _is_of_policy(change: Change, changes: Sequence[Change]) -> bool:
    """Whether a critic's setting has changed just as the policy's, whose network it then shares."""
    policy = change.path.replace(f"{CRITIC}.", f"{NETWORK}.")
    return policy != change.path and any(
        (one.path, one.was, one.now) == (policy, change.was, change.now) for one in changes
    )


# What it means ------------------------------------------------------------------------------------------


def refused(changes: Sequence[Change], unfit: Sequence[str]) -> list[Change]:
    """The changes for which a run is not resumed; `unfit`: the parts whose saved weights do not fit."""
    for cause in (TRAINER_TYPE, RECIPE):  # other changes, which nobody has written, follow from these
        if alone := [change for change in changes if change.path == cause]:
            return alone
    return [
        change
        for change in changes
        if change.rule.resumed is Resumed.REFUSED
        or (unfit and (change.rule.resumed is Resumed.SHAPED or change.rule is CUSTOM))
    ]


def lost_at_start(
    changes: Sequence[Change], unfit: Sequence[str], saved: Any, current: Mapping[str, Any]
) -> list[Change]:
    """The changes with which transferred weights mean something else, though no tensor's shape shows them.

    Arguments are as for `changed_settings`; `unfit`: the parts whose saved weights do not fit.
    """
    warned = [change for change in changes if change.rule.warned_at_start]
    meant = [change for change in warned if change.rule.resumed is not Resumed.UNUSED]
    return [change for change in meant if _shows_nowhere_else(change, unfit, saved, current)]


def _shows_nowhere_else(
    change: Change, unfit: Sequence[str], saved: Mapping[str, Any], current: Mapping[str, Any]
) -> bool:
    """Whether no tensor's shape shows a change, as numbers of signals and of sensors do.

    Trainers have critics of their own, and policies alike, except that DQN's gives values.
    """
    if change.path == TRAINER_TYPE:
        before, now = (described.get("head") or {} for described in (saved, current))
        return bool(now.get("values")) and not before.get("values")
    if change.path in (OBSERVATIONS, ACTIONS):
        return not unfit
    if isinstance(change.was, list) and isinstance(change.now, list):
        return len(change.was) == len(change.now)
    return change.path != STATE or None not in (change.was, change.now)
