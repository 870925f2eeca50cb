"""Lets engines join and leave a listening trainer again and again, and reports what is left of them.

    python tests/reliability/attach.py [--times 50] [--relay]

One engine process takes part all the time. Beside it others join, are stepped for a while, and leave: their
process is killed, terminated, or falls silent until it times out. Each time a client that is not an engine
connects, too, and is rejected. Before and after, the trainer's memory, open files and threads are counted.
With --relay, those that join come through a relay over TLS.

Ends with status 1 when the one that stays lost a step, when memory, files or threads have grown, or when
an engine process outlived its turn.
"""

from __future__ import annotations

import gc
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

from lanista.envs.base import EnvironmentStep
from lanista.envs.manager.manager import EnvManager
from lanista.envs.remote.handshake import AccessRules, AttachedEngine
from lanista.envs.remote.relay import Relay, RemoteTrainer
from lanista.envs.remote.server import AttachServer
from lanista.envs.remote.source import AttachSource
from lanista.envs.remote.tls import client_context
from lanista.envs.unity import UnityEnvironment
from script_options import parse_options

STEPS = 20
"""Steps of each engine that takes part."""
PATIENCE_SECONDS = 120.0
SILENCE_SECONDS = 5.0
"""After which an engine counts as dead."""
SETTLE_SECONDS = 1.0
"""In which what the last engine has left behind goes."""
WARM_UP = 6
"""Engines that join and leave before anything is counted: buffers fill, modules load."""
MOST_MIB = 2.0
"""Growth that is noise: an allocator keeps what it has freed."""
TOKEN = "a-token-for-this-script"


@dataclass
class Footprint:
    """What a process holds."""

    memory: float
    """MiB of resident memory."""
    files: int
    threads: int

    @classmethod
    def settled(cls, trainer: Trainer, most: Footprint | None = None) -> Footprint:
        """Of this process, once files and threads are at `most` what they were, or patience is over.

        Those of an engine that has left go a moment later. Without `most`: the least that is seen in a while.
        """
        least = cls.now()
        deadline = time.monotonic() + (SETTLE_SECONDS if most is None else PATIENCE_SECONDS)
        while time.monotonic() < deadline and (most is None or least.exceeds(most)):
            trainer.step_until(lambda step: step.env == 0)
            now = cls.now()
            least = cls(now.memory, min(least.files, now.files), min(least.threads, now.threads))
        return least

    def exceeds(self, other: Footprint) -> bool:
        """Whether there are more files or threads than in the other."""
        return self.files > other.files or self.threads > other.threads

    @classmethod
    def now(cls) -> Footprint:
        """Of this process, at this moment."""
        gc.collect()
        process = psutil.Process()
        files = process.num_fds() if hasattr(process, "num_fds") else process.num_handles()
        return cls(process.memory_info().rss / 2**20, files, threading.active_count())

    def __str__(self) -> str:
        return f"{self.memory:.1f} MiB, {self.files} open files, {self.threads} threads"


@dataclass
class Trainer:
    """A manager whose environments attach, and the engines that this script starts."""

    source: AttachSource
    manager: EnvManager
    engines: list[subprocess.Popen[bytes]] = field(default_factory=list)
    steps: int = 0
    """Of the one that stays."""
    interrupted: int = 0
    """How often that one's episodes were cut off."""

    def start(self, port: int, scene: str = "basic") -> subprocess.Popen[bytes]:
        """Start an engine that connects to a port."""
        command = [sys.executable, "-m", "lanista.envs.scenes", scene, "--mlagents-port", str(port)]
        self.engines.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return self.engines[-1]

    def close(self) -> None:
        """Ask the engines to quit, and wait until they have ended."""
        self.manager.close()
        for engine in self.engines:
            engine.wait(PATIENCE_SECONDS)

    def step_until(self, condition: Callable[[EnvironmentStep], bool]) -> None:
        """Step all environments with zero actions until a step meets the condition."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        found = False
        while not found:
            if time.monotonic() > deadline:
                raise TimeoutError("the condition was not met")
            for step in self.manager.wait(1.0):
                found = found or condition(step)
                if step.env == 0:
                    self.steps += 1
                    self.interrupted += step.fresh
                if not step.left:
                    self.manager.send(step.env, {})


def join_and_leave(trainer: Trainer, port: int, leave: Callable[[subprocess.Popen[bytes]], None]) -> None:
    """An engine joins, is stepped for a while, and leaves."""
    engine = trainer.start(port)
    seen = 0

    def enough(step: EnvironmentStep) -> bool:
        nonlocal seen
        seen += step.env == 1
        return seen >= STEPS

    trainer.step_until(enough)
    leave(engine)
    trainer.step_until(lambda step: step.env == 1 and step.left)
    engine.kill()
    engine.wait(PATIENCE_SECONDS)
    trainer.engines.remove(engine)


def be_rejected(trainer: Trainer, port: int) -> None:
    """A client that is not an engine connects."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.settimeout(PATIENCE_SECONDS)
        try:
            while client.recv(4096):
                pass
        except ConnectionResetError:
            pass
    trainer.step_until(lambda step: step.env == 0)


