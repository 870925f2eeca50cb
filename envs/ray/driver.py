"""Ray's driver, in a process of its own: `python -m lanista.envs.ray.driver`, started by `DriverProcess`.

Ray ends a process whose cluster it cannot reach any more, and may wait for minutes until then; the learner
must neither end nor wait. Calls come as lines of JSON on the standard input, each with a number, and answers
and events leave as such lines on the standard output. When the input ends, so do this process and all actors.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

PARTING_SECONDS = 5.0


class Driver:
    """Answers the learner's calls."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._actors: Any = None
        self._wished = False

    def tell(self, message: dict[str, Any]) -> None:
        """Send a line to the learner; it may be gone."""
        with self._lock, suppress(OSError):
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()

    def answer(self, call: dict[str, Any]) -> None:
        """Do what a call asks for, in this thread, and answer it."""
        answer: dict[str, Any] = {"id": call["id"]}
        try:
            method: Callable[..., Any] = getattr(self, f"do_{call['do']}")
            answer["result"] = method(**call["with"])
        except Exception as error:
            answer["error"] = str(error) or type(error).__name__
            answer["kind"] = getattr(error, "kind", "failed")
        self.tell(answer)

    def do_connect(self, address: str) -> dict[str, Any]:
        """Join a cluster; `address` of this machine there, and `nodes`."""
        import ray

        from .actors import Actors

        local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        ray.init(
            address,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
            **local,
        )
        self._actors = Actors(self.tell)
        return {"address": ray.util.get_node_ip_address(), **self.do_nodes()}

    def do_nodes(self) -> dict[str, Any]:
        """`nodes`: those that are there."""
        return {"nodes": [node.as_dict() for node in self._actors.nodes()]}

    def do_wish(self, number: int, cpus: float) -> None:
        """Ask a cluster that grows by itself for room."""
        from ray.autoscaler.sdk import request_resources

        self._wished = True
        request_resources(bundles=[{"CPU": cpus}] * number)

    def do_check(self, orders: list[dict[str, Any]], cpus: float, patience: float) -> list[str]:
        """See `Actors.check`."""
        faults: list[str] = self._actors.check(orders, cpus, patience)
        return faults

    def do_place(
        self, key: str, order: dict[str, Any], cpus: float, patience: float, starting: float
    ) -> dict[str, Any]:
        """See `Actors.place`."""
        placed: dict[str, Any] = self._actors.place(key, order, cpus, patience, starting)
        return placed

    def do_inquire(self, key: str) -> dict[str, Any]:
        """See `Actors.inquire`."""
        found: dict[str, Any] = self._actors.inquire(key)
        return found

    def do_end(self, key: str) -> None:
        """See `Actors.end`."""
        self._actors.end(key)

    def part(self) -> None:
        """End all actors, and leave the cluster. Ray ends what is left when this process has ended."""
        if self._actors is None:
            return
        import ray

        if self._wished:
            # The cluster would keep that room for good: a wish outlives who had it.
            with suppress(Exception):
                from ray.autoscaler.sdk import request_resources

                request_resources(bundles=[])
        self._actors.end_all()
        with suppress(Exception):
            ray.shutdown()


def main() -> None:
    """Answer until the input ends."""
    # Ray and its libraries print; the learner's lines go where nobody else writes.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    driver = Driver(out)
    for line in sys.stdin:
        call = json.loads(line)
        if call["do"] == "connect":
            # In this thread: on Linux, processes that Ray starts for `local` end with the thread behind them.
            driver.answer(call)
        else:
            threading.Thread(target=driver.answer, args=(call,), daemon=True).start()
    parting = threading.Thread(target=driver.part, daemon=True)
    parting.start()
    parting.join(PARTING_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
