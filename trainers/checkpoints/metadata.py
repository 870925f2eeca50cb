"""The description of its network that a checkpoint holds, from which the network can be rebuilt."""

from __future__ import annotations

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
from ...envs.utils.sizes import too_many_actions, too_many_sensors
from ..networks.actor import Actor
from ..networks.actor_critic import ActorCritic
from ..networks.modules.heads import HeadConfig
from ..networks.multi_actor import MultiActor, Network
from ..settings.models.behavior import TrainerSettings
from ..settings.models.networks import NetworkSettings, without_implied_layers
from ..settings.named import named_networks
from ..settings.problems import config_error
from ..settings.yaml_source import Source
from ..utils.errors import TrainerError, is_out_of_memory
from ..utils.trust import Trust
from ..utils.trusted_names import Named
from .compatibility import SETTINGS, recorded_settings
from .file import MISFITS, CheckpointError
from .rules import TRAINER_TYPE
from .transfer import unfit

KEY = "brain"
"""The entry of a checkpoint's state that `describe_network` fills."""
LATER = (
    *("residual", "critic_only_observations", "initial_log_std", "action_range"),
    "state_dependent_exploration",
)
"""Keys of `NetworkSettings` that release 0.1.0 does not know: it refuses descriptions that have them."""


def describe_behavior(
    behavior: str, spec: BehaviorSpec, settings: TrainerSettings, network: Any
) -> dict[str, Any]:
    """Plain values for a checkpoint, from which `build_network` makes the same network, and what trained it.

    That is the trainer, and the settings on which the checkpoint depends (`rules.py`).
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
    networks = [without_implied_layers(one) for one in (written, written["critic"]) if one is not None]
    for key in LATER:
        # Used by one of the two, it stays in both: a critic without it would take over the policy's.
        default = NetworkSettings.model_fields[key].default
        if all(one[key] == default for one in networks):
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
        if parts := unfit({"Policy": network}, state):
            raise CheckpointError(f"its weights do not fit its description: {'; '.join(parts[:4])}")
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
        if is_out_of_memory(error):
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
    branches = actions.discrete_branches
    reason = too_many_actions(actions.continuous_size, sum(branches), len(branches))
    if reason := reason or too_many_sensors(len(observations)):
        raise ValueError(reason)
    return BehaviorSpec(observations, actions)


def step_of(state: Mapping[str, Any]) -> int:
    """The trainer's step counter when the checkpoint was saved; 0 if it is not recorded."""
    step = state.get("step", 0)
    return step if isinstance(step, int) else 0
