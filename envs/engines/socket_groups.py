"""Waits for more sockets than the system's `select` takes: 512 in Python for Windows."""

from __future__ import annotations

import math
import os
import time
from collections import ChainMap
from collections.abc import Mapping
from selectors import BaseSelector, DefaultSelector, SelectorKey, SelectSelector
from typing import Any

MOST = 500
"""Sockets of a group."""
_PAUSE = 0.001
"""Seconds between two looks at several groups."""


class SocketGroups(BaseSelector):
    """Sockets in groups that `select` takes. One group is waited for; several are looked at in turn."""

    def __init__(self, most: int = MOST) -> None:
        """`most`: sockets of a group."""
        self._most = most
        self._groups = [SelectSelector()]

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """See `BaseSelector`."""
        if fileobj in self.get_map():
            raise KeyError(f"{fileobj!r} is registered already")
        for group in self._groups:
            if len(group.get_map()) < self._most:
                return group.register(fileobj, events, data)
        self._groups.append(SelectSelector())
        return self._groups[-1].register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        """See `BaseSelector`."""
        return self._group_of(fileobj).unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        """See `BaseSelector`."""
        return self._group_of(fileobj).modify(fileobj, events, data)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """See `BaseSelector`."""
        used = [group for group in self._groups if group.get_map()]
        if len(used) <= 1:  # with none, too, which waits on Linux and not on Windows
            return (used or self._groups)[0].select(timeout)
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            found = [event for group in used for event in group.select(0)]
            left = end - time.monotonic()
            if found or left <= 0:
                return found
            time.sleep(min(_PAUSE, left))

    def close(self) -> None:
        """See `BaseSelector`."""
        for group in self._groups:
            group.close()

    def get_map(self) -> Mapping[Any, SelectorKey]:
        """See `BaseSelector`."""
        return ChainMap(*(group.get_map() for group in self._groups))  # type: ignore[arg-type]

    def _group_of(self, fileobj: Any) -> SelectSelector:
        for group in self._groups:
            if fileobj in group.get_map():
                return group
        raise KeyError(f"{fileobj!r} is not registered")


def make_selector() -> BaseSelector:
    """One for any number of sockets, the system's best."""
    return SocketGroups() if os.name == "nt" else DefaultSelector()
