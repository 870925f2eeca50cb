"""Feeds mutated messages and side-channel bytes to the trainer's end of the wire.

    python tests/reliability/bytes.py [--messages 1000000] [--jobs 2] [--products Lanista ML-Agents]

The messages are those of real sessions (`tests/real/transcripts`), with bytes changed, removed, inserted and
moved; the side-channel bytes are mutated messages of every channel. Each is decoded by a `Decoder` in the
midst of its session, what it carries for side channels goes to a `SideChannelManager`, and the numbers that
came out are checked as a run checks them. Allowed are: steps, or one of the errors that a run explains, which
names the environment. ML-Agents' decoder gets messages of the same kinds (`tests/peer/read_messages.py`), and
whatever it raises on purpose counts as refused by name. Ends with status 1 after any other exception of
Lanista's, an error without a name, or a message that took longer than the limit.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import os
import struct
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script
sys.path.append(str(Path(__file__).parent))

import programs
from damaged_bytes import mutated
from figures import LANISTA, ML_AGENTS, ROOT, Recorder
from lanista.envs.errors import WireError
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    SideChannel,
    SideChannelManager,
    StatsSideChannel,
)
from lanista.envs.side_channels.messages import OutgoingMessage
from lanista.envs.validation import NonFinitePolicy, check_finite
from mlagents_envs.exception import UnityException
from script_options import parse_options

SESSIONS = Path(os.environ.get("LANISTA_TRANSCRIPTS") or Path(__file__).parents[1] / "real" / "transcripts")
NAME = "environment 7"
KEPT = 60
"""Messages of each session that are mutated."""
BEGIN, READ, READ_FIRST, SIDE_CHANNEL = range(4)
"""As in `tests/peer/read_messages.py`."""
LIMIT = 5.0
"""Seconds after which a message counts as a hang."""


def sessions() -> list[list[bytes]]:
    """What real engines sent, in order."""
    found = []
    for path in sorted(SESSIONS.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        sent = [base64.b64decode(line["b64"]) for line in lines if line.get("dir") == "engine->trainer"]
        found.append(sent[:KEPT])
    return found


def side_channels() -> list[SideChannel]:
    """Those of a run."""
    return [StatsSideChannel(), EnvironmentParametersChannel(), EngineConfigurationChannel()]


def side_channel_bytes(channels: list[SideChannel]) -> bytes:
    """A message to each of them."""
    statistic = OutgoingMessage()
    statistic.write_string("Crawler/Speed")
    statistic.write_float32(1.5)
    statistic.write_int32(0)
    return b"".join(
        struct.pack("<16si", channel.channel_id.bytes_le, len(statistic.buffer)) + bytes(statistic.buffer)
        for channel in channels
    )


class Reader:
    """The trainer's end of one session."""

    def __init__(self, session: list[bytes]) -> None:
        self.session = session
        channels = side_channels()
        self.channels = SideChannelManager(channels, where=NAME)
        self.decoder = Decoder(NAME)
        next(message for message in session if self.decoder.decode(message).specs)  # they are described first
        self.side_channel = side_channel_bytes(channels)

    def read(self, random: Random) -> str:
        """Decode a mutated message, or mutated side-channel bytes; what came of it."""
        try:
            if random.random() < 0.2:
                self.channels.process(mutated(self.side_channel, random))
                return "read"
            decoder = Decoder(NAME) if random.random() < 0.2 else self.decoder
            message = decoder.decode(mutated(random.choice(self.session), random))
            self.channels.process(message.side_channel)
            for name, steps in (message.steps or {}).items():
                check_finite(steps, decoder.specs[name], NAME, name, NonFinitePolicy.STOP)
        except UnityException as error:
            if not str(error).startswith(NAME):
                return f"UNNAMED {type(error).__name__}: {error}"
            if isinstance(error, WireError) and not any(
                w in str(error) for w in ("byte", "behavior", "field")
            ):
                return f"UNPLACED {type(error).__name__}: {error}"
            return f"refused, {type(error).__name__}"
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            return f"UNCAUGHT {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        return "read"


