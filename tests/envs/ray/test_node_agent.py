"""What a node does for one engine, without a cluster."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

pytest.importorskip("cryptography")

import numpy as np
import scripted_game
from console_runs import until
from lanista.envs.engines.engine_errors import EngineErrors, ErrorPolicy
from lanista.envs.engines.options import UNCHANGED, EngineOptions
from lanista.envs.errors import OtherEngineError
from lanista.envs.godot.environment import GodotEnvironment
from lanista.envs.hosting.source import HostedSource
from lanista.envs.ray import node_agent
from lanista.envs.ray.node_agent import NodeAgent, NodeAgentError, check
from lanista.envs.ray.remote_engine import RemoteEngine
from lanista.envs.ray.rendezvous import Rendezvous, await_engine
from lanista.envs.remote.relay import RemoteTrainer, TryLaterError
from lanista.envs.unity import UnityEnvironment
from lanista.envs.unity.launch import HOSTED
from local_cluster import CRASHING_ENGINE
from mlagents_envs.base_env import ActionTuple
from mlagents_envs.exception import UnityException, UnityTimeOutException
from scripted_engine import executable, free_port

TIMEOUT = 30.0
posix = pytest.mark.posix("makes programs of scripts")


@pytest.fixture
def rendezvous():
    rendezvous = Rendezvous("127.0.0.1", True, None)
    yield rendezvous
    rendezvous.close()


def engine_spec(file_name: str, **options) -> EngineOptions:
    return EngineOptions.of(path=file_name, worker_id=3, timeout_wait=TIMEOUT, **options)


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


def launched(rendezvous, file_name, **options):
    """A Godot game on a node, and its connection's factory."""
    with rendezvous.expect(engine_spec(f"godot:{file_name}", **options), "env-3-0") as (expected, spec):
        agent = NodeAgent(spec)
        engine = expected.wait(TIMEOUT)
    return agent, lambda _: engine.connection("environment 3", TIMEOUT)


@posix
def test_a_godot_game_is_launched_on_a_node_and_greeted_by_the_learner(rendezvous, tmp_path):
    game = scripted_game.executable(tmp_path)
    options = {
        "no_graphics": True,
        "seed": 7,
        "log_folder": tmp_path / "logs",
        "additional_args": ["--level=2"],
    }
    agent, connect = launched(rendezvous, f"{game}?speedup=2&action_repeat=4", **options)
    env = GodotEnvironment("godot:elsewhere", connect=connect)
    env.reset()
    env.set_actions("walker?team=0", ActionTuple(np.array([[0.5]], np.float32)))
    env.step()
    decisions, _ = env.get_steps("walker?team=0")
    assert decisions.obs[0].tolist() == [[2, 0.5]] and decisions.reward.tolist() == [1]
    env.close()
    report = agent.await_end()
    assert report["returncode"] == 0
    for argument in ("--headless", "--fixed-fps 120", "--env_seed=7 --speedup=2 --action_repeat=4 --level=2"):
        assert argument in report["text"]
    assert agent.log == tmp_path / "logs" / "Player-3.log"
    assert f"--log-file {agent.log}" in report["text"]


FAILING_GAME = """
for _ in range(3):
    print("SCRIPT ERROR: no target.\\n   at: act (res://agent.gd:7)", flush=True)
play(Walker())
"""


@posix
@pytest.mark.parametrize("policy", ErrorPolicy)
def test_errors_that_a_game_prints_on_a_node_are_counted_at_the_learner(rendezvous, tmp_path, caplog, policy):
    errors = EngineErrors(policy)
    game = scripted_game.executable(tmp_path, FAILING_GAME)
    agent, connect = launched(rendezvous, game, log_folder=tmp_path / "logs", errors=errors)
    env = GodotEnvironment("godot:elsewhere", connect=connect)
    env.reset()
    remote = RemoteEngine("env-3-0", "environment 3", None, lambda: None, errors)
    if policy is ErrorPolicy.IGNORE:
        env.close()
        assert agent.await_end()["errors"] == []
        return
    until(lambda: sum(each["count"] for each in agent.errors()) == 3)
    first = json.loads(json.dumps(agent.errors()))
    remote.handle_event({"event": "errors", "errors": [{**first[0], "count": 2}]})
    env.close()
    remote.handle_event({"event": "ended", "report": agent.await_end()})
    assert [str(error) for error in remote.errors()] == ["no target (res://agent.gd:7)"]
    assert [(each.count, each.first) for each in errors.counts()] == [(3, remote.errors()[0])]
    assert errors.of_environment("environment 3") == 3
    assert "environment 3 (Godot) has printed an error: no target (res://agent.gd:7)." in caplog.text


@posix
def test_a_godot_game_in_real_time_keeps_to_the_clock_on_a_node(rendezvous, tmp_path):
    agent, connect = launched(
        rendezvous, scripted_game.executable(tmp_path), configuration=UNCHANGED._replace(time_scale=1.0)
    )
    GodotEnvironment("godot:elsewhere", connect=connect).close()
    text = agent.await_end()["text"]
    assert "--fixed-fps" not in text and "--headless" not in text


