"""Relays: engines on another machine connect over TLS, with a token."""

import logging
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from unittest.mock import Mock

import console_runs
import pytest

pytest.importorskip("cryptography")

from attach_servers import TIMEOUT, CollectingServer, endpoint, environment, greet_in_vain
from lanista.envs.engines.clients import ClientRules
from lanista.envs.engines.limits import LimitPerHost
from lanista.envs.grpc.frames import PREFACE
from lanista.envs.remote import relay as relay_module
from lanista.envs.remote import server
from lanista.envs.remote.handshake import AccessRules
from lanista.envs.remote.relay import (
    Relay,
    RelayRejectedError,
    RemoteTrainer,
    TryLaterError,
    UnreachableError,
)
from lanista.envs.remote.server import AttachServer
from lanista.envs.remote.tls import UntrustedError, client_context, read_fingerprint, self_signed
from lanista.envs.remote.tokens import make_token
from mlagents_envs.exception import UnityTimeOutException
from scripted_engine import ScriptedEngine, free_port, hello, message, observation

TOKEN = "correct-horse-battery"
LARGE = 3 << 20


class Side(CollectingServer):
    """A server with a certificate, and relays to it."""

    def __init__(self, context: ssl.SSLContext, fingerprint: str) -> None:
        super().__init__(AccessRules(tls=context), token=TOKEN)
        self.fingerprint = fingerprint
        self.relays: list[tuple[Relay, threading.Thread]] = []
        self.errors: list[Exception] = []

    def trainer(self, token: str = TOKEN, fingerprint: str | None = None) -> RemoteTrainer:
        expected = fingerprint or self.fingerprint
        return RemoteTrainer("127.0.0.1", self.port, token, client_context(pinned=True), expected)

    def start_relay(
        self, trainer: RemoteTrainer | None = None, name: str | None = None, *, once: bool = False
    ) -> Relay:
        relay = Relay(trainer or self.trainer(), 0, name)
        thread = threading.Thread(target=self._serve, args=(relay, once))
        thread.start()
        self.relays.append((relay, thread))
        return relay

    def _serve(self, relay: Relay, once: bool) -> None:
        try:
            relay.serve(once=once)
        except (RelayRejectedError, UntrustedError) as error:
            self.errors.append(error)

    def close(self) -> None:
        for relay, thread in self.relays:
            relay.close()
            thread.join(TIMEOUT)
            assert not thread.is_alive()
        super().close()


@pytest.fixture(scope="module")
def identity():
    context, fingerprint = self_signed("127.0.0.1")
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3 and len(fingerprint) == 95
    return context, fingerprint


@pytest.fixture
def side(identity) -> Iterator[Side]:
    side = Side(*identity)
    yield side
    side.close()


def until(holds) -> None:
    assert console_runs.until(holds, TIMEOUT)


def test_several_engines_connect_through_one_relay(side):
    relay = side.start_relay()
    engines = [
        ScriptedEngine(relay.port, [hello(), observation(k, 0.0), observation(k, 1.0)]) for k in range(3)
    ]
    envs = [environment(side.next()) for _ in engines]
    for env in envs:
        env.reset()
    for env in envs:
        env.step()
    assert sorted(env.get_steps("Ball?team=0")[0].obs[0][0, 0] for env in envs) == [0.0, 1.0, 2.0]
    for env in envs:
        env.close()
    for engine in engines:
        engine.join(TIMEOUT)
        assert engine.was_told_to_quit, "the last message arrives"


def test_large_messages_pass_in_both_directions(side):
    relay = side.start_relay()
    end = endpoint(relay.port)
    answers: list[bytes] = []

    def call() -> None:
        answers.append(end.exchange(message(hello())))
        answers.append(end.exchange(bytes(LARGE)))

    engine = threading.Thread(target=call)
    engine.start()
    connection = side.next().connection("environment 0", TIMEOUT)
    connection.receive()
    connection.reply(b"a")
    assert connection.receive() == bytes(LARGE)
    connection.reply(b"b" * LARGE)
    until(lambda: connection.poll() or not engine.is_alive())
    assert answers == [b"a", b"b" * LARGE]
    end.close()
    connection.close(0.0)


