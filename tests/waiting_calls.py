"""An engine's calls in a thread, for tests in which the trainer's end is served by the test itself."""

import threading

from lanista.envs.errors import TrainerGoneError
from lanista.envs.grpc.client import EngineEndpoint
from lanista.envs.grpc.grpcio_server import GrpcioSession
from lanista.envs.grpc.server import ServerSession

Server = ServerSession | GrpcioSession
PATIENCE = 20.0


def call(engine: EngineEndpoint, data: bytes) -> tuple[threading.Thread, list[object]]:
    """Make a call in a thread; its result, or the error, is in the list afterwards."""
    result: list[object] = []

    def run() -> None:
        try:
            result.append(engine.exchange(data))
        except TrainerGoneError as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, result


def waiting_call(trainer: Server, engine: EngineEndpoint, request: bytes) -> tuple[threading.Thread, list]:
    """The same, with the request received."""
    thread, result = call(engine, request)
    assert trainer.receive(PATIENCE) == request
    return thread, result


def exchange(trainer: Server, engine: EngineEndpoint, request: bytes, reply: bytes) -> None:
    """A call that gets this reply."""
    thread, result = waiting_call(trainer, engine, request)
    trainer.reply(reply)
    while thread.is_alive():
        trainer.pump()
    assert result == [reply]
