"""Environments that are stepped within this process, by the prefix of their name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext

from mlagents_envs.base_env import BaseEnv

from ..images import Images
from . import GYMNASIUM, PYTHON, function_source
from .calls import working_folder_kept
from .gymnasium import source as gymnasium_source
from .pettingzoo import source as pettingzoo_source
from .warned import without_warnings


def check_source(
    path: str,
    arguments: Sequence[str] | None = None,
    *,
    hosted: bool = False,
    parameters: Collection[str] = (),
) -> None:
    """Refuse an environment that cannot be made, before anything is written or loaded for it.

    Args:
        path: As for `make_source`.
        arguments: Likewise.
        hosted: Another process makes the environment, so that this one warns of what can be done better.
        parameters: The names of environment parameters that it will get.

    Raises:
        UnityEnvironmentException: As `make_source`; for PettingZoo without parameters, except for errors in
            the arguments. Or it does not take a parameter, or it changes the working directory of this
            process, which is to step it.
        UnsupportedSpaceError: A Gymnasium environment, or one that a user's function makes, has a space that
            cannot be used.
        EnvContractError: A Gymnasium environment is played with lives and has none; or the first observation
            of an environment that a user's function makes is not in its space.
    """
    with nullcontext() if hosted else without_warnings(), working_folder_kept(path, refuse=not hosted):
        if path.strip().startswith(PYTHON):
            function_source.check(path, arguments or (), parameters)
        elif path.strip().startswith(GYMNASIUM):
            gymnasium_source.check(path, arguments or (), parameters)
        else:
            pettingzoo_source.check(path, arguments or (), parameters)


def make_source(
    path: str,
    seed: int | None = None,
    arguments: Sequence[str] | None = None,
    areas: int = 1,
    *,
    with_state: bool = False,
    self_play: bool | None = False,
    images: Images = "float32",
    drawn: bool = False,
) -> BaseEnv:
    """Make `pettingzoo:MODULE`, `gymnasium:ID` or `python:MODULE:FUNCTION`, optionally with `?key=value&...`.

    Args:
        path: As above; see the three `source` modules.
        seed: Seeds the environment.
        arguments: `--key value` for the environment's constructor; they override those of the path.
        areas: How many copies; 1 leaves it to the arguments.
        with_state: Agents observe the global state if there is one, unless the arguments say otherwise.
        self_play: One policy plays all seats of a turn-based game, unless the arguments say otherwise; None:
            if it can.
        images: The dtype of image observations.
        drawn: The environment must support `draw`: the first copy, by the render mode `rgb_array`.

    Raises:
        UnityEnvironmentException: There is no such environment, a package is missing, an argument is unknown,
            or it cannot draw itself.
    """
    if path.strip().startswith(GYMNASIUM):
        return gymnasium_source.make(path, seed, arguments or (), areas, images=images, drawn=drawn)
    of_source = function_source.make if path.strip().startswith(PYTHON) else pettingzoo_source.make
    return of_source(
        path,
        seed,
        arguments or (),
        areas,
        with_state=with_state,
        self_play=self_play,
        images=images,
        drawn=drawn,
    )
