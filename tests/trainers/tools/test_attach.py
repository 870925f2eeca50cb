"""Runs whose engines connect by themselves: the settings, and whole runs with real engines."""

import logging
import re
import signal
import socket
import ssl
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import pytest
from attached_runs import PATIENCE, AttachedRun, scenes
from console_runs import end, until, weights_are_finite
from lanista.envs.protocol import messages
from lanista.trainers.runner.environments import check_environment, make_env_manager
from lanista.trainers.settings.command_line import parse_command_line
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.models.run import EnvironmentSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.tools.attach import NewBehaviors, check_attaching, make_attach_server
from scripted_engine import exchange_with, free_port, hello, message, observation
from specs import spec_of_shapes

pytestmark = pytest.mark.slow


def options(**settings):
    return RunOptions.from_dict({"env_settings": {"listen": "127.0.0.1:0", **settings}})


# Settings ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "attaches"),
    [
        ({}, False),
        ({"listen": "0.0.0.0"}, False),
        ({"listen": "::"}, False),
        ({"listen": "[::1]:5004"}, True),
        ({"listen": "localhost:5004", "num_envs": 4}, True),
        ({"listen": "10.0.0.1", "env_path": "Game"}, False),
    ],
)
def test_an_address_with_a_port_is_where_engines_connect_by_themselves(settings, attaches):
    assert EnvironmentSettings.model_validate(settings).attaches is attaches


def test_networks_are_given_one_by_one_on_the_command_line():
    line = ["--listen", "0.0.0.0:5004", "--allow", "10.0.0.0/8", "--allow", "fd00::/8", "--num-envs", "2"]
    assert parse_command_line(line).env_settings.allow == ["10.0.0.0/8", "fd00::/8"]


def serving(given):
    """The server of these options, closed after the block."""
    return closing(make_attach_server(given.env_settings, lambda engine: None))


def test_the_server_does_what_the_settings_say(tmp_path, caplog):
    pytest.importorskip("cryptography")
    token = tmp_path / "token"
    caplog.set_level(logging.INFO)
    with serving(options(allow=["10.0.0.0/8"], token_file=str(token))) as server:
        networks, secret = server._rules.networks, token.read_text().strip()
        assert networks.admit("10.1.1.1") and not networks.admit("11.1.1.1")
        assert isinstance(server._rules.tls, ssl.SSLContext) and server._token == secret
    assert secret not in caplog.text, "a secret is not logged"
    command = re.search(r"lanista relay 127\.0\.0\.1:\d+ --token-file \S+ --fingerprint (\S+)", caplog.text)
    assert command and len(command[1]) == 95


def test_without_a_token_no_relay_is_accepted(monkeypatch):
    monkeypatch.delenv("LANISTA_TOKEN", raising=False)
    with serving(options()) as server:
        assert server._rules.tls is None and server._token is None


def test_the_token_may_be_in_the_environment(monkeypatch):
    pytest.importorskip("cryptography")
    monkeypatch.setenv("LANISTA_TOKEN", "t" * 20)
    given = options()
    check_attaching(given)
    with serving(given) as server:
        assert server._token == "t" * 20 and server._rules.tls is not None
    assert "t" * 20 not in str(given.as_dict())


def test_a_certificate_of_ones_own(tmp_path, caplog):
    pytest.importorskip("cryptography")
    pem, key = certificate(tmp_path)
    token = tmp_path / "token"
    token.write_text("t" * 20)
    given = options(token_file=str(token), tls_cert=str(pem), tls_key=str(key))
    check_attaching(given)
    with caplog.at_level(logging.INFO), serving(given):
        assert "--fingerprint" in caplog.text
    other, _ = certificate(tmp_path / "other")
    mixed = options(token_file=str(token), tls_cert=str(other), tls_key=str(key))
    with pytest.raises(TrainerConfigError, match="key values mismatch"):
        check_attaching(mixed)