def fall_silent(engine: subprocess.Popen[bytes]) -> None:
    """Suspend the engine, with its connection open."""
    psutil.Process(engine.pid).suspend()


WAYS: list[Callable[[Trainer, int], None]] = [
    partial(join_and_leave, leave=subprocess.Popen.kill),
    partial(join_and_leave, leave=subprocess.Popen.terminate),
    partial(join_and_leave, leave=fall_silent),
]
"""How engines leave, in turn; the slow way is the last."""


@contextmanager
def listening(through_relay: bool) -> Iterator[tuple[Trainer, int]]:
    """A trainer with one engine, and the port that others connect to: the server's or a relay's."""
    context, fingerprint = (None, None)
    if through_relay:
        from lanista.envs.remote.tls import self_signed

        context, fingerprint = self_signed("127.0.0.1")
    source = AttachSource(
        lambda on_engine: AttachServer(
            "localhost", 0, AccessRules(tls=context), token=TOKEN, on_engine=on_engine
        ),
        make_env,
    )
    trainer = Trainer(source, EnvManager(None, 1, source=source))
    port = source.server.port
    trainer.start(port)
    with ExitStack() as stack:
        stack.callback(trainer.close)
        trainer.manager.start()
        for step in trainer.manager.reset():
            trainer.manager.send(step.env, {})
        yield trainer, port if fingerprint is None else stack.enter_context(relay(port, fingerprint))


def make_env(index: int, engine: AttachedEngine) -> UnityEnvironment:
    """The environment of an engine that has connected."""
    name = f"environment {index}"
    return UnityEnvironment(
        connect=lambda _: engine.connection(name, SILENCE_SECONDS),
        non_finite=None,
        timeout_wait=SILENCE_SECONDS,
    )


@contextmanager
def relay(port: int, fingerprint: str) -> Iterator[int]:
    """A relay to the trainer at this port; yields its own port."""
    trainer = RemoteTrainer("127.0.0.1", port, TOKEN, client_context(pinned=True), fingerprint)
    relay = Relay(trainer, 0)
    thread = threading.Thread(target=relay.serve)
    thread.start()
    yield relay.port
    relay.close()
    thread.join(PATIENCE_SECONDS)


def cycle_engines(trainer: Trainer, port: int, times: int) -> None:
    """So many engines, and as many clients that are none."""
    for k in range(times):
        WAYS[k % len(WAYS)](trainer, port)
        be_rejected(trainer, port)
        trainer.step_until(lambda step: step.env == 0)


def measure(times: int, through_relay: bool) -> bool:
    """Let engines join and leave, and print the figures; whether they are as promised."""
    with listening(through_relay) as (trainer, port):
        cycle_engines(trainer, port, WARM_UP)
        before = Footprint.settled(trainer)
        cycle_engines(trainer, port, times)
        after = Footprint.settled(trainer, before)
        pids = [engine.pid for engine in trainer.engines]
    outlived = sum(psutil.pid_exists(pid) for pid in pids)
    print(f"engines that joined and left: {times}{', through a relay' if through_relay else ''}")
    print(f"before: {before}")
    print(f"after:  {after}")
    print(f"the one that stayed: {trainer.steps} steps, cut off {trainer.interrupted} times")
    print(f"processes that outlived the trainer: {outlived}")
    grown = after.memory - before.memory > MOST_MIB or after.exceeds(before)
    return not (grown or trainer.interrupted or outlived)


def main() -> int:
    """Run and print; 0 if everything is as promised."""
    options = parse_options(
        __doc__,
        times={"default": 50, "help": "how many engines join and leave"},
        relay={"default": False, "help": "they connect through a relay"},
    )
    logging.getLogger("lanista").setLevel(logging.ERROR)  # every engine that joins or leaves is logged
    return 0 if measure(options.times, options.relay) else 1


if __name__ == "__main__":
    sys.exit(main())