def read_many(job: tuple[int, int]) -> tuple[Counter[str], float]:
    """What came of so many messages with this seed, and the longest that one took."""
    count, seed = job
    logging.disable(logging.CRITICAL)
    random = Random(seed)
    captured = sessions()
    outcomes: Counter[str] = Counter()
    longest = 0.0
    for number in range(count):
        if number % 500 == 0:  # a mutation may have changed what the decoder knows of a behavior
            readers = [Reader(session) for session in captured]
        begin = time.monotonic()
        outcomes[random.choice(readers).read(random)] += 1
        longest = max(longest, time.monotonic() - begin)
    return outcomes, longest


class Peer:
    """ML-Agents' decoders of all sessions, in a process of its own."""

    def __init__(self, captured: list[list[bytes]]) -> None:
        self.captured = captured
        script = ROOT / "tests" / "peer" / "read_messages.py"
        self.process = subprocess.Popen(
            [programs.python(ML_AGENTS), "-W", "ignore", str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def begin(self) -> None:
        """Begin each session anew, with the message that describes its behaviors."""
        for number, session in enumerate(self.captured):
            decoder = Decoder(NAME)
            first = next(message for message in session if decoder.decode(message).specs)
            assert self.ask(BEGIN, number, first) == "read"

    def read(self, random: Random) -> str:
        """What came of a mutated message, or of mutated side-channel bytes."""
        number = random.randrange(len(self.captured))
        if random.random() < 0.2:
            return self.ask(SIDE_CHANNEL, number, mutated(side_channel_bytes(side_channels()), random))
        kind = READ_FIRST if random.random() < 0.2 else READ
        return self.ask(kind, number, mutated(random.choice(self.captured[number]), random))

    def ask(self, kind: int, session: int, data: bytes) -> str:
        """What it makes of the bytes."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(struct.pack("<BBI", kind, session, len(data)) + data)
        self.process.stdin.flush()
        said = self.process.stdout.readline().decode().strip()
        return said if said == "read" or said.startswith("refused") else f"UNCAUGHT {said or 'end'}"


def read_by_peer(count: int, seed: int) -> tuple[Counter[str], float]:
    """As `read_many`, by ML-Agents."""
    random, peer = Random(seed), Peer(sessions())
    outcomes: Counter[str] = Counter()
    longest = 0.0
    for number in range(count):
        if number % 500 == 0:
            peer.begin()
        begin = time.monotonic()
        outcomes[peer.read(random)] += 1
        longest = max(longest, time.monotonic() - begin)
    peer.process.kill()
    peer.process.wait()
    return outcomes, longest


def jobs(messages: int, seed: int) -> Iterator[tuple[int, int]]:
    """Portions of the work, the same ones whatever the number of processes."""
    portion = 5000
    for number in range(0, messages, portion):
        yield min(portion, messages - number), seed + number


def portions(product: str, messages: int, processes: int, seed: int) -> Iterator[tuple[Counter[str], float]]:
    """What came of the messages, portion by portion."""
    if product != LANISTA:
        yield read_by_peer(messages, seed)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(read_many, jobs(messages, seed))


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        messages=10_000,
        jobs={"default": 1, "help": "processes, of Lanista's"},
        seed=0,
        products=programs.OPTION,
        record={"default": False, "help": "keep the figures"},
    )
    recorder, kept = Recorder(5, options.record), True
    for product in options.products:
        outcomes: Counter[str] = Counter()
        longest = 0.0
        for part, slowest in portions(product, options.messages, options.jobs, options.seed):
            outcomes += part
            longest = max(longest, slowest)
        bad = {outcome: count for outcome, count in outcomes.items() if outcome.startswith("UN")}
        for outcome, count in sorted(outcomes.items(), key=lambda item: -item[1])[:40]:
            print(f"{count:9d}  {outcome}")
        read, tried = outcomes["read"], sum(outcomes.values())
        held = tried - sum(bad.values())
        found = f"{read} read, {held - read} refused by name"
        if product != LANISTA:
            found += "".join(f"; {count} {name.partition(' ')[2]}" for name, count in bad.items())
        recorder.add("mutated messages", product, tried, held, worst=longest, unit="s for one", found=found)
        kept = kept and (product != LANISTA or not (bad or longest > LIMIT))
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
