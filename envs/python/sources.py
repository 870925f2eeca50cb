"""Environments that are stepped within this process, by how their names begin."""

from __future__ import annotations

from collections.abc import Sequence

from mlagents_envs.base_env import BaseEnv

from ..images import Images
from . import function_source
from .gymnasium import source as gymnasium_source
from .pettingzoo import source as pettingzoo_source
from .source_names import GYMNASIUM, PYTHON, in_process

__all__ = ["check_source", "in_process", "make_source"]


def check_source(path: str, arguments: Sequence[str] | None = None) -> None:
    """Refuse an environment that cannot be made, before anything is written or loaded for it.

    Raises:
        UnityEnvironmentException: As `make_source`; of PettingZoo's, but for what only the arguments show.
        UnsupportedSpaceError: An environment of Gymnasium, or one of a function of the user's own, has spaces
            that cannot be used.
        GameFaultError: An environment of Gymnasium is to be played by lives and has none; or what a function
            of the user's own has made begins with what is not of its spaces.
    """
    if path.strip().startswith(PYTHON):
        function_source.check(path, arguments or ())
    elif path.strip().startswith(GYMNASIUM):
        gymnasium_source.check(path, arguments or ())
    else:
        pettingzoo_source.check(path)


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
    """The environment `pettingzoo:MODULE`, `gymnasium:ID` or `python:MODULE:FUNCTION`, all of them with
    `?key=value&key=value` where that is wanted.

    Args:
        path: As above; see `pettingzoo_source`, `gymnasium_source` and `function_source`.
        seed: Of its chance.
        arguments: `--key value` for what makes the environment; they win over those of the path.
        areas: How many copies; 1 leaves it to the arguments.
        with_state: Agents observe the global state where there is one, unless the arguments decide about it.
        self_play: One policy plays all seats of a turn-based game, unless the arguments decide about it;
            None: if it can.
        images: What images are given out as.
        drawn: It is to draw itself when asked to (`draw`): the first copy, by the render mode `rgb_array`.

    Raises:
        UnityEnvironmentException: There is no such environment, a package is missing, the arguments are not
            its own, or it cannot draw itself.
    """
    if path.strip().startswith(GYMNASIUM):
        return gymnasium_source.make(path, seed, arguments or (), areas, images=images, drawn=drawn)
    of_source = function_source.make if path.strip().startswith(PYTHON) else pettingzoo_source.make
    return of_source(
        *(path, seed, arguments or (), areas),
        with_state=with_state,
        self_play=self_play,
        images=images,
        drawn=drawn,
    )
