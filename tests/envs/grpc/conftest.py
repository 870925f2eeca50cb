"""The trainer's end of a connection, on the lean server unless a test asks for grpcio's."""

from collections.abc import Iterator

import pytest
from lanista.envs.grpc.grpcio_server import GrpcioSession
from lanista.envs.grpc.server import ServerSession


@pytest.fixture
def server() -> type[ServerSession | GrpcioSession]:
    """Which server is tested; a test parametrizes it to test both."""
    return ServerSession


@pytest.fixture
def trainer(server: type[ServerSession | GrpcioSession]) -> Iterator[ServerSession | GrpcioSession]:
    endpoint = server.listen(0)
    yield endpoint
    endpoint.close()
