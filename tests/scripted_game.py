"""A Godot game of which a script decides what it sends: the game's end of the protocol, in a thread."""

import json
import socket
import struct
import textwrap
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from script_programs import write_program

LENGTH = struct.Struct("<I")


def encode(message: Any) -> bytes:
    """As Godot writes it: without spaces, letters as they are."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


class ScriptedGame:
    """Dials the trainer and answers each of its messages with the next of the script.

    The handshake is not answered; a script ends with the socket closed, or stays silent.

    Args:
        port: the trainer's.
        script: messages, objects or bytes; or a function of the trainer's message (None: no answer).
        stay: whether it goes on listening, without answers, at the script's end.
    """

    def __init__(
        self, port: int, script: Iterable[Any] | Callable[[dict[str, Any]], Any], *, stay: bool = False
    ) -> None:
        self.received: list[dict[str, Any]] = []
        self._script = script if callable(script) else iter(script)
        self._stay = stay
        self._socket = socket.create_connection(("127.0.0.1", port), 30)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self, seconds: float | None = 30) -> None:
        """Wait until it has ended."""
        self._thread.join(seconds)
        assert not self._thread.is_alive()

    def send(self, payload: bytes) -> None:
        """A message as it stands, framed."""
        self._socket.sendall(LENGTH.pack(len(payload)) + payload)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def _run(self) -> None:
        with suppress(EOFError, OSError), self._socket:
            while True:
                (length,) = LENGTH.unpack(self._read(4))
                message = json.loads(self._read(length))
                self.received.append(message)
                if message["type"] == "handshake":
                    continue
                if message["type"] == "close":
                    return
                answer = self._answer(message)
                if answer is not None:
                    self.send(answer if isinstance(answer, bytes) else encode(answer))
                elif not self._stay:
                    return

    def _answer(self, message: dict[str, Any]) -> Any:
        return self._script(message) if callable(self._script) else next(self._script, None)


class Walker:
    """The script of a game without end: an agent that sees how many actions it has had, and its last one."""

    def __init__(self, **keys: Any) -> None:
        space = {"obs": {"size": [2], "space": "box"}}
        self._info = {
            **{"type": "env_info", "n_agents": 1, "agent_policy_names": ["walker"]},
            "observation_space": [space],
            "action_space": [{"move": {"size": 1, "action_type": "continuous"}}],
            **keys,
        }
        self.actions = 0

    def __call__(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a message of the trainer."""
        if message["type"] == "env_info":
            return self._info
        if message["type"] == "reset":
            return {"type": "reset", "obs": [], "info": []}
        self.actions += 1
        seen = {"obs": [float(self.actions), *message["action"][0]["move"]]}
        done = self.actions % 10 == 0
        return {"type": "step", "obs": [seen], "reward": [1.0], "done": [done], "info": [{}]}


_EXECUTABLE = """\
import os
import sys

sys.path.insert(0, {tests!r})
from scripted_game import ScriptedGame, Walker

options = dict(argument.split("=", 1) for argument in sys.argv[1:] if "=" in argument)
print("started with", *sys.argv[1:], flush=True)


def play(script):
    ScriptedGame(int(options["--port"]), script).join(None)


{script}
"""


def executable(folder: Path, script: str = "play(Walker())") -> str:
    """A program `Game` that runs `script`, which finds `play(script)`, `Walker` and `options`."""
    names = {"tests": str(Path(__file__).parent)}
    program = write_program(folder / "Game", _EXECUTABLE.format(script=textwrap.dedent(script), **names))
    return str(program)
