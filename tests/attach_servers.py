"""Attach servers that collect the engines that they admit, for the tests of remote engines."""

import queue

import pytest
from lanista.envs.errors import TrainerGoneError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.remote.handshake import AccessRules, AttachedEngine
from lanista.envs.remote.server import AttachServer
from lanista.envs.unity import UnityEnvironment
from scripted_engine import hello, message

TIMEOUT = 20.0


class CollectingServer:
    """A server on this machine, and a queue of the engines that it has admitted."""

    def __init__(
        self, rules: AccessRules | None = None, *, timeout: float = TIMEOUT, token: str | None = None
    ) -> None:
        self.arrived: queue.SimpleQueue[AttachedEngine] = queue.SimpleQueue()
        self.server = AttachServer(
            "localhost", 0, rules, token=token, on_engine=self.arrived.put, timeout=timeout
        )
        self.port = self.server.port
        self.server.start()

    def next(self) -> AttachedEngine:
        return self.arrived.get(timeout=TIMEOUT)

    def close(self) -> None:
        self.server.close()


def environment(engine: AttachedEngine) -> UnityEnvironment:
    return UnityEnvironment(connect=lambda _: engine.connection("environment 0", TIMEOUT))


def endpoint(port: int) -> EngineEndpoint:
    """An engine's end of a connection that is open."""
    end = EngineEndpoint(port)
    end.connect(TIMEOUT)
    return end


def greet_in_vain(end: EngineEndpoint) -> None:
    """A greeting whose connection is lost before the answer."""
    with pytest.raises(TrainerGoneError):
        end.exchange(message(hello()))
