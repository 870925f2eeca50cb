"""What may be said together about environments on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .base import Refusal

if TYPE_CHECKING:
    from .run import EnvironmentSettings

OF_THE_CLUSTER = ("ray_cpus", "ray_listen", "ray_wait")


def cluster_refusals(env: EnvironmentSettings) -> Iterator[Refusal]:
    """What is wrong with the settings about a cluster."""
    if env.ray is None:
        for key in OF_THE_CLUSTER:
            value = getattr(env, key)
            if value != type(env).model_fields[key].default:
                message = f"found {value}, and no `ray` (--ray), the cluster that it is about"
                yield (key,), value, message
        return
    if env.env_path is None:
        message = (
            f"found {env.ray}; the nodes of a cluster start environments, and no env_path (--env) says "
            "which: name an executable or a scene"
        )
        yield ("ray",), env.ray, message
    elif env.listen != "localhost" and not env.attaches:  # with a port it does not go with env_path anyway
        message = (
            f"found {env.listen}; the nodes of a cluster reach the trainer at the address that ray_listen "
            "(--ray-listen) names: leave this one out"
        )
        yield ("listen",), env.listen, message