def test_the_end_of_an_engine_behind_a_relay_is_noticed(side):
    relay = side.start_relay()
    end = endpoint(relay.port)
    engine = threading.Thread(target=greet_in_vain, args=(end,))
    engine.start()
    connection = side.next().connection("environment 0", TIMEOUT)
    connection.receive()
    end.close()
    until(lambda: connection.poll() is None and connection.gone())
    connection.close()
    engine.join(TIMEOUT)


def test_a_relay_for_an_engine_that_was_started_carries_nobody_else(side, caplog):
    """As on the nodes of a cluster, where the place of an engine must not be taken either."""
    relay = side.start_relay()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        relay.client_rules = ClientRules(pid=started.pid)
        end = endpoint(relay.port)
        greet_in_vain(end)
        started.stdin.close()
    assert "not the engine that was started" in caplog.text
    relay.client_rules = ClientRules(pid=os.getpid())
    end = endpoint(relay.port)
    engine = threading.Thread(target=greet_in_vain, args=(end,))
    engine.start()
    connection = side.next().connection("environment 0", TIMEOUT)
    connection.receive()
    end.close()
    connection.close()
    engine.join(TIMEOUT)


def test_a_wrong_token_is_reported_on_both_sides(side, caplog):
    with caplog.at_level(logging.WARNING), pytest.raises(RelayRejectedError, match=r"^wrong token$"):
        side.trainer("wrong-horse-battery").probe()
    until(lambda: "wrong token" in caplog.text)
    assert TOKEN not in caplog.text and "wrong-horse" not in caplog.text


def test_guesses_of_tokens_are_slowed_down_and_do_not_keep_out_who_is_connected(side):
    """Beyond a few of one address, not even the right token is looked at for a while."""
    relay = side.start_relay()
    end = endpoint(relay.port)
    engine = threading.Thread(target=greet_in_vain, args=(end,))
    engine.start()
    connection = side.next().connection("environment 0", TIMEOUT)
    connection.receive()
    guess = side.trainer("wrong-horse-battery")
    guess_all(side)
    for trainer in (guess, side.trainer()):
        with pytest.raises(TryLaterError, match="too many wrong tokens came from its address; wait"):
            trainer.probe()
    assert not connection.gone()
    end.close()
    connection.close()
    engine.join(TIMEOUT)


def guess_all(side: Side) -> None:
    """So many wrong tokens that further ones of this address are slowed down."""
    for _ in range(server._GUESSES):
        with pytest.raises(RelayRejectedError, match=r"^wrong token$"):
            side.trainer("wrong-horse-battery").probe()


def forget_guesses(side: Side) -> None:
    """As after some time."""
    side.server._guesses = LimitPerHost(server._GUESSES, server._GUESSES_PER_SECOND)


def test_a_token_that_nobody_can_guess_is_admitted_while_guesses_of_its_address_are_slowed_down(side):
    """Else who guesses would keep out the relays of an address, as of a cluster's node."""
    with side.server.expect("actor-7") as expected:
        guess_all(side)
        side.trainer(expected.token).probe("actor-7")
        with pytest.raises(TryLaterError, match="too many wrong tokens"):
            side.trainer(make_token()).probe("actor-7")
    side.server._token = expected.token
    side.trainer(expected.token).probe()


def test_an_engine_waits_while_guesses_are_slowed_down_and_those_that_take_part_stay(
    side, caplog, monkeypatch
):
    monkeypatch.setattr(relay_module, "_LONGEST_WAIT", 0.2)
    relay = side.start_relay()
    ScriptedEngine(relay.port, [hello(), observation(1.0, 0.0), observation(2.0, 0.0)])
    first = environment(side.next())
    guess_all(side)
    ScriptedEngine(relay.port, [hello(), observation(3.0, 0.0)])
    until(lambda: "waits: the trainer at" in caplog.text)
    first.reset()
    forget_guesses(side)
    second = environment(side.next())
    first.step()
    second.reset()
    assert [env.get_steps("Ball?team=0")[0].obs[0][0, 0] for env in (first, second)] == [2.0, 3.0]
    first.close()
    second.close()
    assert not side.errors


