"""Closes the engines that a script leaves open when it ends; a process that it forks leaves them alone."""

import atexit
import logging
import os
import time
from collections.abc import Callable
from functools import partial

from .connection import EngineConnection

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""Seconds that all engines together may take to end by themselves: a script that ends should not wait a
minute for each."""

_open: dict[EngineConnection, None] = {}
"""The open connections, in the order in which they were opened."""


def register(connection: EngineConnection) -> None:
    """Close this connection when the script ends."""
    _open[connection] = None
    # The last function registered runs first: engines are told to quit before their processes are killed.
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def unregister(connection: EngineConnection) -> None:
    """Leave this connection alone when the script ends."""
    _open.pop(connection, None)


def _disown_all() -> None:
    """In a forked process: the engines are its parent's, which goes on with them."""
    for connection in _open:
        connection.disown()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)


def _close_all() -> None:
    """Tell all engines to quit, then wait for one after the other within the same time."""
    deadline = time.monotonic() + SECONDS
    connections = list(_open)
    _open.clear()
    for connection in connections:
        _attempt(connection.send_quit, "told to quit")
    for connection in connections:
        seconds = min(connection.timeout, max(0.0, deadline - time.monotonic()))
        _attempt(partial(connection.close, seconds), "closed in good order")


def _attempt(action: Callable[[], None], what: str) -> None:
    """Call an engine's `action`, and go on if it fails: the engine and the others are still to be closed."""
    try:
        action()
    except OSError as error:
        logger.warning("An engine could not be %s: %s", what, error)
    except Exception:  # Ctrl-C may have left the connection in the middle of a message
        logger.debug("An engine could not be %s.", what, exc_info=True)
