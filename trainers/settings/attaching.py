"""What may be said together about engines that connect by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...envs.attach.address import split_address
from .base import Refusal

if TYPE_CHECKING:
    from .run import EnvironmentSettings

FOR_RELAYS = ("token_file", "tls_cert", "tls_key")


def attach_refusals(env: EnvironmentSettings) -> Iterator[Refusal]:
    """What is wrong with the settings about engines that connect by themselves."""
    host, port = split_address(env.listen)
    if port is None:
        for key in ("allow", *FOR_RELAYS):
            value = getattr(env, key)
            if value is not None:
                message = (
                    f"found {_shown(value)}, and no port in `listen`: this is about engines that run already "
                    f"and connect by themselves. Give --listen ADDRESS:PORT too, such as {host}:5004"
                )
                yield (key,), value, message
    elif env.env_path is not None:
        message = (
            f"found {env.listen}; an address with a port is where engines connect that run already, and with "
            f"env_path (--env) the trainer starts them itself. Leave one of them out, or give "
            f"--listen {host} and --base-port"
        )
        yield ("listen",), env.listen, message
    if env.tls_key is not None and env.tls_cert is None:
        message = f"found {env.tls_key}, and no tls_cert (--tls-cert), the certificate that it belongs to"
        yield ("tls_key",), env.tls_key, message
    if env.num_envs > 1 and env.env_path is None and port is None:
        message = (
            f"found {env.num_envs}; num_envs must be 1 if env_path is not set: there is one Editor. "
            "Name an executable or a scene with --env, or give --listen ADDRESS:PORT for engines that run "
            "already."
        )
        yield ("num_envs",), env.num_envs, message


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
