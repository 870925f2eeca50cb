"""The environment of `lanista play`."""

from __future__ import annotations

import argparse
from dataclasses import replace

from mlagents_envs.base_env import BaseEnv

from ....envs.opening import open_environment
from ....envs.python import in_process
from ...utils.errors import CommandError
from ..opening import play_options


def open_played(arguments: argparse.Namespace, *, shown: bool) -> BaseEnv:
    """The environment of `play`; `shown`: with a method `draw`.

    Raises:
        CommandError: it is to be shown and runs in an engine, which shows itself.
        TrainerConfigError: flags are wrong, or exclude each other.
        UnityException: it cannot be started.
    """
    options = play_options(
        arguments,
        arguments.env,
        arguments.env_args,
        with_state=arguments.with_state,
        self_play=arguments.self_play,
    )
    if shown and not (options.is_scene or in_process(options.path)):
        raise CommandError(
            f"{options.path or 'The editor'} cannot be filmed or watched: it draws itself, in a window of "
            "its own (--time-scale 1 lets it play at its natural speed). Lanista shows what runs in its "
            "own process: scene:NAME, gymnasium:ID, pettingzoo:MODULE and python:MODULE:FUNCTION."
        )
    return open_environment(replace(options, drawn=shown))
