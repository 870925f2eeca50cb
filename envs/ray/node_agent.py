"""Launches an engine and a relay on a node, and reports how the engine ended. Runs in a Ray actor."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlagents_envs.exception import UnityException

from ..._version import __version__
from ..engines.address import AllowedNetworks
from ..engines.clients import ClientRules
from ..engines.engine_errors import EngineErrors, ErrorPolicy
from ..engines.options import EngineOptions
from ..engines.process import EngineProcess
from ..engines.reaper import REAPER
from ..godot import is_godot
from ..godot import launch as godot
from ..opening import resolve_registered, terms_for
from ..remote.relay import (
    Relay,
    RelayRejectedError,
    RemoteTrainer,
    TryLaterError,
    UnreachableError,
    until_admitted,
)
from ..remote.tls import UntrustedError, client_context
from ..unity.executables import check_executable
from ..unity.launch import resolve, start_engine
from .nodes import LaunchSpec

logger = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 10.0
"""Seconds that an engine has to exit by itself after its connection is gone."""
_EXIT_SECONDS = 2.0
"""Seconds that an engine whose connection is gone has to exit, so that its exit code can be reported."""


class NodeAgentError(Exception):
    """The engine cannot be launched here; the message says why."""


class NodeAgent:
    """One engine and its relay.

    Args:
        spec: What to launch.

    Raises:
        NodeAgentError: The engine cannot be launched; nothing is left running.
    """

    def __init__(self, spec: LaunchSpec) -> None:
        trainer = check(spec)
        self._errors = EngineErrors(ErrorPolicy.IGNORE if spec.ignores_errors else ErrorPolicy.WARN)
        self._relay = Relay(trainer, 0, spec.name)
        self.log: Path | None = None
        try:
            self._engine = self._start(spec)
        except (UnityException, OSError) as error:
            self._relay.close()
            raise NodeAgentError(str(error)) from error
        networks = AllowedNetworks.parse(spec.allow)
        self._relay.client_rules = ClientRules(networks, self._engine.pid, REAPER.mark)
        threading.Thread(target=self._serve, name="relay", daemon=True).start()

    def _start(self, spec: LaunchSpec) -> EngineProcess:
        options = replace(resolve_registered(spec.options()), errors=self._errors)
        if options.log_folder is not None:
            options = replace(options, log_folder=_make_folder(options.log_folder))
        self._relay.is_greeted = is_godot(options.path)
        start = godot.start_game if is_godot(options.path) else start_engine
        engine, self.log = start(options, _command(options), self._relay.port)
        return engine

    def _serve(self) -> None:
        try:
            self._relay.serve(once=True)
        except (RelayRejectedError, UntrustedError) as error:
            logger.warning("%s", error)
        finally:  # an engine without its relay would wait for a trainer that it cannot reach
            self._relay.close()
            if not self._engine.wait(SHUTDOWN_SECONDS):
                self._engine.kill()

    def report(self, *, ending: bool = True) -> dict[str, Any]:
        """The engine's state.

        Args:
            ending: Whether the engine's connection is gone: it then gets a moment to exit.
        """
        if ending:
            self._engine.wait(_EXIT_SECONDS)
        return self._report()

    def await_end(self) -> dict[str, Any]:
        """Wait for the engine's end; return its state."""
        while not self._engine.wait(3600.0):
            pass
        return self._report()

    def errors(self) -> list[dict[str, Any]]:
        """The errors that the engine has printed so far: the first of each kind, and how many; for JSON."""
        return [
            {
                "engine": each.first.engine,
                "text": each.first.text,
                "place": each.first.place,
                "log": None if each.first.log is None else str(each.first.log),
                "is_warning": each.first.is_warning,
                "count": each.count,
            }
            for each in self._errors.counts()
        ]

    def end(self) -> None:
        """Kill the engine, and close its relay."""
        self._engine.kill()
        self._relay.close()

    def _report(self) -> dict[str, Any]:
        engine = self._engine
        return {
            "returncode": engine.returncode,
            "text": engine.describe(),
            "rejection": self._relay.rejection,
            "errors": self.errors(),
        }


def check(spec: LaunchSpec) -> RemoteTrainer:
    """Check that this node can launch the engine and reach the learner.

    Returns:
        The learner, for a relay.

    Raises:
        NodeAgentError: The node cannot; the message says why.
    """
    if spec.version != __version__:
        raise NodeAgentError(
            f"it has Lanista {__version__}, and the learner {spec.version}: install the same version on both"
        )
    try:
        options = resolve_registered(spec.options())
        check_executable(_command(options)[0], terms=terms_for(options.path))
    except UnityException as error:
        raise NodeAgentError(str(error)) from error
    context = client_context(pinned=True)
    trainer = RemoteTrainer(spec.host, spec.port, spec.token, context, spec.fingerprint)
    try:
        until_admitted(lambda: trainer.probe(spec.name), _sleep)
    except (RelayRejectedError, UntrustedError, UnreachableError) as error:
        raise NodeAgentError(
            f"it does not reach the learner: {error}. Open that port in its firewall, or give an address "
            "that the nodes reach (--ray-listen)"
        ) from error
    return trainer


def _sleep(later: TryLaterError) -> bool:
    time.sleep(later.seconds)
    return True


def _command(options: EngineOptions) -> list[str]:
    """The start of the engine's command line here."""
    if is_godot(options.path):
        return godot.resolve(godot.GodotName.parse(str(options.path)))
    return resolve(str(options.path))


def _make_folder(folder: Path) -> Path:
    """Create the folder, or a temporary one where that is not allowed; return it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="lanista-"))