def test_a_trainer_that_drops_connections_keeps_out_no_engine(side, monkeypatch, caplog):
    """As during a flood, in which it drops the slowest of too many."""
    begin, dropped = side.server._begin, []

    def drop(accepted, address, cost):
        dropped.append(address)
        accepted.close() if len(dropped) <= 2 else begin(accepted, address, cost)

    monkeypatch.setattr(side.server, "_begin", drop)
    monkeypatch.setattr(relay_module, "_LONGEST_WAIT", 0.2)
    relay = side.start_relay()
    end = endpoint(relay.port)  # gRPC's own would dial again
    engine = threading.Thread(target=greet_in_vain, args=(end,))
    engine.start()
    connection = side.next().connection("environment 0", TIMEOUT)
    connection.receive()
    end.close()
    connection.close()
    engine.join(TIMEOUT)
    assert len(dropped) == 3 and caplog.text.count("waits: ") == 1


@pytest.mark.parametrize(
    ("places", "seconds", "most", "reason"),
    [
        (1, TIMEOUT, 9, "is rejected: the trainer at"),
        (0, 0.01, 9, "the trainer could not be called for it in 0.01 s"),
        (0, TIMEOUT, 0, "too many others wait for the trainer"),
    ],
)
def test_an_engine_is_let_go_when_the_relay_ends_or_too_many_wait(
    side, caplog, monkeypatch, places, seconds, most, reason
):
    monkeypatch.setattr(relay_module, "_MAX_DIALING", places)
    monkeypatch.setattr(relay_module, "_BEGINNING_SECONDS", seconds)
    monkeypatch.setattr(relay_module, "MAX_CALLERS", most)
    guess_all(side)
    relay = side.start_relay()
    end = endpoint(relay.port)
    engine = threading.Thread(target=greet_in_vain, args=(end,))
    engine.start()
    if places:
        until(lambda: "waits: the trainer at" in caplog.text)
        relay.close()
    until(lambda: reason in caplog.text)
    engine.join(TIMEOUT)
    assert not engine.is_alive()
    end.close()


def test_callers_that_say_nothing_or_something_else_take_no_thread_and_are_not_dialed_for(
    side, monkeypatch, caplog
):
    relay = side.start_relay()
    dialed = []
    dial = side.server._begin
    monkeypatch.setattr(side.server, "_begin", lambda *call: (dialed.append(call), dial(*call)))
    before = threading.active_count()
    callers = [socket.create_connection(("127.0.0.1", relay.port), TIMEOUT) for _ in range(150)]
    for number, caller in enumerate(callers):
        caller.sendall((b"", b"PRI * HTTP/2.0\r\n", b"{")[number % 3])
    ScriptedEngine(relay.port, [hello(), observation(1.0, 0.0), observation(2.0, 0.0)])
    env = environment(side.next())
    env.reset()
    assert threading.active_count() <= before + 3, "the engine's own thread, the relay's for it, its reader"
    assert len(dialed) == 1
    env.step()
    env.close()
    for caller in callers:
        caller.close()
    assert "not HTTP/2; it begins with b'{'" in caplog.text


def test_an_engine_that_is_greeted_first_need_not_begin(side):
    """A Godot game on a node of a cluster says nothing before the trainer does."""
    relay = side.start_relay()
    relay.is_greeted = True
    with socket.create_connection(("127.0.0.1", relay.port), TIMEOUT) as game:
        assert game.recv(1 << 12)  # the trainer's settings: here it speaks HTTP/2


def test_engines_that_were_turned_away_do_not_end_a_relay_that_serves_one(side, caplog, monkeypatch):
    relay = side.start_relay(once=True)
    monkeypatch.setattr(relay_module, "PATIENCE_SECONDS", 0.0)
    guess_all(side)
    end = endpoint(relay.port)
    greet_in_vain(end)
    until(lambda: "is rejected: the trainer at" in caplog.text)
    forget_guesses(side)
    ScriptedEngine(relay.port, [hello(), observation(1.0, 2.0)])
    environment(side.next()).close()
    (_, thread), *_ = side.relays
    thread.join(TIMEOUT)
    assert not thread.is_alive() and not side.errors


