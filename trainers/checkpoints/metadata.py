"""The description of its network that a checkpoint holds, from which the network can be rebuilt."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
)
from pydantic import ValidationError

from ...envs.named_actions import NamedAction, NamedActionSpec, named_action_spec
from ...envs.protocol.specs import MOST_ACTIONS
from ..networks.actor import Actor
from ..networks.actor_critic import ActorCritic
from ..networks.modules.heads import HeadConfig
from ..networks.multi_actor import MultiActor, Network
from ..settings.base import found
from ..settings.models.behavior import TrainerSettings
from ..settings.models.networks import NetworkSettings
from ..settings.named import named_networks
from ..settings.problems import config_error
from ..settings.yaml_source import Source
from ..utils.errors import TrainerError
from ..utils.trust import Trust
from ..utils.trusted_names import Named
from .compatibility import SETTINGS, TABLE, TRAINER_TYPE, Resumed, lost_at_start, recorded_settings, refusals
from .file import MISFITS, CheckpointError

logger = logging.getLogger(__name__)

KEY = "brain"
"""The entry of a checkpoint's state that `describe_network` fills."""
LATER = ("residual", "critic_only_observations")
"""Keys of `NetworkSettings` that release 0.1.0 does not know: it refuses descriptions that have them."""


def describe_behavior(
    behavior: str, spec: BehaviorSpec, settings: TrainerSettings, network: Any
) -> dict[str, Any]:
    """Plain values for a checkpoint, from which `build_network` makes the same network, and what trained it.

    That is the trainer, and the settings without which the weights mean something else (`compatibility.py`).
    """
    described = describe_network(
        behavior,
        spec,
        settings.network_settings,
        list(settings.reward_signals),
        *(getattr(network, key, None) for key in ("shared_critic", "arguments", "head")),
    )
    return {TRAINER_TYPE: settings.trainer_type, **described, SETTINGS: recorded_settings(settings)}


def describe_network(
    behavior: str,
    spec: BehaviorSpec,
    network: NetworkSettings,
    reward_signals: list[str],
    shared_critic: bool | None,
    actors: Mapping[str, Any] | None = None,
    head: HeadConfig | None = None,
) -> dict[str, Any]:
    """Plain values for a checkpoint, from which `build_network` makes the same network.

    `shared_critic` is None if the network is only an actor; `actors` are the arguments of `MultiActor`,
    where actors differ from slot to slot; `head` is that of an actor alone.
    """
    return {
        "behavior": behavior,
        **describe_spec(spec),
        "network": _describe_settings(network),
        "reward_signals": [str(name) for name in reward_signals],
        "shared_critic": shared_critic,
        "actors": None if actors is None else dict(actors),
        "head": None if head is None else asdict(head),
    }


def _describe_settings(network: NetworkSettings) -> dict[str, Any]:
    """Plain values; a key of `LATER` only where a network uses it."""
    written = network.model_dump(mode="json")
    networks = [one for one in (written, written["critic"]) if one is not None]
    for key in LATER:
        # Used by one of the two, it stays in both: a critic without it would take over the policy's.
        if not any(one[key] for one in networks):
            for one in networks:
                del one[key]
    return written


def describe_spec(spec: BehaviorSpec) -> dict[str, Any]:
    """Plain values, from which `build_spec` makes the same spec."""
    named = spec.action_spec.actions if isinstance(spec.action_spec, NamedActionSpec) else ()
    return {
        "observations": [
            {
                "name": str(sensor.name),
                "shape": [int(size) for size in sensor.shape],
                "dimensions": [int(dimension.value) for dimension in sensor.dimension_property],
                "type": int(sensor.observation_type.value),
            }
            for sensor in spec.observation_specs
        ],
        "continuous_size": int(spec.action_spec.continuous_size),
        "discrete_branches": [int(size) for size in spec.action_spec.discrete_branches],
        **({"actions": [asdict(action) for action in named]} if named else {}),
    }


def changes(saved: Any, current: Mapping[str, Any]) -> list[str]:
    """What of a checkpoint's description is different now: `network_settings.hidden_units was 128, is 64`.

    Args:
        saved: the description that the checkpoint has; None if it has none.
        current: that of the behavior as it is set up now.
    """
    if not isinstance(saved, Mapping):
        return []
    trainer = saved.get(TRAINER_TYPE)
    if trainer is not None and trainer != current[TRAINER_TYPE]:
        return [f"it was trained by {trainer}, the file says {current[TRAINER_TYPE]}"]
    networks = [{"network_settings": each.get("network")} for each in (saved, current)]
    found_changes = refusals(saved, current)
    of_critic = any(one.startswith("network_settings.critic.") for one in found_changes)
    found_changes += [
        one
        for one in differences(networks[0], networks[1])
        if not (_is_without_shape(one) or (of_critic and one.startswith("network_settings.critic ")))
    ]
    if saved.get("shared_critic") != current["shared_critic"] and trainer is not None:
        was, now = found(saved.get("shared_critic")), found(current["shared_critic"])
        found_changes.append(f"hyperparameters.shared_critic was {was}, is {now}")
    sensors = [_sensors(each) for each in (saved, current)]
    if sensors[0] != sensors[1]:
        found_changes.append(f"the agents observed {sensors[0]}, now {sensors[1]}")
    actions = [
        f"{each.get('continuous_size')} + {each.get('discrete_branches')}" for each in (saved, current)
    ]
    if actions[0] != actions[1]:
        found_changes.append(f"their actions (continuous + branches) were {actions[0]}, are {actions[1]}")
    return found_changes


