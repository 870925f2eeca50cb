"""What a node does for one engine, without a cluster around it."""

import queue
import sys
from dataclasses import replace

import pytest

pytest.importorskip("cryptography")

from lanista.envs.hosting.source import HostedSource
from lanista.envs.ray.node_agent import NodeAgent, NodeAgentError, check
from lanista.envs.ray.rendezvous import Rendezvous
from lanista.envs.ray.spec import EngineSpec
from lanista.envs.unity import UnityEnvironment
from lanista.envs.unity.launch import HOSTED
from scripted_engine import executable, free_port

PATIENCE = 30.0
CRASH = """\
greet()
ask(message(observation(1.0, 0.5)))
print("the disk is full", flush=True)
os._exit(7)
"""


@pytest.fixture
def rendezvous():
    rendezvous = Rendezvous("127.0.0.1", True, None)
    yield rendezvous
    rendezvous.close()


def wanted(file_name: str, **options) -> EngineSpec:
    return EngineSpec(file_name, 3, PATIENCE, **options)


def test_an_engine_is_carried_to_the_learner_and_its_end_is_known(rendezvous, tmp_path):
    game = executable(tmp_path, CRASH)
    with rendezvous.expect(wanted(game, log_folder=tmp_path / "logs"), "env-3-0") as (expected, order):
        host = NodeAgent(order)
        engine = expected.wait(PATIENCE)
    assert host.log == tmp_path / "logs" / "Player-3.log"
    env = UnityEnvironment(connect=lambda _: engine.connection("environment 3", PATIENCE))
    env.reset()
    with pytest.raises(Exception, match="Communicator has exited"):
        env.step()
    env.close()
    report = host.await_end()
    assert report["returncode"] == 7 and "the disk is full" in report["text"]


def test_an_environment_in_python_is_hosted_on_a_node(rendezvous):
    pytest.importorskip("gymnasium")
    source = HostedSource("gymnasium:CartPole-v1")
    order = wanted(HOSTED + source.path, additional_args=source.options())
    with rendezvous.expect(order, "env-3-0") as (expected, told):
        host = NodeAgent(told)
        engine = expected.wait(PATIENCE)
    env = UnityEnvironment(connect=lambda _: engine.connection("environment 3", PATIENCE))
    env.reset()
    assert list(env.behavior_specs) == ["CartPole-v1?team=0"]
    env.close()
    assert host.await_end()["returncode"] == 0


def test_an_engine_ends_when_the_learner_hangs_up(rendezvous):
    with rendezvous.expect(wanted("scene:basic"), "env-3-0") as (expected, order):
        host = NodeAgent(order)
        engine = expected.wait(PATIENCE)
    assert host.report()["returncode"] is None
    engine.reject()
    ended: queue.SimpleQueue = queue.SimpleQueue()
    ended.put(host.await_end())
    assert ended.get(timeout=PATIENCE)["returncode"] is not None


def test_a_token_lets_one_engine_in(rendezvous):
    with rendezvous.expect(wanted("scene:basic"), "env-3-0") as (expected, order):
        first = NodeAgent(order)
        engine = expected.wait(PATIENCE)
        with pytest.raises(NodeAgentError, match="wrong token"):
            NodeAgent(order)
    engine.reject()
    first.end()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": "9.9"}, r"it has Lanista .*, and the learner 9\.9: install the same version on both"),
        ({"file_name": "/nowhere/Game.x86_64"}, "Couldn't launch the Game environment"),
        ({"token": "x" * 32}, "it does not reach the learner: wrong token"),
        ({"fingerprint": "AB"}, "it does not reach the learner: its certificate has the fingerprint"),
        ({"port": None}, "it does not reach the learner: no trainer answers .*--ray-listen"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="the message of the executable differs there")
def test_what_a_node_cannot_do_is_known_before(rendezvous, changes, reason):
    if "port" in changes:
        changes = {"port": free_port()}
    with (
        rendezvous.expect(wanted("scene:basic"), "check-0") as (_, order),
        pytest.raises(NodeAgentError, match=reason),
    ):
        check(replace(order, **changes))


def test_a_path_is_the_same_on_the_nodes(rendezvous, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rendezvous.expect(wanted("Builds/Game.x86_64"), "a") as (_, order):
        assert order.file_name == str(tmp_path / "Builds" / "Game.x86_64")
    for name in ("scene:ball3d?areas=4", "registry:Basic", "hosted:python:game:make"):
        with rendezvous.expect(wanted(name), "a") as (_, order):
            assert order.file_name == name
