"""What may be said together about environments in Python in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...envs.source_names import in_process
from .base import Refusal

if TYPE_CHECKING:
    from .run import EnvironmentSettings


def hosting_refusals(env: EnvironmentSettings) -> Iterator[Refusal]:
    """What is wrong with the settings about hosted environments."""
    if not env.env_workers:
        return
    if not in_process(env.env_path):
        message = (
            f"found {env.env_workers}, and {_unhosted(env)}. Hosted are gymnasium:ID, pettingzoo:MODULE and "
            "python:MODULE:FUNCTION"
        )
        yield ("env_workers",), env.env_workers, message
    elif env.num_envs > 1:
        message = (
            f"found {env.env_workers}, and num_envs {env.num_envs}: give env_workers for environments in "
            "processes of their own, or num_envs for environments within the run's process, not both"
        )
        yield ("env_workers",), env.env_workers, message


def _unhosted(env: EnvironmentSettings) -> str:
    if env.env_path is None:
        return "no env_path (--env)"
    several = f"num_envs: {env.env_workers} (--num-envs) starts so many"
    return f"{env.env_path}, which is a process of its own anyway; {several}"
