"""A cluster that cannot be joined is told of soon, in one line."""

import socket

import pytest

pytest.importorskip("ray")
pytest.importorskip("cryptography")

from lanista.envs.errors import ClusterError
from lanista.envs.ray.cluster import join
from lanista.envs.ray.rendezvous import Rendezvous
from scripted_engine import free_port


def refusal(address: str, seconds: float = 2.0) -> str:
    with pytest.raises(ClusterError) as caught:
        join(address, lambda event: None, seconds)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_head_that_is_gone():
    address = f"127.0.0.1:{free_port()}"
    assert refusal(address).startswith(f"No Ray head answers at {address} (--ray): ")


def test_somebody_who_is_no_head():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = refusal(f"127.0.0.1:{silent.getsockname()[1]}")
    assert "it did not answer as Ray's head does within 2 s; has it ended?" in told


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ray://10.0.0.1:10001", "the learner runs on a node of the cluster"),
        ("head", "expected auto, local, or HOST:PORT of the head"),
        ("head:much", "'much' is not a port"),
    ],
)
def test_what_is_no_address(address, reason):
    assert reason in refusal(address)


@pytest.mark.parametrize("listen", ["198.51.100.7", "1.2.3.4:x"])
def test_an_address_at_which_nobody_can_listen(listen):
    with pytest.raises(ClusterError, match="--ray-listen"):
        Rendezvous("127.0.0.1", True, listen)
