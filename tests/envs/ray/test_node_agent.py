"""What a node does for one engine, without a cluster."""

import sys
from dataclasses import replace

import pytest

pytest.importorskip("cryptography")

from lanista.envs.errors import OtherEngineError
from lanista.envs.hosting.source import HostedSource
from lanista.envs.ray.node_agent import NodeAgent, NodeAgentError, check
from lanista.envs.ray.rendezvous import Rendezvous
from lanista.envs.ray.spec import EngineSpec
from lanista.envs.unity import UnityEnvironment
from lanista.envs.unity.launch import HOSTED
from local_cluster import CRASHING_ENGINE
from scripted_engine import executable, free_port

TIMEOUT = 30.0


@pytest.fixture
def rendezvous():
    rendezvous = Rendezvous("127.0.0.1", True, None)
    yield rendezvous
    rendezvous.close()


def engine_spec(file_name: str, **options) -> EngineSpec:
    return EngineSpec(file_name, 3, TIMEOUT, **options)


def test_an_engine_is_connected_to_the_learner_and_its_end_is_reported(rendezvous, tmp_path):
    game = executable(tmp_path, CRASHING_ENGINE)
    with rendezvous.expect(engine_spec(game, log_folder=tmp_path / "logs"), "env-3-0") as (expected, spec):
        agent = NodeAgent(spec)
        engine = expected.wait(TIMEOUT)
    assert agent.log == tmp_path / "logs" / "Player-3.log"
    env = UnityEnvironment(connect=lambda _: engine.connection("environment 3", TIMEOUT))
    env.reset()
    with pytest.raises(Exception, match="Communicator has exited"):
        env.step()
    env.close()
    report = agent.await_end()
    assert report["returncode"] == 7 and "the disk is full" in report["text"]


@pytest.mark.parametrize("name", ["unreal:", None])
def test_a_game_of_unreal_is_launched_on_a_node_and_told_from_unitys(rendezvous, name):
    with rendezvous.expect(engine_spec("unreal:scene:basic"), "env-3-0") as (expected, launch_spec):
        agent = NodeAgent(launch_spec)
        engine = expected.wait(TIMEOUT)
    if name is None:
        with pytest.raises(OtherEngineError, match="one of Unreal, where one of Unity was expected"):
            UnityEnvironment(connect=lambda _: engine.connection("environment 3", TIMEOUT))
        assert agent.await_end()["returncode"] == 0
        return
    env = UnityEnvironment(name, connect=lambda _: engine.connection("environment 3", TIMEOUT))
    env.reset()
    env.step()
    assert list(env.behavior_specs) == ["Basic?team=0"]
    env.close()
    assert agent.await_end()["returncode"] == 0


def test_an_environment_in_python_is_hosted_on_a_node(rendezvous):
    pytest.importorskip("gymnasium")
    source = HostedSource("gymnasium:CartPole-v1")
    spec = engine_spec(HOSTED + source.path, additional_args=source.options())
    with rendezvous.expect(spec, "env-3-0") as (expected, launch_spec):
        agent = NodeAgent(launch_spec)
        engine = expected.wait(TIMEOUT)
    env = UnityEnvironment(connect=lambda _: engine.connection("environment 3", TIMEOUT))
    env.reset()
    assert list(env.behavior_specs) == ["CartPole-v1?team=0"]
    env.close()
    assert agent.await_end()["returncode"] == 0


def test_an_engine_ends_when_the_learner_disconnects(rendezvous):
    with rendezvous.expect(engine_spec("scene:basic"), "env-3-0") as (expected, spec):
        agent = NodeAgent(spec)
        engine = expected.wait(TIMEOUT)
    assert agent.report()["returncode"] is None
    engine.reject()
    assert agent.await_end()["returncode"] is not None


def test_a_token_admits_one_engine(rendezvous):
    with rendezvous.expect(engine_spec("scene:basic"), "env-3-0") as (expected, spec):
        first = NodeAgent(spec)
        engine = expected.wait(TIMEOUT)
        with pytest.raises(NodeAgentError, match="wrong token"):
            NodeAgent(spec)
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
def test_the_check_reports_what_a_node_lacks(rendezvous, changes, reason):
    if "port" in changes:
        changes = {"port": free_port()}
    with (
        rendezvous.expect(engine_spec("scene:basic"), "check-0") as (_, spec),
        pytest.raises(NodeAgentError, match=reason),
    ):
        check(replace(spec, **changes))


def test_paths_are_sent_as_absolute_paths(rendezvous, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with rendezvous.expect(engine_spec("Builds/Game.x86_64"), "a") as (_, spec):
        assert spec.file_name == str(tmp_path / "Builds" / "Game.x86_64")
    for name in ("scene:ball3d?areas=4", "registry:Basic", "hosted:python:game:make"):
        with rendezvous.expect(engine_spec(name), "a") as (_, spec):
            assert spec.file_name == name
    with rendezvous.expect(engine_spec("unreal:Linux/Game.sh"), "a") as (_, spec):
        assert spec.file_name == f"unreal:{tmp_path / 'Linux' / 'Game.sh'}"
