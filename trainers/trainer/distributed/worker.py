"""The process of a further learner, as the first one sees it.

What a further learner does: it makes the trainers that the first one has, and repeats their updates.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ....agent_processor.stats_sink import StatsSink
from ....envs.unity import process as guard
from ....envs.validation import NonFinite
from ...algorithms.common.threads import ACTING_THREADS, UpdateThreads
from ...checkpoints.metadata import build_spec
from ...networks.modules.precision import Precision
from ...settings.models.behavior import TrainerSettings
from ...utils.data_parallel import Sharing
from ..factory import make_algorithm, make_trainer
from ..trainer import Trainer
from .messages import receive
from .rendezvous import Progress, join

READY = b"ready"
"""What a learner says when torch is loaded and it waits for the others."""


class LearnerProcess:
    """A learner with a pipe to it; it ends when the pipe is closed, as it is when this process ends.

    Like an engine it lives in a session of its own, so that Ctrl-C reaches the first learner alone.
    """

    def __init__(self, rank: int, log: Path) -> None:
        """Start it. `log`: the file of what it writes.

        Raises:
            OSError: the system refuses.
        """
        self.rank, self.log = rank, log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lanista.trainers.trainer.distributed"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        self.pid = self._process.pid
        guard.watch(self.pid)
        atexit.register(self.end)

    def tell(self, command: dict[str, Any]) -> None:
        """Send a command, of plain values.

        Raises:
            OSError: it has ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> bool:
        """Wait for its word; False: it has ended without."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip() == READY

    def ended(self, patience: float) -> bool:
        """Whether it ends within so many seconds."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """End it now; nothing in it is worth saving."""
        atexit.unregister(self.end)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was still to be sent finds nobody
                    continue
        self._kill()
        self._process.wait()
        guard.release(self.pid)
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()

    def _kill(self) -> None:
        """With whatever it has started. Nobody else has its number before it is waited for."""
        if self._process.returncode is not None:
            return
        if os.name == "posix":
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # it has ended; macOS says so by the second
                return
        else:
            self._process.kill()

    def fate(self) -> str:
        """How it ended, with the last line of its log."""
        code = self._process.poll()
        if code is None:
            return "it is alive"
        how = f"it ended with exit status {code}"
        if code < 0:
            how = f"it was ended by signal {-code} ({signal.Signals(-code).name})"
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:] if self.log.exists() else []
        return f"{how}; the last line of {self.log}: {last[0].strip()}" if last else f"{how} without a word"


Command = dict[str, Any]


def main() -> None:
    """Carry out commands, one JSON object a line, until standard input ends or something goes wrong."""
    try:
        _carry_out(_commands())
    except BaseException:  # whatever it is: the first learner finds it in this one's log
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # a usual end would wait for the thread that reads commands


def _carry_out(commands: Iterator[Command]) -> None:
    asked = next(commands)
    wanted, rank = asked["join"], int(asked["rank"])
    torch.set_num_threads(ACTING_THREADS)
    print(READY.decode(), flush=True)
    os.dup2(2, 1)  # nobody reads on: what a user's network prints goes to this learner's log
    folder, size = Path(wanted["folder"]), int(wanted["size"])
    join(folder, rank, size, wanted["device"], wanted["patience"])
    device = torch.device("cpu")
    if wanted["device"] != "cpu":
        device = torch.device(wanted["device"], rank)
        torch.cuda.set_device(device)
    sharing = Sharing(rank, size, entered=Progress(folder, rank, size).entered)
    threads = UpdateThreads(wanted["threads"], fixed=True)
    trainers: dict[str, Trainer] = {}
    for command in commands:
        if "behavior" in command:
            made = made_trainer(command["behavior"], device, threads)
            made.share(sharing)
            trainers[command["behavior"]["name"]] = made
        else:
            trainers[command["update"]].repeat(receive(sharing))


def _commands() -> Iterator[Command]:
    """The commands of standard input, in their order; the process ends where they do, whatever it does."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin.buffer:
            lines.put(line)
        os._exit(0)  # the first learner has gone, and would be waited for in vain

    threading.Thread(target=read, name="commands", daemon=True).start()
    while True:
        yield json.loads(lines.get())


def made_trainer(
    behavior: Mapping[str, Any], device: torch.device, threads: UpdateThreads, stats: StatsSink | None = None
) -> Trainer:
    """The trainer of a behaviour, as `learn_together` describes it; it reports to `stats`, or to nobody."""
    spec, seed = build_spec(behavior["spec"]), int(behavior["seed"])
    settings = TrainerSettings.model_validate(behavior["settings"])
    non_finite = NonFinite(behavior["non_finite"])
    algorithm = make_algorithm(spec, settings, device, seed, non_finite, Precision(behavior["precision"]))
    return make_trainer(
        *(behavior["name"], spec, settings, algorithm, stats or Unheard(), NoFiles()),
        non_finite=non_finite,
        seed=seed,
        device=device,
        update_threads=None if settings.threaded else threads,  # as the first learner has it
        keeps_steps=False,
    )


class Unheard(StatsSink):
    """Statistics, which the first learner reports."""

    def add_stat(self, key: str, value: float, aggregation: Any) -> None:
        """Nothing."""

    def add_stats(self, key: str, values: Any, aggregation: Any) -> None:
        """Nothing."""

    def set_stat(self, key: str, value: float) -> None:
        """Nothing."""


class NoFiles:
    """What falls due in a trainer is for the first learner."""

    def summary(self, step: int) -> bool:
        """Nothing."""
        return False

    def best(self) -> bool:
        """Nothing."""
        return False

    def checkpoint(self) -> bool:
        """Nothing."""
        return False

    def reached(self, mean: float) -> None:
        """Nothing."""

    def taken_in(self) -> None:
        """Nothing."""

    def updated(self, figures: Mapping[str, float]) -> None:
        """Nothing."""
