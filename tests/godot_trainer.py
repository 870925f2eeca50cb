"""A scripted trainer: starts a real Godot game and says to it, message by message, what a test wants."""

import base64
import json
import socket
import struct
import subprocess
import threading
from dataclasses import dataclass

import numpy as np

HANDSHAKE = {"type": "handshake", "major_version": "0", "minor_version": "7"}
PATIENCE_SECONDS = 120.0
"""Only a hang takes so long."""


def encode(array, dtype):
    return base64.b64encode(np.ascontiguousarray(array, dtype).tobytes()).decode()


def decode(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


@dataclass
class Steps:
    """The rows of one behavior in "decision" or "terminal"; `obs` and `mask` as flat rows."""

    ids: list
    reward: list
    obs: list
    group: list
    group_reward: list
    mask: list
    interrupted: list

    @classmethod
    def read(cls, columns):
        ids = decode(columns["ids"], "<i4")
        zeros = np.zeros(len(ids))

        def column(name, dtype):
            return (decode(columns[name], dtype) if name in columns else zeros.astype(dtype)).tolist()

        return cls(
            ids=ids.tolist(),
            reward=column("reward", "<f4"),
            obs=columns["obs"],
            group=column("group", "<i4"),
            group_reward=column("group_reward", "<f4"),
            mask=[decode(mask, "u1").reshape(len(ids), -1).tolist() for mask in columns.get("mask", [])],
            interrupted=column("interrupted", "u1"),
        )

    def floats(self, index=0):
        if not self.ids:
            return np.zeros((0, 0), np.float32)
        return decode(self.obs[index], "<f4").reshape(len(self.ids), -1)

    def pixels(self, shape, index=0):
        channels, height, width = shape
        return decode(self.obs[index], "u1").reshape(len(self.ids), height, width, channels)


NO_STEPS = {"ids": "", "reward": "", "obs": []}


class GodotGame:
    """A game in the real engine, connected with this process.

    Args:
        engine: Godot's executable.
        project: an imported project.
        scene: res://...
        arguments: of the game.
    """

    def __init__(self, engine, project, scene, *arguments):
        self.output = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(PATIENCE_SECONDS)
            command = [engine, "--headless", "--path", project, scene, "--fixed-fps", "60"]
            port = listener.getsockname()[1]
            self.process = subprocess.Popen(
                [*map(str, command), f"--port={port}", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._reader = threading.Thread(
                target=lambda: self.output.extend(self.process.stdout), daemon=True
            )
            self._reader.start()
            self.socket, _ = listener.accept()
        self.socket.settimeout(PATIENCE_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def send(self, message):
        body = json.dumps(message).encode()
        self.socket.sendall(struct.pack("<I", len(body)) + body)

    def receive(self):
        (length,) = struct.unpack("<I", self._read(4))
        return json.loads(self._read(length))

    def _read(self, length):
        parts = bytearray()
        while len(parts) < length:
            part = self.socket.recv(length - len(parts))
            if not part:
                raise EOFError(self.ended()[1])
            parts += part
        return bytes(parts)

    def ask(self, message):
        self.send(message)
        return self.receive()

    def start(self, lanista=True):
        """Handshake, and the answer to env_info."""
        self.send({**HANDSHAKE, "lanista": 1} if lanista else HANDSHAKE)
        return self.ask({"type": "env_info"})

    def reset(self, **parameters):
        return self.ask({"type": "reset", "parameters": parameters})

    def act(self, behaviors, **parameters):
        return self.ask({"type": "action", "behaviors": behaviors, "parameters": parameters})

    def ended(self):
        """Wait for the end of the game: its exit status, and what it has printed."""
        status = self.process.wait(PATIENCE_SECONDS)
        self._reader.join()
        return status, "".join(self.output)


def steps(message, behavior):
    """Decision and terminal steps of a behavior."""
    columns = message["behaviors"].get(behavior, {})
    return Steps.read(columns.get("decision", NO_STEPS)), Steps.read(columns.get("terminal", NO_STEPS))


def actions(ids, continuous=None, discrete=None):
    """The actions of one behavior, a row for each id."""
    columns = {"ids": encode(ids, "<i4")}
    if continuous is not None:
        columns["continuous"] = encode(continuous, "<f4")
    if discrete is not None:
        columns["discrete"] = encode(discrete, "<i4")
    return columns