@posix
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("play(iter([{'type': 'env_info'}]))", "environment 0: the game has no agents to train"),
        ("play(iter([b'[]']))", "it does not speak the protocol of a Godot game"),
        ("play(iter([]))", "The connection to environment 3 was dropped by the other side"),
    ],
    ids=["no spaces", "no object", "nothing"],
)
def test_what_a_godot_game_on_a_node_says_wrongly_is_a_sentence(rendezvous, tmp_path, script, message):
    agent, connect = launched(rendezvous, scripted_game.executable(tmp_path, script))
    with pytest.raises(UnityException, match=message):
        GodotEnvironment("godot:elsewhere", connect=connect)
    assert agent.await_end()["returncode"] is not None


class RunningEngine:
    """A game that runs on a node."""

    rejection = ""

    def wait(self, timeout):
        return False

    def describe(self):
        return "It ran on node 10.0.0.2."


def test_a_godot_game_that_does_not_call_is_told_what_may_be_missing(rendezvous):
    engine = EngineOptions(path="godot:Game", worker_id=3, timeout_wait=0.3)
    message = (
        r"Godot environment took too long to respond: environment 3 did not connect within 0\.3 s\. "
        r"It has not called yet\. It calls only from a scene with a Sync node.*It ran on node 10\.0\.0\.2"
    )
    with (
        rendezvous.expect(engine, "env-3-0") as (expected, _),
        pytest.raises(UnityTimeOutException, match=message),
    ):
        await_engine(expected, RunningEngine(), engine)


@posix
def test_a_node_without_godots_engine_says_so(rendezvous, tmp_path, monkeypatch):
    (tmp_path / "project.godot").write_text("config_version=5\n")
    monkeypatch.setenv("LANISTA_GODOT", str(tmp_path / "gone"))
    with (
        rendezvous.expect(engine_spec(f"godot:{tmp_path}"), "check-0") as (_, spec),
        pytest.raises(NodeAgentError, match=r"LANISTA_GODOT is '.*gone', and that is no program"),
    ):
        check(spec)


@posix
@pytest.mark.parametrize("allow", [(), ("127.0.0.1",)])
def test_a_game_in_a_container_calls_on_a_node_where_that_is_allowed(rendezvous, tmp_path, allow):
    game = tmp_path / "Game.x86_64"
    game.write_text("#!/bin/sh\nexec sleep 600\n")
    game.chmod(0o755)
    with rendezvous.expect(engine_spec(str(game), allow=allow), "env-3-0") as (expected, launch_spec):
        agent = NodeAgent(launch_spec)
        called = subprocess.Popen(
            [sys.executable, "-m", "lanista.envs.scenes", "basic", "--mlagents-port", str(agent._relay.port)],
            stderr=subprocess.DEVNULL,
        )
        try:
            if allow:
                env = UnityEnvironment(
                    connect=lambda _: expected.wait(TIMEOUT).connection("environment 3", TIMEOUT)
                )
                env.reset()
                env.close()
                assert not agent.report(ending=False)["rejection"]
            else:
                assert called.wait(TIMEOUT) != 0
                assert "--allow 127.0.0.1 admits it" in agent.report(ending=False)["rejection"]
        finally:
            called.kill()
            called.wait(TIMEOUT)
            agent.end()


def test_an_engine_that_was_turned_away_on_its_node_is_told_so(rendezvous):
    engine = EngineOptions(path="scene:basic", worker_id=3, timeout_wait=0.3)
    turned_away = RunningEngine()
    turned_away.rejection = "it is another program"
    with (
        rendezvous.expect(engine, "env-3-0") as (expected, _),
        pytest.raises(
            UnityTimeOutException, match=r"turned away: it is another program\. It ran on"
        ) as raised,
    ):
        await_engine(expected, turned_away, engine)
    assert "did not start" not in str(raised.value)


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
        ({"file_name": "godot:/nowhere/Game"}, "Couldn't launch the Game environment"),
        ({"file_name": "godot:Game?speedup=x"}, "speedup=1"),
        ({"token": "x" * 32}, "it does not reach the learner: wrong token"),
        ({"fingerprint": "AB"}, "it does not reach the learner: its certificate has the fingerprint"),
        ({"port": None}, "it does not reach the learner: no trainer answers .*--ray-listen"),
    ],
)
@pytest.mark.posix("the message of the executable differs there")
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
    with rendezvous.expect(engine_spec("godot:game?scene=res://a.tscn"), "a") as (_, spec):
        assert spec.file_name == f"godot:{tmp_path / 'game'}?scene=res://a.tscn"


def test_a_node_asks_again_while_the_learner_is_flooded(rendezvous, monkeypatch):
    """Else a run would end, or an engine be counted as failed, for what others do to the learner's port."""
    refused = []

    def probe(trainer, name):
        refused.append(name)
        if len(refused) < 3:
            raise TryLaterError("it disconnected")

    monkeypatch.setattr(RemoteTrainer, "probe", probe)
    monkeypatch.setattr(node_agent, "_sleep", lambda later: True)
    with rendezvous.expect(engine_spec("scene:basic"), "check-0") as (_, spec):
        assert check(spec).port == spec.port
    assert len(refused) == 3
