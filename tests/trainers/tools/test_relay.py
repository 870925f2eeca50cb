"""`lanista relay`: its arguments, its messages, and a whole run through it."""

import os
import re
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from attached_runs import AttachedRun, scenes
from console_runs import until
from lanista.trainers.cli.main import run
from scripted_engine import free_port

pytest.importorskip("cryptography")

from lanista.envs.remote.handshake import AccessRules
from lanista.envs.remote.server import AttachServer
from lanista.envs.remote.tls import self_signed

PIN = ["--fingerprint", "ab" * 32]
TOKEN = "a-token-of-some-length"


@pytest.fixture
def token(tmp_path, monkeypatch):
    monkeypatch.delenv("LANISTA_TOKEN", raising=False)
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o600)
    return str(file)


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["trainer"], "expected HOST:PORT"),
        (["trainer:http", *PIN], "'http' is not a port"),
        (["trainer:1", "--fingerprint", "12:34"], "64 hexadecimal digits"),
        (["trainer:1", "--ca", "nowhere.pem"], "nowhere.pem (--ca) cannot be read"),
        (["trainer:1", *PIN, "--port", "70000"], "found 70000"),
    ],
)
def test_an_invalid_argument_is_reported_in_one_sentence(arguments, cause, token, capsys):
    assert run(["relay", *arguments, "--token-file", token]) == 1
    said = capsys.readouterr().err
    assert cause in said and said.startswith("lanista relay: error: ") and len(said.splitlines()) == 1


@pytest.mark.parametrize("arguments", [[], ["--token-file", "nowhere"]])
def test_a_relay_needs_a_token(arguments, token, capsys):
    assert run(["relay", "127.0.0.1:1", *PIN, *arguments]) == 1
    assert "token is missing" in capsys.readouterr().err


def test_a_wrong_token_ends_the_relay_with_status_1(token, capsys):
    context, fingerprint = self_signed("127.0.0.1")
    gate = AttachServer("localhost", 0, AccessRules(tls=context), token="another-token-than-that")
    gate.start()
    try:
        arguments = [f"127.0.0.1:{gate.port}", "--port", "0", "--token-file", token]
        assert run(["relay", *arguments, "--fingerprint", fingerprint]) == 1
        said = capsys.readouterr().err
        assert said.endswith("does not let this relay in: wrong token.\n") and len(said.splitlines()) == 1
        assert run(["relay", *arguments, *PIN]) == 1
        assert "is not to be trusted" in capsys.readouterr().err
    finally:
        gate.close()


@pytest.fixture(params=[0o022, 0])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.mark.slow
@pytest.mark.posix("signals")
def test_a_run_with_an_engine_on_a_relay(tmp_path, monkeypatch, umask):
    """Its token is in no other file, in no output and on no command line; nobody else can write a file."""
    token, here = tmp_path / "token", free_port()
    temporary = Path(tempfile.mkdtemp(prefix="t"))  # sockets' paths may not be long
    monkeypatch.setenv("TMPDIR", str(temporary))
    threaded = ("--set", "behaviors.Basic.threaded=true")
    run = AttachedRun(tmp_path, free_port(), "--token-file", str(token), *threaded, max_steps=200)
    command = re.search(r"lanista (relay .*)", run.said)[1].split()
    with (tmp_path / "relay.txt").open("w") as output, scenes() as scene:
        relay = subprocess.Popen(
            [sys.executable, "-m", "lanista.trainers.cli.main", *command, "--port", str(here), "--once"],
            stdout=output,
        )
        assert until(lambda: "carried to" in (tmp_path / "relay.txt").read_text())
        engine = scene(here)
        commands, modes = set(), {}
        while engine.poll() is None:
            commands |= {str(line) for line in command_lines(run.process.pid, relay.pid)}
            modes |= modes_below(tmp_path) | modes_below(temporary)
            time.sleep(0.01)
        assert engine.wait(120) == 0
        assert relay.wait(120) == 0
    ended = run.end()
    assert "Environment 0 (a relay at 127.0.0.1:" in ended.out
    # Either side may be the first to disconnect once the engine was told to quit.
    assert "has disconnected" in (tmp_path / "relay.txt").read_text()
    secret = token.read_text().strip()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if secret.encode() in path.read_bytes()] == [token]
    assert not any(secret in line for line in commands) and len(commands) >= 3  # with the learner's
    modes |= modes_below(tmp_path / "results")
    made_here = {tmp_path / name for name in (".", "c.yaml", "output.txt", "relay.txt")}
    assert not {
        path: oct(mode) for path, mode in modes.items() if mode & stat.S_IWOTH and path not in made_here
    }
    assert modes[token] == 0o600
    sockets = [path for path in modes if path.name == "socket"]
    assert sockets and all(modes[path.parent] == 0o700 for path in sockets)
    temporary.rmdir()  # nothing stayed in it


def command_lines(*processes):
    """Of these processes and all below them, as anybody on the machine can read them."""
    for pid in processes:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            yield from (each.cmdline() for each in (process, *process.children(recursive=True)))


def modes_below(folder):
    """The permissions of all files and folders."""
    modes = {}
    for path in (folder, *folder.rglob("*")):
        with suppress(OSError):
            if not path.is_symlink():
                modes[path] = stat.S_IMODE(path.stat().st_mode)
    return modes