@pytest.mark.parametrize("failing", ["dial", "forward", "start"])
def test_a_fault_with_one_engine_leaves_the_others_their_places(side, caplog, monkeypatch, failing):
    """It takes neither the place of one that dials, nor the end of the relay, nor that of its engines."""
    monkeypatch.setattr(relay_module, "_MAX_DIALING", 1)
    relay = side.start_relay()
    ScriptedEngine(relay.port, [hello(), observation(0.0, 1.0), observation(0.0, 2.0)])
    env = environment(side.next())
    env.reset()
    with monkeypatch.context() as patch:
        if failing == "dial":
            patch.setattr(relay, "_dial", Mock(side_effect=KeyError("a fault")))
        elif failing == "forward":
            patch.setattr(relay_module, "forward", Mock(side_effect=KeyError("a fault")))
        else:
            patch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        with suppress(OSError), socket.create_connection(("127.0.0.1", relay.port), TIMEOUT) as caller:
            caller.sendall(PREFACE)
            while caller.recv(4096):
                pass
        until(lambda: ("starts no more threads" if failing == "start" else "a fault") in caplog.text)
    env.step()
    env.close()
    ScriptedEngine(relay.port, [hello(), observation(1.0, 2.0)])
    environment(side.next()).close()


@pytest.mark.parametrize("change", ["token", "certificate"])
def test_no_refusal_ends_a_relay_that_was_admitted(side, caplog, change):
    """Its engines take part, and the answer may come from somebody in between."""
    relay = side.start_relay()
    ScriptedEngine(relay.port, [hello(), observation(1.0, 0.0), observation(2.0, 0.0)])
    env = environment(side.next())
    if change == "token":
        side.server._token = "another-token-than-that"
    else:
        side.server._rules = AccessRules(tls=self_signed("127.0.0.1")[0])
    end = endpoint(relay.port)
    greet_in_vain(end)
    until(lambda: "so the relay continues" in caplog.text)
    env.reset()
    env.step()
    assert env.get_steps("Ball?team=0")[0].obs[0][0, 0] == 2.0
    env.close()
    end.close()
    assert not side.errors


def test_a_relay_outlives_its_trainer_and_serves_the_next_one_with_its_token_and_certificate(
    side, identity, caplog
):
    relay = side.start_relay()
    ScriptedEngine(relay.port, [hello(), observation(1.0, 0.0)])
    environment(side.next()).close()
    side.server.close()
    end = endpoint(relay.port)
    greet_in_vain(end)
    until(lambda: f"is rejected: no trainer answers at 127.0.0.1:{side.port}" in caplog.text)
    end.close()
    side.server = AttachServer(
        "localhost", side.port, AccessRules(tls=identity[0]), token=TOKEN, on_engine=side.arrived.put
    )
    side.server.start()
    ScriptedEngine(relay.port, [hello(), observation(2.0, 0.0)])
    env = environment(side.next())
    env.reset()
    assert env.get_steps("Ball?team=0")[0].obs[0][0, 0] == 2.0
    env.close()
    assert not side.errors


def test_a_relay_that_starts_while_guesses_are_slowed_down_waits_and_says_so(side, caplog):
    guess_all(side)
    relay = Relay(side.trainer(), 0)
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            forget_guesses(side)

    relay.await_trainer(wait)
    assert len(waited) == 2 and all(1 <= seconds <= 15 for seconds in waited)
    assert caplog.text.count("does not admit relays from this address yet: too many wrong tokens came") == 1
    assert caplog.text.count("Trying again until it does") == 1
    relay.close()


def test_a_relay_of_another_version_is_told_so(side):
    with socket.create_connection(("127.0.0.1", side.port), TIMEOUT) as plain:
        client = client_context(pinned=True).wrap_socket(plain)
        client.sendall(b"lanista-relay/9 carry " + TOKEN.encode() + b" -\n")
        assert client.recv(1024) == b"no its relay belongs to another version of Lanista\n"


def test_a_relay_whose_token_is_rejected_ends(side, caplog):
    relay = side.start_relay(side.trainer("wrong-horse-battery"))
    end = endpoint(relay.port)
    greet_in_vain(end)
    until(lambda: side.errors)
    assert str(side.errors[0]) == "wrong token"


def test_a_trainer_with_another_certificate_is_not_sent_the_token(side, caplog):
    another = read_fingerprint("ab" * 32)
    with caplog.at_level(logging.WARNING), pytest.raises(UntrustedError, match="AB:AB"):
        side.trainer(fingerprint=another).probe()
    until(lambda: "it disconnected before its preamble" in caplog.text)
    with pytest.raises(UntrustedError, match="--fingerprint"):
        RemoteTrainer("127.0.0.1", side.port, TOKEN, client_context()).probe()
    until(lambda: "does not trust the certificate" in caplog.text)


