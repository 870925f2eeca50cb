"""Connections between machines end when one of the machines is gone."""

import socket

import pytest
from lanista.envs.remote.forwarding import configure_keepalive


def test_keepalive_is_enabled_and_ends_within_a_minute():
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as connection,
    ):
        configure_keepalive(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        if not hasattr(socket, "TCP_KEEPIDLE"):
            pytest.skip("this system cannot be asked how long it waits")
        idle, again, probes = (
            connection.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + again * probes <= 60


def test_configuring_a_closed_connection_is_not_an_error():
    connection = socket.socket()
    connection.close()
    configure_keepalive(connection)
