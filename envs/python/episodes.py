"""The starts of a copy's episodes: its seed at first, and its environment parameters each time."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ..errors import EnvContractError
from ..side_channels import Distribution
from .calls import call_method, game_error, name_of, read_attribute, shorten, suggest
from .warned import warn_once

DECLARED, METHOD = "environment_parameters", "set_environment_parameters"
"""An environment's attribute with the names of the parameters that it takes, and its method to set them."""


class EpisodeStarts:
    """Resets one copy of an environment.

    Its first episode has the seed; later ones continue its random numbers. Parameters, once there are any,
    have new values in each episode: the environment gets all of them by its method
    `set_environment_parameters` before the reset or, if it has none, as the options of `reset`.
    """

    def __init__(self, env: Any, seed: int | None = None, copy: int = 0) -> None:
        """`seed`: None for a random one. `copy`: the copy's number, which makes its samplers differ."""
        self.env = env
        self._seed = seed
        self._own_number = copy if seed is None else seed
        self._values: dict[str, float | Distribution] = {}
        self._random: dict[str, np.random.Generator] = {}

    def set_parameters(self, values: Mapping[str, float | Distribution]) -> None:
        """Set what the environment's parameters are from its next episode on.

        The values that are drawn depend on the sampler's seed and on the copy's, so that copies differ. A
        distribution that stays the same is drawn from further.
        """
        for name, value in values.items():
            if isinstance(value, Distribution) and value != self._values.get(name):
                self._random[name] = value.generator(self._own_number)
            self._values[name] = value

    def reset(self) -> Any:
        """Start an episode; returns what the environment's `reset` returns.

        Raises:
            EnvContractError: The environment raises an exception.
        """
        seed, self._seed = self._seed, None
        if not self._values:
            return call_method(self.env, "reset", seed=seed)
        drawn = {
            name: value.draw(self._random[name]) if isinstance(value, Distribution) else value
            for name, value in self._values.items()
        }
        if (taker := _layer_with(self.env, METHOD)) is None:
            return call_method(self.env, "reset", seed=seed, options=drawn)
        call_method(taker, METHOD, drawn)
        return call_method(self.env, "reset", seed=seed)


def declared_parameters(env: Any) -> Collection[str] | None:
    """The names of the parameters that an environment, or what it wraps, declares; None: it does not.

    Raises:
        EnvContractError: It does so in another form than a dict or list of names.
    """
    layer = _layer_with(env, DECLARED)
    if layer is None:
        return None
    names = read_attribute(layer, DECLARED)
    if not isinstance(names, Collection) or isinstance(names, str) or not all(type(n) is str for n in names):
        raise EnvContractError(
            f"{DECLARED} of {name_of(env)} is {shorten(names)}; expected a dict of the names that it takes "
            "and their default values."
        )
    return names


def check_declared(env: Any, names: Collection[str]) -> Collection[str] | None:
    """Refuse parameters that are not among those that an environment says it takes, which this returns.

    Raises:
        EnvContractError: It does not take one of them; or as `declared_parameters`.
    """
    declared = declared_parameters(env)
    unknown = [name for name in names if declared is not None and name not in declared]
    if declared is not None and unknown:
        raise EnvContractError(
            f"{name_of(env)} has no environment parameter {', '.join(unknown)}."
            f"{suggest(unknown[0], declared)} It declares {', '.join(declared) or 'none'}. Correct the name "
            "in environment_parameters, or remove it there."
        )
    return declared


def check_parameters(env: Any, names: Collection[str]) -> None:
    """Refuse parameters that an environment does not take; warn once if it is not known whether it does.

    Raises:
        EnvContractError: It does not take one of them, or none at all; or as `declared_parameters`.
    """
    if not names:
        return
    declared = check_declared(env, names)
    if _layer_with(env, METHOD) is not None:
        return
    if not _takes_options(env):
        raise EnvContractError(
            f"{name_of(env)} takes no environment parameters ({', '.join(names)}): its reset has no argument "
            f"options, and it has no method {METHOD}. Give it one of them (docs/gymnasium.md), or remove "
            "environment_parameters, and give constant arguments after --env-args."
        )
    if declared is None:
        warn_once(
            f"{name_of(env)} gets {', '.join(names)} as the options of reset, and does not say whether it "
            f"reads them. An attribute {DECLARED} = {{name: default}} of its class says which it takes."
        )


def _layer_with(env: Any, name: str) -> Any:
    """The environment, or the first that it wraps, with an attribute of this name; None: none has it."""
    layer, inner = env, getattr(env, "unwrapped", None)
    while layer is not None:
        if _has(layer, name):
            return layer
        wrapped = getattr(layer, "env", None)
        layer = wrapped if wrapped is not layer and hasattr(wrapped, "reset") else None
    return inner if inner is not None and _has(inner, name) else None


def _has(layer: Any, name: str) -> bool:
    try:
        return hasattr(layer, name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a property may raise anything
        raise game_error(layer, name, error) from error


def _takes_options(env: Any) -> bool:
    """Whether `reset` of the environment, and of what it wraps, has an argument `options`."""
    for each in (env, getattr(env, "unwrapped", env)):
        try:
            arguments = inspect.signature(each.reset).parameters
        except (TypeError, ValueError):  # a function without a signature, like those in C
            continue
        any_name = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in arguments.values())
        if not any_name and "options" not in arguments:
            return False
    return True