def test_without_a_trainer_the_relay_reports_it_as_unreachable(side):
    trainer = RemoteTrainer("127.0.0.1", free_port(), TOKEN, client_context(pinned=True), side.fingerprint)
    with pytest.raises(UnreachableError, match="no trainer answers"):
        trainer.probe()


def test_a_trainer_that_admits_no_relays_is_an_error_that_names_the_flag(side, caplog):
    server = AttachServer("localhost", 0)
    server.start()
    trainer = RemoteTrainer("127.0.0.1", server.port, TOKEN, client_context(pinned=True), side.fingerprint)
    with caplog.at_level(logging.WARNING), pytest.raises(UnreachableError, match="--token-file"):
        trainer.probe()
    until(lambda: "it speaks TLS, as relays do, and relays are not admitted" in caplog.text)
    server.close()


def test_a_relay_waits_for_its_trainer_and_warns_once(side, caplog):
    trainer = RemoteTrainer("127.0.0.1", free_port(), TOKEN, client_context(pinned=True), side.fingerprint)
    relay = Relay(trainer, 0)
    waits = iter([None, None])

    def wait(seconds: float) -> None:
        next(waits)

    with caplog.at_level(logging.WARNING), pytest.raises(StopIteration):
        relay.await_trainer(wait)
    assert caplog.text.count("Trying again until it does") == 1
    relay.close()


def test_with_once_a_relay_ends_after_its_first_engine(side):
    relay = side.start_relay(once=True)
    ScriptedEngine(relay.port, [hello(), observation(1.0, 2.0)])
    environment(side.next()).close()
    (_, thread), *_ = side.relays
    thread.join(TIMEOUT)
    assert not thread.is_alive()


def test_the_relay_logs_why_an_engine_is_rejected(side, caplog):
    relay = side.start_relay()
    ScriptedEngine(relay.port, [hello("9.0.0")])
    with caplog.at_level(logging.INFO):
        with pytest.raises(Exception, match="not compatible"):
            environment(side.next())
        until(lambda: "the trainer rejected the engine: The communication API version" in caplog.text)


def test_the_relay_logs_why_another_client_is_rejected(side, caplog):
    relay = side.start_relay()
    with caplog.at_level(logging.INFO), socket.create_connection(("127.0.0.1", relay.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        until(lambda: "it speaks HTTP/1, as browsers do, but engines speak gRPC" in caplog.text)
    assert f"from port {relay.port}" in caplog.text


def test_an_expected_engine_goes_to_the_caller_that_waits_for_it(side):
    with side.server.expect("actor-7") as expected:
        relay = side.start_relay(side.trainer(expected.token), "actor-7")
        ScriptedEngine(relay.port, [hello(), observation(7.0, 2.0)])
        env = environment(expected.wait(TIMEOUT))
    env.reset()
    assert env.get_steps("Ball?team=0")[0].obs[0][0, 0] == 7.0
    env.close()
    assert side.arrived.empty()


def test_the_token_of_an_expected_engine_admits_one_engine_of_its_name(side):
    with side.server.expect("actor-7") as expected:
        with pytest.raises(ValueError, match="expected already"), side.server.expect("actor-7"):
            pass
        for name, token in (("actor-8", expected.token), ("actor-7", TOKEN), (None, expected.token)):
            with pytest.raises(RelayRejectedError):
                side.trainer(token).dial(name)
        relay = side.start_relay(side.trainer(expected.token), "actor-7")
        ScriptedEngine(relay.port, [hello(), observation(7.0, 2.0)])
        engine = expected.wait(TIMEOUT)
        with pytest.raises(RelayRejectedError):
            side.trainer(expected.token).dial("actor-7")
        engine.reject()
        with pytest.raises(UnityTimeOutException, match="'actor-7'"):
            expected.wait(0.01)


def test_the_token_of_an_expected_engine_ends_with_the_wait(side):
    with side.server.expect("actor-7") as expected:
        pass
    with pytest.raises(RelayRejectedError):
        side.trainer(expected.token).dial("actor-7")
