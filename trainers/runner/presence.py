"""What the ranks of a run tell each other beside their collective calls: that they live, and that it ends."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from ..utils import distributed
from ..utils.heartbeat import Heartbeat, Watch


class Presence:
    """This rank's sign of life, and a watch for each of the others, by files in a folder of all ranks.

    A signal reaches one rank, which may wait for others for long; and these may wait for their engines. So
    who is to end says so in the folder, and the others then come to meet it.
    """

    def __init__(self, folder: Path | None, rank: int, world_size: int, timeout: float | None = None) -> None:
        """Begin to show that this rank lives.

        Args:
            folder: that all ranks see; None where they are on several machines, and nothing is known of them.
            rank, world_size: this one, and how many there are.
            timeout: seconds without a sign of life after which a rank counts as lost; None: never, until the
                run is to end. So it is for the ranks that are not the first: the user may suspend that one.
        """
        self.watches: Mapping[int, Watch] = {
            other: Watch(_file(folder, other), math.inf if timeout is None else timeout, distributed.ending)
            for other in range(world_size)
            if other != rank
        }
        distributed.end(False)
        self._end = None if folder is None else folder / "end"
        self._heartbeat: Heartbeat | None = None
        file = _file(folder, rank)
        if file is not None:
            self._heartbeat = Heartbeat(file, self._pass_on_the_end)
            self._heartbeat.start()

    def _pass_on_the_end(self) -> None:
        assert self._end is not None
        if distributed.ending():
            self._end.touch()
        elif self._end.exists():
            distributed.end()

    def close(self) -> None:
        """Show it no more."""
        if self._heartbeat is not None:
            self._heartbeat.stop()


def _file(folder: Path | None, rank: int) -> Path | None:
    return None if folder is None else folder / f"alive-{rank}"


def on_one_machine() -> bool:
    """Whether `torchrun` has started all ranks on this machine."""
    return os.environ.get("LOCAL_WORLD_SIZE") == os.environ.get("WORLD_SIZE")