def certificate(folder):
    folder.mkdir(exist_ok=True)
    pem, key = folder / "cert.pem", folder / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made = ["-subj", "/CN=trainer", "-days", "1", "-out", str(pem), "-keyout", str(key)]
    try:
        subprocess.run([*make, *made], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl on this machine")
    return pem, key


def test_a_check_leaves_no_files(tmp_path):
    pytest.importorskip("cryptography")
    port = free_port()
    given = options(listen=f"127.0.0.1:{port}", token_file=str(tmp_path / "token"))
    check_environment(given)
    check_environment(given)
    assert list(tmp_path.iterdir()) == []


def test_a_behavior_that_is_not_configured_is_refused():
    spec = spec_of_shapes([[2]], continuous=1)

    def refusal(given, name):
        return NewBehaviors(given).refusal(name, spec, False)

    listed = RunOptions.from_text("behaviors: {Ball: {}}", "c.yaml")
    assert refusal(listed, "Ball?team=1") is None
    assert re.search(r"Cube .*c\.yaml.*Ball", refusal(listed, "Cube?team=0") or "")
    assert refusal(RunOptions.from_text("default_settings: {}", "c.yaml"), "Cube") is None
    assert refusal(RunOptions(), "Cube") is None


@pytest.mark.parametrize(
    ("settings", "spec", "reason"),
    [
        ("", spec_of_shapes([[3, 4, 4]], continuous=1), "image of 4x4"),
        ("", spec_of_shapes([[0]], continuous=1), "no numbers in them"),
        ("trainer_type: dqn", spec_of_shapes([[2]], continuous=1), "It has .*continuous"),
        ("trainer_type: ddpg", spec_of_shapes([[2]], branches=(2,)), "It has .*discrete"),
        (
            "network_settings: {vis_encode_type: match3}, reward_signals: {rnd: {strength: 1.0, "
            "network_settings: {vis_encode_type: simple}}}",
            spec_of_shapes([[3, 7, 7]], continuous=1),
            "image of 7x7",
        ),
        (
            "behavioral_cloning: {demo_path: nowhere.demo, steps: 10}",
            spec_of_shapes([[2]], continuous=1),
            "nowhere.demo",
        ),
        (
            "trainer_type: sac, demonstrations: {demo_path: nowhere.demo}",
            spec_of_shapes([[2]], continuous=1),
            "nowhere.demo",
        ),
    ],
)
def test_while_others_train_an_untrainable_behavior_is_reported_only_to_its_engine(settings, spec, reason):
    for key in ("default_settings: {%s}", "behaviors: {Ball: {%s}}"):
        given = RunOptions.from_text(key % settings, "c.yaml")
        listed, new = dict(given.behaviors), NewBehaviors(given)
        assert new.refusal("Ball?team=0", spec, False) is None, "it ends the run, with its error"
        for team in (0, 1):
            told = new.refusal(f"Ball?team={team}", spec, True) or ""
            assert re.search(f"Ball cannot be trained: .*{reason}", told)
        assert given.behaviors == listed


@pytest.mark.parametrize("name", ["../../x", "a/b", "", ".", "run_logs", "x" * 5000, "a\nb"])
def test_while_others_train_a_name_that_no_folder_can_have_is_reported_only_to_its_engine(name):
    new = NewBehaviors(RunOptions.from_text("default_settings: {}", "c.yaml"))
    told = new.refusal(f"{name}?team=0", spec_of_shapes([[2]], continuous=1), True) or ""
    assert "cannot be trained: its name is that of its folder" in told and len(told) < 500


def test_each_engine_gets_the_seed_of_its_index():
    given = options(num_envs=2)
    manager = make_env_manager(given, 100, Path("unused"))
    port = manager._admission.source.server.port
    seeds = []
    try:
        starting = threading.Thread(target=manager.start, daemon=True)
        starting.start()
        for _ in range(2):
            channel, exchange = exchange_with(port)
            reply = messages.UnityMessageProto.FromString(exchange(message(hello())))
            seeds.append(reply.unity_input.rl_initialization_input.seed)
            threading.Thread(target=_wait_in_the_second_call, args=(channel, exchange), daemon=True).start()
        starting.join(20)
        assert not starting.is_alive()
    finally:
        manager.close(at_once=True)
    assert sorted(seeds) == [100, 101]


def _wait_in_the_second_call(channel, exchange):
    with channel:
        exchange(message(None))


# Whole runs -------------------------------------------------------------------------------------------


@pytest.fixture
def scene():
    with scenes() as scene:
        yield scene


def test_a_run_takes_engines_as_they_come_and_go(tmp_path, scene):
    run = AttachedRun(tmp_path, free_port(), "--num-envs", "2", max_steps=100000)
    first, second = scene(run.port), scene(run.port)
    assert run.says("Exported")
    first.kill()
    assert run.says("has left: its connection was dropped by the other side.")
    third = scene(run.port)
    assert until(lambda: run.said.count("has joined: 2 engines now.") == 2)
    stranger = scene(run.port, "ball3d")
    assert run.says("its behavior 3DBall is not in the configuration c.yaml (listed: Basic)")
    run.process.send_signal(signal.SIGINT)
    ended = run.end()
    assert [process.wait(PATIENCE) for process in (second, third, stranger)] == [0, 0, 0], (
        "all receive the command to quit"
    )
    assert "Connected to scene:basic" in ended.out and "Connected new brain: Basic" in ended.out
    assert "Connected to scene:ball3d" not in ended.out and "Connected new brain: 3DBall" not in ended.out
    assert weights_are_finite(ended.files("*.pt")) and ended.files("Basic.onnx")
    recorded = (tmp_path / "results" / "r" / "configuration.yaml").read_text()
    assert f"listen: 127.0.0.1:{run.port}" in recorded


def test_games_of_unity_and_of_unreal_are_trained_on_together(tmp_path, scene):
    run = AttachedRun(tmp_path, free_port(), "--num-envs", "2", max_steps=400)
    games = [scene(run.port), scene(run.port, unreal=True)]
    ended = run.end()
    assert "Connected to scene:basic (ML-Agents' protocol)" in ended.out
    assert "Connected to scene:basic (UnrealMLAgents' protocol)" in ended.out
    assert [process.wait(PATIENCE) for process in games] == [0, 0]


def test_ctrl_c_ends_a_run_that_listens_with_one_line(tmp_path):
    run = AttachedRun(tmp_path, free_port())
    run.process.send_signal(signal.SIGINT)
    ended = end(run.process, tmp_path)
    assert ended.status == 130 and ended.err.strip() == "lanista-learn: stopped before anything was learned."


def test_ctrl_c_ends_a_run_that_has_lost_all_engines(tmp_path, scene):
    run = AttachedRun(tmp_path, free_port(), max_steps=100000)
    engine = scene(run.port)
    assert run.says("Exported")
    engine.kill()
    assert run.says("No engine is left: the run waits for the next one")
    run.process.send_signal(signal.SIGINT)
    assert run.end().files("Basic.onnx")


def test_a_client_that_is_no_engine_does_not_end_the_wait(tmp_path, scene):
    run = AttachedRun(tmp_path, free_port(), max_steps=100)
    with socket.create_connection(("127.0.0.1", run.port)) as browser:
        browser.sendall(b"GET / HTTP/1.1\r\nHost: trainer\r\n\r\n")
        assert run.says("it speaks HTTP/1, as browsers do")
    engine = scene(run.port)
    run.end()
    assert engine.wait(PATIENCE) == 0


def test_only_the_engine_of_another_build_is_rejected(tmp_path, scene):
    run = AttachedRun(tmp_path, free_port(), max_steps=100000)
    scene(run.port)
    assert run.says("Exported")
    channel, exchange = exchange_with(run.port)
    with channel:
        exchange(message(hello()))
        exchange(message(None))
        last = exchange(message(observation(1.0, 2.0, name="Basic?team=0")))
    assert last == message(None, 400)
    run.process.send_signal(signal.SIGINT)
    told = r"Turned away environment 1 .*describe the behavior 'Basic\?team=0' differently"
    assert re.search(told, run.end().out)
