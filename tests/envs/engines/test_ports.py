"""Ports: a taken one is found out and its holder named, a free one is searched for."""

import errno
import os
import socket
import subprocess
import sys

import pytest
from lanista.envs.engines.options import EngineOptions
from lanista.envs.engines.ports import PortInUseError, claim, holder, serve
from mlagents_envs.exception import UnityEnvironmentException, UnityWorkerInUseException


def listen(port: int) -> socket.socket:
    server = socket.socket()
    try:
        server.bind(("127.0.0.1", port))
        server.listen()
    except OSError:
        server.close()
        raise
    return server


@pytest.fixture
def taken():
    with listen(0) as server:
        yield server.getsockname()[1]


def test_a_free_port_is_taken_as_it_is(taken):
    with listen(0) as probe:
        free = probe.getsockname()[1]
    with claim(listen, free, search=False) as server:
        assert server.getsockname()[1] == free


def test_search_goes_on_to_the_next_free_port(taken):
    with claim(listen, taken, search=True) as server:
        assert server.getsockname()[1] > taken


def test_a_listener_that_accepts_nobody_is_not_waited_for():
    tried = []

    def listen_and_note(port: int) -> socket.socket:
        tried.append(port)
        return listen(port)

    with socket.socket() as server, socket.socket() as one, socket.socket() as other:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        for caller in (one, other):  # fill its backlog: a further connection is not answered
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port))
        claim(listen_and_note, port, search=True).close()
    assert port not in tried


def test_a_port_given_on_purpose_is_an_error_that_names_the_holder(taken):
    with pytest.raises(UnityWorkerInUseException) as error:
        claim(listen, taken, search=False, worker_id=3, remedy="Use --base-port.")
    assert error.type is PortInUseError
    assert "worker number 3" in str(error.value) and "Use --base-port." in str(error.value)
    assert f"Port {taken} is held by this very process, {os.getpid()}" in str(error.value)


def test_a_listener_on_every_address_counts_as_taken():
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen()
        with pytest.raises(PortInUseError):
            claim(lambda port: port, server.getsockname()[1], search=False)


def forbidden(port: int) -> socket.socket:
    if port < 65000:
        raise PermissionError(errno.EACCES, "Permission denied")
    return listen(port)


def test_a_search_skips_ports_that_the_user_may_not_use():
    with claim(forbidden, 64990, search=True) as server:
        assert server.getsockname()[1] >= 65000


@pytest.mark.parametrize("port", [65536, 70000, -1])
@pytest.mark.parametrize("search", [False, True])
def test_a_port_out_of_range_is_an_error_with_the_remedy(port, search):
    with pytest.raises(UnityEnvironmentException, match=rf"Environment 3 .*{port}.*base_port"):
        claim(listen, port, search=search, worker_id=3)


def test_too_many_open_files_are_no_fault_of_the_address():
    def exhausted(port: int) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(
        UnityEnvironmentException, match=r"environment 3: .*open files.*--num-envs.*ulimit -n"
    ):
        serve(exhausted, EngineOptions(worker_id=3), 50000, search=True, remedy="")
    with pytest.raises(UnityEnvironmentException, match=r"Too many open files\. Raise the limit"):
        serve(exhausted, EngineOptions(), 50000, search=True, remedy="")


def test_the_holder_is_named_with_its_command():
    script = "import socket; s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen()\n"
    script += "print(s.getsockname()[1], flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        port = int(other.stdout.readline())
        described = holder(port)
        other.communicate("\n")
    assert f"process {other.pid}" in described and "socket.socket()" in described


def test_a_port_without_a_listener_has_no_known_holder():
    with listen(0) as probe:
        free = probe.getsockname()[1]
    assert "may not see" in holder(free)
