"""Who may call on a port: the process that was started is known by its sockets, whoever greets first."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from lanista.envs.engines.address import AllowedNetworks
from lanista.envs.engines.clients import ClientRules, _warn_once, owner

DIAL = """
import os, socket, subprocess, sys
how, port = sys.argv[1], sys.argv[2]
if how == "child":
    sys.exit(subprocess.run([sys.executable, "-c", os.environ["DIAL"], "itself", port]).returncode)
if how == "daemon":
    if os.fork():
        sys.stdin.read()
        sys.exit()
    os.setsid()
    if os.fork():
        os._exit(0)
with socket.create_connection(("127.0.0.1", int(port))) as connection:
    connection.recv(1)
"""
MARK = "LANISTA_TEST_MARK=of this test"


@pytest.fixture
def dial() -> Iterator[Callable[[str], tuple[subprocess.Popen, tuple[str, int], int]]]:
    """Starts a process that connects, by itself or otherwise: the process, its address, the port."""
    with ExitStack() as stack:

        def dial(how: str) -> tuple[subprocess.Popen, tuple[str, int], int]:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            port = listener.getsockname()[1]
            process = subprocess.Popen(
                [sys.executable, "-c", DIAL, how, str(port)],
                env={**os.environ, "DIAL": DIAL, **dict([MARK.split("=")])},
                stdin=subprocess.PIPE,
            )
            stack.callback(process.wait)
            stack.callback(process.stdin.close)
            connection, address = listener.accept()
            stack.callback(connection.close)
            return process, address, port

        yield dial


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen]:
    """A process of ours that has not called."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    yield process
    process.stdin.close()
    process.wait()


@pytest.mark.parametrize("how", ["itself", "child"])
def test_the_process_that_was_started_and_its_children_are_the_engine(dial, how: str) -> None:
    process, caller, port = dial(how)
    assert ClientRules(pid=process.pid).rejection_reason(caller, port) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show environments of processes")
def test_what_has_left_the_process_that_was_started_is_known_by_its_environment(dial) -> None:
    process, caller, port = dial("daemon")
    assert ClientRules(pid=process.pid, mark=MARK).rejection_reason(caller, port) == ""
    assert ClientRules(pid=process.pid).rejection_reason(caller, port)


def test_another_program_of_this_machine_is_refused_unless_this_machine_is_allowed(dial, stranger) -> None:
    _, caller, port = dial("itself")
    refusal = ClientRules(pid=stranger.pid).rejection_reason(caller, port)
    assert "not the engine that was started" in refusal
    assert "--allow 127.0.0.1" in refusal
    assert (
        ClientRules(AllowedNetworks.parse(["127.0.0.1"]), stranger.pid).rejection_reason(caller, port) == ""
    )


@pytest.mark.parametrize("reaped", [True, False])
def test_where_the_engine_that_was_started_has_ended_nobody_is_accused(dial, stranger, reaped: bool) -> None:
    _, caller, port = dial("itself")
    stranger.stdin.close()
    if reaped:
        stranger.wait()
    elif not hasattr(os, "waitid"):
        pytest.skip("this system cannot wait for a process without reaping it")
    else:
        os.waitid(os.P_PID, stranger.pid, os.WEXITED | os.WNOWAIT)
    refusal = ClientRules(pid=stranger.pid).rejection_reason(caller, port)
    assert refusal == f"the engine that was started, process {stranger.pid}, has ended"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_where_no_process_is_known_anybody_on_this_machine_may_call(address: str) -> None:
    assert ClientRules().rejection_reason((address, 1), 2) == ""


@pytest.mark.parametrize("address", ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7"])
def test_another_machine_needs_to_be_allowed(address: str) -> None:
    """Also where a process was started: nobody there is that process."""
    for pid in (None, os.getpid()):
        assert "--allow" in ClientRules(pid=pid).rejection_reason((address, 1), 2)
        assert "--allow" in ClientRules(pid=pid).host_rejection_reason(address)
        networks = AllowedNetworks.parse(["192.0.2.0/24", "2001:db8::/32"])
        assert ClientRules(networks, pid).rejection_reason((address, 1), 2) == ""


def test_where_the_system_does_not_tell_there_is_a_warning(stranger, caplog) -> None:
    """A connection that it does not list stands for a system that lists none."""
    _warn_once.cache_clear()
    for _ in range(2):
        assert ClientRules(pid=stranger.pid).rejection_reason(("127.0.0.1", 1), 2) == ""
    assert caplog.text.count("does not tell which process calls") == 1


def test_who_has_left_is_nobody_known_and_is_refused(dial, stranger) -> None:
    """A caller may leave once it has called, so that the system tells nothing of its connection any more."""
    _, (host, number), port = dial("itself")
    gone = host, next(free for free in range(number + 1, number + 9) if free not in (number, port))
    assert "it left" in ClientRules(pid=stranger.pid).rejection_reason(gone, port)


def test_where_nothing_can_be_opened_to_look_who_calls_nobody_is_admitted(dial, monkeypatch) -> None:
    """Others may have taken the last of what this process may open."""
    process, caller, port = dial("itself")

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("psutil.Process.net_connections", refuse)
    assert "Too many open files" in ClientRules(pid=process.pid).rejection_reason(caller, port)


def test_the_owner_of_a_connection_is_named(dial) -> None:
    process, caller, port = dial("itself")
    assert f"process {process.pid} (" in owner(caller, port)
    assert owner(("127.0.0.1", 1), port) == ""
