"""Ray's driver, in a process of its own: `python -m lanista.envs.ray.driver`, started by `DriverProcess`.

Ray kills a process whose cluster it cannot reach any more, possibly after minutes; the learner must neither
be killed nor wait. Calls are lines of JSON on standard input, each with a number; answers and events are
lines of JSON on standard output. When the input ends, so do this process and all actors.
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

SHUTDOWN_SECONDS = 5.0


class Driver:
    """Answers the learner's calls."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lock = threading.Lock()
        self._actors: Any = None
        self._requested = False

    def send(self, message: dict[str, Any]) -> None:
        """Send a message to the learner, which may be gone."""
        with self._lock, suppress(OSError):
            self._out.write(json.dumps(message) + "\n")
            self._out.flush()

    def answer(self, call: dict[str, Any]) -> None:
        """Execute a call in this thread, and send its answer."""
        answer: dict[str, Any] = {"id": call["id"]}
        try:
            method: Callable[..., Any] = getattr(self, f"do_{call['do']}")
            answer["result"] = method(**call["with"])
        except Exception as error:
            answer["error"] = str(error) or type(error).__name__
            answer["kind"] = getattr(error, "kind", "failed")
        self.send(answer)

    def do_connect(self, address: str) -> dict[str, Any]:
        """Join a cluster; return `address` of this machine there, and `nodes`."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that begins here
        import ray
        from ray.job_config import JobConfig

        from .actors import EngineActors

        class OwnPaths(JobConfig):  # type: ignore[misc] # of a package without types
            """A job whose processes do not look for modules in the current folder before all others."""

            def _runtime_env_has_working_dir(self) -> bool:  # Ray's question, before it adds that folder
                return True

        more: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        more["job_config"] = OwnPaths()
        ray.init(address, log_to_driver=False, configure_logging=False, logging_level=logging.ERROR, **more)
        self._actors = EngineActors(self.send)
        return {"address": ray.util.get_node_ip_address(), **self.do_nodes()}

    def do_nodes(self) -> dict[str, Any]:
        """The `nodes` that respond."""
        return {"nodes": [node.as_dict() for node in self._actors.nodes()]}

    def do_request_resources(self, number: int, cpus: float) -> None:
        """Request room from an autoscaling cluster."""
        from ray.autoscaler.sdk import request_resources

        self._requested = True
        request_resources(bundles=[{"CPU": cpus}] * number)

    def do_check(self, specs: list[dict[str, Any]], cpus: float, check_timeout: float) -> list[str]:
        """Check nodes for an engine, as `EngineActors.check` does."""
        faults: list[str] = self._actors.check(specs, cpus, check_timeout)
        return faults

    def do_place(
        self, key: str, spec: dict[str, Any], cpus: float, place_timeout: float, start_timeout: float
    ) -> dict[str, Any]:
        """Launch an engine on a node, as `EngineActors.place` does."""
        placed: dict[str, Any] = self._actors.place(key, spec, cpus, place_timeout, start_timeout)
        return placed

    def do_inquire(self, key: str, ending: bool) -> dict[str, Any]:
        """Find out an engine's state, as `EngineActors.inquire` does."""
        found: dict[str, Any] = self._actors.inquire(key, ending)
        return found

    def do_end(self, key: str) -> None:
        """Kill an engine and its actor, as `EngineActors.end` does."""
        self._actors.end(key)

    def leave(self) -> None:
        """Kill all actors, and leave the cluster. Ray kills what is left when this process has ended."""
        if self._actors is None:
            return
        import ray

        if self._requested:
            # A request outlives its process: the cluster would reserve that room for good.
            with suppress(Exception):
                from ray.autoscaler.sdk import request_resources

                request_resources(bundles=[])
        self._actors.end_all()
        with suppress(Exception):
            ray.shutdown()


def main() -> None:
    """Answer calls until the input ends."""
    # Ray and its libraries print, so messages go to a duplicate of standard output that they do not use.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    driver = Driver(out)
    for line in sys.stdin:
        call = json.loads(line)
        if call["do"] == "connect":
            # In this thread: on Linux, processes that Ray starts for `local` end with the thread that did.
            driver.answer(call)
        else:
            threading.Thread(target=driver.answer, args=(call,), daemon=True).start()
    leaving = threading.Thread(target=driver.leave, daemon=True)
    leaving.start()
    leaving.join(SHUTDOWN_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