def _is_without_shape(change: str) -> bool:
    """Whether a change of the network cannot be why a checkpoint does not fit; see `refusals` of others."""
    rule = TABLE.get(change.partition(" ")[0])
    return rule is not None and rule.resumed is not Resumed.WARNED


def _sensors(described: Mapping[str, Any]) -> str:
    return ", ".join(f"{each['name']} {each['shape']}" for each in described.get("observations", ()))


def differences(saved: Any, current: Any, path: str = "") -> list[str]:
    """What differs between two trees of settings: `hidden_units was 128, is 64`; [] if there is only one."""
    if isinstance(saved, Mapping) and isinstance(current, Mapping):
        keys = dict.fromkeys([*saved, *current])
        below = ((f"{path}.{key}" if path else str(key), key) for key in keys)
        return [one for name, key in below for one in differences(saved.get(key), current.get(key), name)]
    same = saved == current or not (path and (saved or current))  # a key that is off may be missing
    return [] if same else [f"{path} was {found(saved)}, is {found(current)}"]


def build_network(
    state: Mapping[str, Any], trust: Trust | None = None, source: Path | None = None
) -> tuple[str, Network]:
    """The behavior's name and its network with the checkpoint's weights.

    Args:
        state: as the checkpoint holds it.
        trust: tells whether classes that it names may be imported; without it none may.
        source: its file.

    Raises:
        CheckpointError: the state has no description (ML-Agents' checkpoints have none), no network can be
            as it says, its weights do not fit it, or it names classes that are not trusted.
    """
    if KEY not in state:
        raise CheckpointError(
            "it has no description of its network, so it is not one of Lanista's "
            f"(found {', '.join(sorted(map(str, state)))}; expected {KEY!r} and 'Policy')"
        )
    try:
        described = state[KEY]
        spec, settings = build_spec(described), NetworkSettings.model_validate(described["network"])
        refusal = (trust or Trust()).refusal(Named(imports=named_networks(settings)), source)
        if refusal:
            raise CheckpointError(refusal)
        network: Network
        if described.get("actors") is not None:
            actors = dict(described["actors"])
            network = MultiActor(spec, settings, actors.pop("places"), **actors)
        elif described["shared_critic"] is None:
            network = Actor(spec, settings, head=HeadConfig(**(described.get("head") or {})))
        else:
            network = ActorCritic(spec, settings, described["reward_signals"], described["shared_critic"])
        network.load_state_dict(state["Policy"])
        behavior = str(described["behavior"])
    except CheckpointError:
        raise
    except TrainerError as error:  # of the user's classes
        raise CheckpointError(str(error)) from error
    except ValidationError as error:
        problems = "; ".join(map(str, config_error(error, Source()).problems))
        raise CheckpointError(f"its description has settings that no network can have: {problems}") from error
    except (MemoryError, *MISFITS) as error:
        if isinstance(error, MemoryError) or "allocate" in str(error):  # torch has no type for it
            raise CheckpointError("its description is of a network that does not fit into memory") from error
        raise CheckpointError(f"its weights do not fit its description: {error}") from error
    return behavior, network


def build_spec(described: Mapping[str, Any]) -> BehaviorSpec:
    """The spec that `describe_spec` described."""
    observations = [
        ObservationSpec(
            tuple(sensor["shape"]),
            tuple(DimensionProperty(value) for value in sensor["dimensions"]),
            ObservationType(sensor["type"]),
            sensor["name"],
        )
        for sensor in described["observations"]
    ]
    if "actions" in described:
        named = [NamedAction(**action) for action in described["actions"]]
        actions = named_action_spec(named)
    else:
        actions = ActionSpec(described["continuous_size"], tuple(described["discrete_branches"]))
    if actions.continuous_size + sum(actions.discrete_branches) > MOST_ACTIONS:
        raise ValueError(f"its actions have more than {MOST_ACTIONS:,} numbers and choices")
    return BehaviorSpec(observations, actions)


def step_of(state: Mapping[str, Any]) -> int:
    """The trainer's step counter when the checkpoint was saved; 0 if it is not recorded."""
    step = state.get("step", 0)
    return step if isinstance(step, int) else 0


def warn_at_start(name: str, path: Path, state: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Warn of weights that fit a new run which starts from them, and mean something else with its settings.

    Args:
        name: of the behavior.
        path: of the checkpoint.
        state: what it holds.
        current: the description of the behavior.
    """
    from .mlagents.weights import is_mlagents

    # The networks of ML-Agents are those of the defaults of Lanista's own keys.
    changed = lost_at_start({"network": {}} if is_mlagents(state) else state.get(KEY), current)
    if changed:
        logger.warning(
            "%s: the weights of %s fit, but were learned with other settings, and mean something else with "
            "these: %s. Set that back to start with what was learned.",
            name,
            path,
            ", ".join(changed),
        )
