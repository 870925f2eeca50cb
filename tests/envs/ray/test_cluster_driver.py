"""How a learner joins a Ray cluster, and copes with a driver that fails or is late."""

import io
import socket
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("ray")
pytest.importorskip("cryptography")

from lanista.envs.errors import ClusterError
from lanista.envs.ray import cluster as cluster_module
from lanista.envs.ray.cluster import Cluster, join
from lanista.envs.ray.driver import Driver
from lanista.envs.ray.driver_process import DriverProcess
from lanista.envs.ray.nodes import Node
from lanista.envs.ray.rendezvous import Rendezvous
from lanista.envs.ray.spec import ClusterSettings, EngineSpec
from mlagents_envs.exception import UnityEnvironmentException
from scripted_engine import free_port

SCENE = EngineSpec("scene:basic", 0, 30.0)
DRIVER = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    answers = {"check": {"result": []}, "request_resources": {"result": None}}
    if call["do"] == "die":
        break
    if call["do"] == "place":
        asked = call["with"]
        told = f"{asked['place_timeout']:g} s for room, {asked['start_timeout']:g} s to start"
        answers["place"] = {"error": told, "kind": "failed"}
    answer = answers.get(call["do"], {"error": "the head\\nis gone", "kind": "failed"})
    print(json.dumps({"id": call["id"], **answer}), flush=True)
"""


@pytest.fixture
def drivers(monkeypatch):
    """The drivers that were started; a cluster of one node with two processors."""
    started = []

    def start(address, on_event):
        started.append(DriverProcess(on_event, [sys.executable, "-c", DRIVER]))
        node = Node("ab12cd34ef", "127.0.0.1", 1, 2.0)
        return started[-1], {"address": "127.0.0.1", "nodes": [node.as_dict()]}

    monkeypatch.setattr(cluster_module, "join", start)
    yield started
    for driver in started:
        driver.close()


def test_a_question_that_fails_while_the_cluster_grows_is_told_in_one_line(drivers):
    with pytest.raises(ClusterError, match=r"^The nodes of the Ray cluster do not answer: the head is gone$"):
        Cluster(ClusterSettings("auto", wait=60.0), SCENE, 4)
    assert not drivers[0].alive


def test_a_driver_that_comes_after_the_close_is_ended(drivers, monkeypatch):
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
        cluster.connect(SCENE, "environment 0", lambda: None)
    assert len(drivers) == 2 and not drivers[1].alive


@pytest.mark.parametrize("wished", [True, False])
def test_a_wish_is_withdrawn_at_the_end(wished, monkeypatch):
    sdk = pytest.importorskip("ray.autoscaler.sdk")
    asked = []
    monkeypatch.setattr(sdk, "request_resources", lambda bundles: asked.append(bundles))
    driver = Driver(io.StringIO())
    driver._actors = SimpleNamespace(end_all=lambda: None)
    if wished:
        driver.do_request_resources(2, 0.5)
    driver.leave()
    assert asked == ([[{"CPU": 0.5}, {"CPU": 0.5}], []] if wished else [])


@pytest.mark.parametrize(("game", "starting"), [("scene:basic", 30), ("registry:Ball", 600)])
def test_a_node_that_has_taken_an_engine_has_the_time_to_download_it(drivers, game, starting):
    """Room is not waited for any longer: a full cluster is told of as soon as with any other game."""
    order = EngineSpec(game, 0, 30.0)
    cluster = Cluster(ClusterSettings("auto", wait=5.0), order, 1)
    with pytest.raises(UnityEnvironmentException, match=f"on 35 s for room, {starting} s to start"):
        cluster.connect(order, "environment 0", lambda: None)
    cluster.close()


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
