"""What COMA needs of a behaviour."""

from __future__ import annotations

from mlagents_envs.base_env import BehaviorSpec

from ...envs.global_state import STATE
from ..action_kinds import require_discrete as require_discrete_alone
from ..networks.errors import UnsupportedObservationError
from ..settings.behavior import TrainerSettings
from ..settings.nearest import nearest


def require_discrete(spec: BehaviorSpec) -> None:
    """Refuse continuous actions.

    Raises:
        UnsupportedActionError: there are some.
    """
    require_discrete_alone(
        spec.action_spec,
        "COMA weighs every action that an agent could have taken, so it needs discrete ones alone",
        "Use trainer_type: poca for teams with continuous actions.",
    )


def state_position(spec: BehaviorSpec, name: str | None) -> int | None:
    """The position of the observation that is the state; None for a `name` of None.

    Raises:
        UnsupportedObservationError: there is no such observation, or there is no other one.
    """
    if name is None:
        return None
    names = [str(sensor.name) for sensor in spec.observation_specs]
    if name not in names:
        close = nearest(name, names)
        hint = f" Did you mean {close!r}?" if close else ""
        raise UnsupportedObservationError(
            f"hyperparameters.state_observation is {name!r}, and no sensor has that name.{hint} "
            f"Sensors: {', '.join(map(repr, names))}."
        )
    if len(names) == 1:
        raise UnsupportedObservationError(
            f"hyperparameters.state_observation is {name!r}, the only sensor. The critic alone reads the "
            "state, so that nothing would be left for the agents to act by; leave state_observation out."
        )
    return len(names) - 1 - names[::-1].index(name)


def with_offered_state(settings: TrainerSettings, spec: BehaviorSpec) -> TrainerSettings:
    """The settings with the environment's global state as `state_observation`, where it offers one.

    It is the last sensor then, and has a name of its own.
    """
    if len(spec.observation_specs) < 2 or spec.observation_specs[-1].name != STATE:
        return settings
    hyper = settings.hyperparameters.model_copy(update={"state_observation": STATE})
    return settings.model_copy(update={"hyperparameters": hyper})
