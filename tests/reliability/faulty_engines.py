"""A light engine of one agent that exits, drips or lies when it is told to by a signal.

It costs a tenth of a second of processor time to start, and next to none for a step, so that many of them run
on few processors.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from scripted_engine import hello, message, observation

EXIT, DRIP, LIE = signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP
"""What tells it to end, to send its next message a byte at a time, and to send a wrong one."""
DRIP_SECONDS = 0.05
"""Between two bytes."""
_STEP = message(observation(1.0, 2.0))
_AGAIN = observation(1.0, 2.0)


def _later(data: bytes) -> bytes:
    """A message of these agents that is not the first one, and so does not describe their behavior."""
    from lanista.envs.protocol import messages

    output = messages.UnityOutputProto.FromString(data)
    output.ClearField("rl_initialization_output")
    return message(output.SerializeToString())


def _twins() -> bytes:
    """Two agents of one id that decide at once."""
    from lanista.envs.protocol import messages

    output = messages.UnityOutputProto.FromString(_AGAIN)
    agents = output.rl_output.agentInfos["Ball?team=0"].value
    agents.add().CopyFrom(agents[0])
    return _later(output.SerializeToString())


LIES = {
    "noise": bytes(range(256)),
    "cut": _later(_AGAIN)[:-3],
    "longer observation": _later(observation(1.0, 2.0, 3.0)),
    "unknown behavior": _later(observation(1.0, 2.0, name="Cube?team=0")),
    "twins": _twins(),
    "side channel": _later(observation(1.0, 2.0, side_channel=b"\x01\x02\x03")),
    "empty": b"",
}
"""Messages that no engine sends in the midst of a session; `wire` stands for bytes that are no HTTP/2."""
LIE_NAMES = (*LIES, "wire")
ENDINGS = (0, 1, 3, "quit")
"""Exit statuses, and an end of the session as an engine announces it."""

_PROGRAM = """\
#!{python}
import os, signal, socket, sys, time
from lanista.envs.grpc.calls import UnaryClient
from lanista.envs.protocol.handshake import UNITY_PATH

fault = []
for sign in {signs!r}:
    signal.signal(sign, lambda number, frame: fault.append(number))
port = int(sys.argv[sys.argv.index("--mlagents-port") + 1])
for _ in range(1200):
    try:
        trainer = socket.create_connection(("127.0.0.1", port))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
trainer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
client = UnaryClient("127.0.0.1:%d" % port, UNITY_PATH)

def deliver(pieces, pause):
    for piece in pieces:
        trainer.sendall(piece)
        time.sleep(pause)

def ask(data, drips=False):
    client.call(data)
    out = client.connection.out
    if drips:
        deliver((bytes((byte,)) for byte in bytes(out)), {pause})
        out.clear()
    while client.response is None:
        if out:
            trainer.sendall(out)
            out.clear()
        received = trainer.recv(65536)
        if not received:
            sys.exit(0)
        client.receive_data(received)
    if client.response == {quit!r}:
        sys.exit(0)

def misbehave(sign):
    what = int(open({which!r}).read())
    if sign == {exit}:
        ending = {endings!r}[what % {endings_count}]
        if ending == "quit":
            ask({quit!r})
            sys.exit(0)
        os._exit(ending)
    if sign == {drip}:
        ask({again!r}, drips=True)
    else:
        lie = {lies!r}[what % {lies_count}]
        if lie is None:
            trainer.sendall(b"\\xff" * 1000)
            time.sleep(600)
        ask(lie)

try:
    ask({hello!r})
    ask({ready!r})
    ask({step!r})
    while True:
        if fault:
            misbehave(fault.pop())
        else:
            ask({again!r})
except OSError:  # the trainer has hung up
    pass
"""


class FaultyEngine:
    """The program, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        """Write it."""
        self._which = folder / "which"
        self.program = folder / "Faulty.x86_64"
        quit_message = message(None, 400)
        lies = [*LIES.values(), None]
        self.choose(0)
        text = _PROGRAM.format(
            python=sys.executable,
            signs=tuple(map(int, (EXIT, DRIP, LIE))),
            pause=DRIP_SECONDS,
            quit=quit_message,
            which=str(self._which),
            exit=int(EXIT),
            drip=int(DRIP),
            endings=ENDINGS,
            endings_count=len(ENDINGS),
            lies=lies,
            lies_count=len(lies),
            hello=message(hello()),
            ready=message(None),
            step=_STEP,
            again=_later(_AGAIN),
        )
        self.program.write_text(text)
        self.program.chmod(0o755)

    def choose(self, number: int) -> None:
        """Which ending or lie comes next."""
        self._which.write_text(str(number))
