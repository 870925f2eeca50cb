"""Joining a Ray cluster within a bounded time; Ray itself tries for minutes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from ..attach.address import split_address
from ..attach.certificate import NoCryptographyError, require_cryptography
from .driver_process import CallFailedError, DriverProcess
from .errors import ClusterError

JOIN_SECONDS = 30.0
START_SECONDS = 120.0
"""What a new cluster on this machine has to start."""
_DIAL_SECONDS = 5.0


def require_packages() -> None:
    """Find out whether Ray can be used here.

    Raises:
        ClusterError: A package is missing.
    """
    if find_spec("ray") is None:
        raise ClusterError("--ray needs the package ray, which is not installed: pip install 'lanista[ray]'")
    try:
        require_cryptography()
    except NoCryptographyError as error:
        raise ClusterError(
            "--ray needs the package cryptography, which is not installed: pip install 'lanista[ray]'"
        ) from error


def join(
    address: str, on_event: Callable[[dict[str, Any]], None], seconds: float | None = None
) -> tuple[DriverProcess, dict[str, Any]]:
    """Start Ray's driver and let it join.

    Args:
        address: `auto`, `local`, or HOST:PORT.
        on_event: See `DriverProcess`.
        seconds: After which the cluster is given up; None for what is usual.

    Returns:
        The driver, and what it has found: `address` of this machine in the cluster, and `nodes`.

    Raises:
        ClusterError: Nobody answers there, or no Ray; or this machine is no node of it.
    """
    if seconds is None:
        seconds = START_SECONDS if address == "local" else JOIN_SECONDS
    if address not in ("auto", "local"):
        _dial(address)
    driver = DriverProcess(on_event)
    try:
        return driver, driver.call("connect", seconds, address=address)
    except TimeoutError:
        told = "has not started" if address == "local" else "did not answer as Ray's head does"
        why = f"it {told} within {seconds:g} s" + ("" if address == "local" else "; has it ended?")
    except (CallFailedError, ClusterError) as error:
        why = " ".join(str(error).split())
    except BaseException:
        driver.close(0.0)
        raise
    driver.close(0.0)
    raise ClusterError(f"The Ray cluster {address!r} (--ray) cannot be joined: {why}")


def _dial(address: str) -> None:
    """Whether anybody listens at the head's address."""
    if "://" in address:
        raise ClusterError(
            f"--ray: found {address!r}; the learner runs on a node of the cluster: give auto there, or the "
            "head's HOST:PORT. `ray start --address HOST:PORT --num-cpus 0` makes a node of this machine"
        )
    try:
        host, port = split_address(address)
    except ValueError as error:
        raise ClusterError(f"--ray: {error}") from error
    if port is None:
        raise ClusterError(f"--ray: found {address!r}; expected auto, local, or HOST:PORT of the head")
    try:
        socket.create_connection((host, port), _DIAL_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"No Ray head answers at {address} (--ray): {error.strerror or error}. `ray start --head --port "
            f"{port}` starts one there; `ray status --address {address}` shows whether it runs"
        ) from error
