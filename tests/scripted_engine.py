"""Engines that send what a test scripts: in a thread, or as an executable."""

import random
import socket
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import grpc
from lanista.envs.protocol import messages
from lanista.envs.protocol.dialect import UNITY, UNREAL, Dialect
from script_programs import write_program
from translated import spoken

NOBODY = bytes.fromhex("0a00")
"""The output of an engine without deciding agents: an empty UnityRLOutputProto."""
_DIALECTS = {"--mlagents-port": UNITY, "-mlAgentPort": UNREAL}
"""What an engine speaks, by the argument that it finds its port after."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def first_free_port(count: int) -> int:
    """The first of `count` neighboring ports that are free, one for each engine of a run.

    They are below those that Linux gives to connections, since one of these could take a port first.
    """
    while True:
        first = random.randrange(10_000, 32_000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first


def called() -> tuple[int, Dialect]:
    """The port on which this program is to call, by its arguments, and what it is to speak."""
    argument = next(each for each in _DIALECTS if each in sys.argv)
    return int(sys.argv[sys.argv.index(argument) + 1]), _DIALECTS[argument]


def exchange_with(port: int, dialect: Dialect = UNITY) -> tuple[grpc.Channel, Callable[[bytes], bytes]]:
    """The engine's side of the one call there is, on plain grpcio. What it sends is given as Unity's."""
    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),  # engines of one process share no connection
        # The engine may be there before the trainer listens: try again soon. The least backoff is also the
        # time after which a connection is given up, and stays at 20 s, for a busy machine.
        ("grpc.initial_reconnect_backoff_ms", 20),
        ("grpc.max_reconnect_backoff_ms", 100),
    ]
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=options)
    call = channel.unary_unary(dialect.path.decode())
    return channel, lambda data: call(spoken(data, dialect), wait_for_ready=True, timeout=60)


def message(output: bytes | None = b"", status: int = 200) -> bytes:
    """A serialized UnityOutputProto in its envelope; None for an envelope without it."""
    envelope = messages.UnityMessageProto()
    envelope.header.status = status
    if output is not None:
        envelope.unity_output.ParseFromString(output)
        envelope.unity_output.SetInParent()
    return envelope.SerializeToString()


def hello(version: str = "1.5.0", package: str = "4.0.0") -> bytes:
    """The greeting of an engine, as a UnityOutputProto."""
    output = messages.UnityOutputProto()
    greeting = output.rl_initialization_output
    greeting.name = "AcademySingleton"
    greeting.communication_version = version
    greeting.package_version = package
    for field in greeting.capabilities.DESCRIPTOR.fields:
        setattr(greeting.capabilities, field.name, True)
    return output.SerializeToString()


def observation(
    *values: float,
    name: str = "Ball?team=0",
    agent_id: int = 1,
    reward: float = 0.5,
    done: bool = False,
    side_channel: bytes = b"",
) -> bytes:
    """One agent's observation, and its behavior with one continuous action, as a UnityOutputProto."""
    output = messages.UnityOutputProto()
    brain = output.rl_initialization_output.brain_parameters.add()
    brain.brain_name = name
    brain.action_spec.num_continuous_actions = 1
    agent = output.rl_output.agentInfos[name].value.add()
    agent.id, agent.done, agent.reward = agent_id, done, reward
    seen = agent.observations.add()
    seen.shape.append(len(values))
    seen.dimension_properties.append(1)
    seen.name = "VectorSensor"
    seen.float_data.data.extend(values)
    output.rl_output.side_channel = side_channel
    return output.SerializeToString()


class ScriptedEngine(threading.Thread):
    """An engine in a thread: greets, then sends one output after the other until it is told to quit.

    None among the outputs ends the session from the engine's side.
    """

    def __init__(self, port: int, outputs: Iterable[bytes | None], dialect: Dialect = UNITY) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._dialect = dialect
        self._outputs = list(outputs)
        self.replies: list = []
        self.start()

    @property
    def was_told_to_quit(self) -> bool:
        return bool(self.replies) and self.replies[-1].header.status == 400

    def run(self) -> None:
        channel, exchange = exchange_with(self._port, self._dialect)
        with channel:
            ended = message(None, 400)
            first, *others = [ended if output is None else message(output) for output in self._outputs]
            for request in (first, message(None), *others):
                try:
                    reply = exchange(request)
                except grpc.RpcError:  # the trainer has closed its end
                    return
                self.replies.append(self._dialect.messages.UnityMessageProto.FromString(reply))
                if self.was_told_to_quit:
                    return


_EXECUTABLE = """\
import os, signal, sys, time
sys.path.insert(0, {tests!r})
from scripted_engine import called, exchange_with, hello, message, observation

port, dialect = called()
logs = "-logFile" in sys.argv
log = open(sys.argv[sys.argv.index("-logFile") + 1], "w", buffering=1) if logs else sys.stderr
channel, exchange = exchange_with(port, dialect)

def ask(request):
    if exchange(request) == {quit!r}:
        print("told to quit", file=log)
        sys.exit(0)

def greet(version="1.5.0"):
    ask(message(hello(version)))
    ask(message(None))

def greet_as_player():
    # As Unity's: it listens to quit only when its Academy has begun, after the first reset.
    exchange(message(hello()))
    if exchange(message(None)) == {quit!r}:
        channel.close()
        print("Will perform inference instead", file=log)
        time.sleep(600)

def steps(count):
    for i in range(count):
        ask(message(observation(i, i + 0.5)))

{script}
"""


def executable(folder: Path, script: str) -> str:
    """A program `Game` that runs `script` as an engine.

    The script finds the functions `greet()`, `greet_as_player()`, `steps(n)` and `ask(bytes)`, and the file
    `log`.
    """
    names = {"tests": str(Path(__file__).parent), "quit": message(None, 400)}
    program = write_program(folder / "Game", _EXECUTABLE.format(script=textwrap.dedent(script), **names))
    return str(program)
