"""What becomes of the engines that a script leaves open when it ends."""

import atexit
import logging
import time

from .connection import EngineConnection

logger = logging.getLogger(__name__)

SECONDS = 10.0
"""What all of them together get to end by themselves. Whoever ends a script without closing has lost interest
in them: no minute of waiting for each then."""

_open: dict[EngineConnection, None] = {}
"""In the order in which they were opened."""


def remember(connection: EngineConnection) -> None:
    """Close this connection when the script ends."""
    _open[connection] = None
    # What was registered last is called first: engines are asked to end before their processes are killed.
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def forget(connection: EngineConnection) -> None:
    """This connection needs no care any more."""
    _open.pop(connection, None)


def _close_all() -> None:
    """Tell all engines to quit, then wait for one after the other within the same time."""
    deadline = time.monotonic() + SECONDS
    connections = list(_open)
    _open.clear()
    for connection in connections:
        try:
            connection.dismiss()
        except Exception as error:  # it is still to be closed, and so are the others
            logger.warning("An engine could not be told to quit: %s", error)
    for connection in connections:
        try:
            connection.close(min(connection.timeout, max(0.0, deadline - time.monotonic())))
        except Exception as error:  # the others are still to be closed
            logger.warning("An engine could not be closed in good order: %s", error)
