"""How a learner joins a Ray cluster and handles a driver that fails or is late."""

import io
import socket
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")
pytest.importorskip("cryptography")

from lanista.envs.engines.options import EngineOptions
from lanista.envs.errors import ClusterError
from lanista.envs.ray import cluster as cluster_module
from lanista.envs.ray.cluster import Cluster, join
from lanista.envs.ray.driver import Driver
from lanista.envs.ray.driver_process import DriverProcess
from lanista.envs.ray.nodes import ClusterSettings, Node
from lanista.envs.ray.rendezvous import Rendezvous
from mlagents_envs.exception import UnityEnvironmentException
from scripted_engine import free_port

SCENE = EngineOptions(path="scene:basic", timeout_wait=30.0)
DRIVER = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    answers = {"check": {"result": []}, "request_resources": {"result": None}}
    if call["do"] == "die":
        break
    if call["do"] == "place":
        given = call["with"]
        error = f"{given['place_timeout']:g} s for room, {given['start_timeout']:g} s to start"
        answers["place"] = {"error": error, "kind": "failed"}
    answer = answers.get(call["do"], {"error": "the head\\nis gone", "kind": "failed"})
    print(json.dumps({"id": call["id"], **answer}), flush=True)
"""


@pytest.fixture
def drivers(monkeypatch):
    """The drivers that were started, for a cluster of one node with two processors."""
    started = []

    def start(address, on_event):
        started.append(DriverProcess(on_event, [sys.executable, "-c", DRIVER]))
        node = Node("ab12cd34ef", "127.0.0.1", 1, 2.0)
        return started[-1], {"address": "127.0.0.1", "nodes": [node.as_dict()]}

    monkeypatch.setattr(cluster_module, "join", start)
    yield started
    for driver in started:
        driver.close()


def test_a_call_that_fails_while_the_cluster_grows_is_reported_in_one_line(drivers):
    with pytest.raises(ClusterError, match=r"^The nodes of the Ray cluster do not answer: the head is gone$"):
        Cluster(ClusterSettings("auto", wait=60.0), SCENE, 4)
    assert not drivers[0].alive


def test_a_driver_that_starts_after_close_is_ended(drivers, monkeypatch):
    cluster = Cluster(ClusterSettings("auto"), SCENE, 1)
    with pytest.raises(ClusterError):
        drivers[0].call("die", 30.0)
    again = cluster_module.join

    def join_late(address, on_event):
        joined = again(address, on_event)
        cluster.close()
        return joined

    monkeypatch.setattr(cluster_module, "join", join_late)
    with pytest.raises(ClusterError, match="was closed"):
        cluster.connect(SCENE, lambda: None)
    assert len(drivers) == 2 and not drivers[1].alive


@pytest.mark.parametrize("requested", [True, False])
def test_requested_resources_are_released_at_the_end(requested, monkeypatch):
    sdk = pytest.importorskip("ray.autoscaler.sdk")
    requests = []
    monkeypatch.setattr(sdk, "request_resources", lambda bundles: requests.append(bundles))
    driver = Driver(io.StringIO())
    driver._actors = SimpleNamespace(end_all=lambda: None)
    if requested:
        driver.do_request_resources(2, 0.5)
    driver.leave()
    assert requests == ([[{"CPU": 0.5}, {"CPU": 0.5}], []] if requested else [])


@pytest.mark.parametrize(("game", "starting"), [("scene:basic", 30), ("registry:Ball", 600)])
def test_an_engine_that_is_downloaded_has_more_time_to_start(drivers, game, starting):
    """The wait for room is no longer: a full cluster is reported as soon as for any other engine."""
    spec = EngineOptions(path=game, timeout_wait=30.0)
    cluster = Cluster(ClusterSettings("auto", wait=5.0), spec, 1)
    with pytest.raises(UnityEnvironmentException, match=f"on 35 s for room, {starting} s to start"):
        cluster.connect(spec, lambda: None)
    cluster.close()


def error_of(address: str, seconds: float = 2.0) -> str:
    with pytest.raises(ClusterError) as caught:
        join(address, lambda event: None, seconds)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_head_that_cannot_be_reached_is_an_error():
    address = f"127.0.0.1:{free_port()}"
    assert error_of(address).startswith(f"No Ray head answers at {address} (--ray): ")


def test_a_server_that_is_not_a_ray_head_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        message = error_of(f"127.0.0.1:{silent.getsockname()[1]}")
    assert "it did not answer as Ray's head does within 2 s; has it ended?" in message


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("ray://10.0.0.1:10001", "the learner runs on a node of the cluster"),
        ("head", "expected auto, local, or HOST:PORT of the head"),
        ("head:much", "'much' is not a port"),
    ],
)
def test_an_invalid_head_address_is_an_error(address, reason):
    assert reason in error_of(address)


@pytest.mark.parametrize("listen", ["198.51.100.7", "1.2.3.4:x"])
def test_an_address_that_cannot_be_listened_at_names_the_flag(listen):
    with pytest.raises(ClusterError, match="--ray-listen"):
        Rendezvous("127.0.0.1", True, listen)
