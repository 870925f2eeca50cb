"""Looks for inputs that break what reads bytes of others: messages, frames, pictures, files.

    python tests/reliability/fuzz.py [--targets wire demo ...] [--seconds 60] [--seed 7]
    python tests/reliability/fuzz.py --replay tests/reliability/corpus/demo/1f3a...

Every target (`fuzz_wire.py`, `fuzz_connections.py`, `fuzz_files.py`, `fuzz_runs.py`, `fuzz_folders.py`,
`fuzz_downloads.py`)
reads its seeds, all inputs of `corpus/TARGET`, and then, for its share of the seconds of processor time,
inputs mutated from these and from those that reached lines of Lanista that none had reached before. An input
may be read, or refused by one of the errors with a sentence. A finding is any other exception, a crash of the
interpreter, more work than MOST_LINES, or memory beyond MOST_BYTES; its input is written into the corpus
under its hash, where every later run reads it first. Ends with status 1 when there was a finding, and prints
the command that replays it.

`--keep` adds to the corpus the smallest inputs that reached new lines.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import mmap
import os
import resource
import signal
import struct
import sys
import time
import traceback
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the helpers of tests, when run as a script

import lanista
from fuzz_connections import CONNECTIONS
from fuzz_downloads import DOWNLOADS
from fuzz_files import FILES
from fuzz_folders import FOLDERS
from fuzz_runs import RUN_FILES
from fuzz_target import Target
from fuzz_wire import WIRE
from script_options import parse_options

TARGETS: dict[str, Target] = {**WIRE, **CONNECTIONS, **FILES, **RUN_FILES, **FOLDERS, **DOWNLOADS}
CORPUS = Path(__file__).parent / "corpus"
PRODUCT = str(Path(lanista.__file__).parent) + os.sep
TESTS = PRODUCT + "tests" + os.sep
MOST_LINES = 3_000_000
"""Lines of Lanista that reading one input may execute, and LINES_PER_BYTE more for each of its bytes."""
LINES_PER_BYTE = 200
MOST_SECONDS = 20
"""Of processor time, for loops outside of Lanista."""
MOST_BYTES = 192 << 20
"""By which one input may raise the process's peak."""
ADDRESSES = 4 << 30
"""Beyond what is mapped before: a larger request is a MemoryError."""
MOST_WAITING = 10
"""Times as long by the clock, for targets that wait for other processes."""
LONGEST = 1 << 20
KEPT_BYTES = 24_000
"""Of inputs that `--keep` adds to a target."""


class TooMuchWorkError(BaseException):
    """Reading an input takes too long; no handler of `Exception` on the way hides it."""


class Lines:
    """The lines of Lanista that inputs execute."""

    def __init__(self) -> None:
        self.known: set[tuple[CodeType, int]] = set()
        self._new: set[tuple[CodeType, int]] = set()
        self._left = 0

    def run(self, target: Target, data: bytes) -> int:
        """Let a target read an input; how many lines it was the first to reach."""
        self._new, self._left = set(), MOST_LINES + LINES_PER_BYTE * len(data)
        sys.settrace(self._called)
        try:
            target.read(data)
        finally:
            sys.settrace(None)
            self.known |= self._new
        return len(self._new)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        return self._traced if name.startswith(PRODUCT) and not name.startswith(TESTS) else None

    def _traced(self, frame: FrameType, event: str, argument: object) -> Any:
        place = (frame.f_code, frame.f_lineno)
        if place not in self.known:
            self._new.add(place)
        self._left -= 1
        if self._left < 0:
            raise TooMuchWorkError(f"more than {MOST_LINES} lines")
        return self._traced


class Reader:
    """Reads inputs of one target within bounds, in a process of its own."""

    def __init__(self, target: Target, place: mmap.mmap, report: Connection) -> None:
        self.target = target
        self.lines = Lines()
        self._place = place
        self._report = report
        self._signatures: set[str] = set()
        signal.signal(signal.SIGVTALRM, self._late)
        _limit_addresses()

    def read(self, data: bytes) -> int:
        """Read an input and report a finding; how many new lines it reached."""
        self._place[:8] = struct.pack("<Q", len(data))
        self._place[8 : 8 + len(data)] = data
        before = _peak()
        found = 0
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        try:
            found = self.lines.run(self.target, data)
        except (Exception, TooMuchWorkError) as error:
            self._found(data, _signature(error), "".join(traceback.format_exception(error)))
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if (grown := _peak() - before) > MOST_BYTES:
            self._found(data, "memory", f"{grown >> 20} MiB for {len(data)} bytes")
        return found

    def _found(self, data: bytes, signature: str, words: str) -> None:
        if signature not in self._signatures:
            self._signatures.add(signature)
            self._report.send((data, signature, words))

    def _late(self, number: int, frame: FrameType | None) -> None:
        raise TooMuchWorkError(f"more than {MOST_SECONDS} s of processor time")


def _limit_addresses() -> None:
    if sys.platform == "linux":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * mmap.PAGESIZE + ADDRESSES,) * 2)


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _signature(error: BaseException) -> str:
    """The type, and the innermost line of Lanista, by which findings are told apart."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename.startswith(PRODUCT)]
    own = [each for each in frames if not each.filename.startswith(TESTS)] or frames
    return f"{type(error).__name__} at {own[-1].filename.removeprefix(PRODUCT)}:{own[-1].lineno}"


def kept(name: str) -> list[Path]:
    """The inputs of a target's corpus."""
    return sorted(path for path in (CORPUS / name).glob("*") if path.is_file())


def fuzz(name: str, seconds: float, seed: int, keep: bool, place: mmap.mmap, report: Connection) -> None:
    """The process of one target: its seeds, its corpus, then mutations."""
    logging.disable(logging.CRITICAL)
    target, random = TARGETS[name], Random(f"{seed} {name}")
    reader = Reader(target, place, report)
    pool = target.seeds()
    for data in (*pool, *(path.read_bytes() for path in kept(name))):
        reader.read(data)
        pool.append(data)
    gc.collect()
    grown: list[bytes] = []
    count = 0
    end, late = time.process_time() + seconds, time.monotonic() + MOST_WAITING * seconds
    while time.process_time() < end and time.monotonic() < late:
        data = target.mutate(random.choice(grown if grown and random.random() < 0.5 else pool), random)[
            :LONGEST
        ]
        count += 1
        if reader.read(data):
            grown.append(data)
    if keep:
        _keep(name, grown)
    report.send((count, len(grown), len(reader.lines.known)))


def _keep(name: str, grown: list[bytes]) -> None:
    left = KEPT_BYTES - sum(path.stat().st_size for path in kept(name))
    for data in sorted(grown, key=len):
        left -= len(data)
        if left < 0:
            return
        _write(name, data)


def _write(name: str, data: bytes) -> Path:
    path = CORPUS / name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def findings(name: str, seconds: float, seed: int, keep: bool) -> Iterator[tuple[bytes, str, str]]:
    """Fuzz a target in a process of its own; yields input, kind and words of each finding."""
    context = get_context("fork")  # what the targets import is imported once
    ours, theirs = context.Pipe(duplex=False)
    place = mmap.mmap(-1, LONGEST + 8)
    begin = time.monotonic()
    child = context.Process(target=fuzz, args=(name, seconds, seed, keep, place, theirs))
    child.start()
    theirs.close()
    with ours:
        while True:
            try:
                found = ours.recv()
            except EOFError:  # it died
                child.join()
                (length,) = struct.unpack("<Q", place[:8])
                yield place[8 : 8 + length], "crash", f"it ended with status {child.exitcode}"
                return
            if isinstance(found[0], int):
                count, grown, lines = found
                print(
                    f"{name}: {count} mutations in {time.monotonic() - begin:.0f} s, {grown} of them reached "
                    f"new lines, {lines} lines in all",
                    flush=True,
                )
                child.join()
                return
            yield found


def main() -> int:
    """Run as the module says."""
    names = {"default": list(TARGETS), "choices": list(TARGETS), "metavar": "TARGET"}
    replayed = {
        "default": "",
        "metavar": "FILE",
        "help": "read this input of the corpus, and show what happens",
    }
    seed = {"default": int(time.time()), "help": "of the mutations; the time's, if not given"}
    options = parse_options(
        __doc__,
        targets=names,
        seconds={"default": 60.0, "help": "of processor time, of all targets together"},
        seed=seed,
        keep=False,
        replay=replayed,
    )
    if options.replay:
        path = Path(options.replay)
        TARGETS[path.parent.name].read(path.read_bytes())
        return 0
    count = 0
    print(f"seed {options.seed}", flush=True)
    for name in options.targets:
        for data, kind, words in findings(
            name, options.seconds / len(options.targets), options.seed, options.keep
        ):
            count += 1
            path = _write(name, data)
            print(f"FOUND in {name}: {kind}\n{words}")
            print(f"    python tests/reliability/fuzz.py --replay {path}", flush=True)
    print(f"{count} findings")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
