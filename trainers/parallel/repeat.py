"""What a further learner does: it makes the trainers that the first one has, and repeats their updates."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ...agent_processor.stats_sink import StatsSink
from ...envs.finite import NonFinite
from ..algorithms import make_algorithm
from ..checkpoint_brain import rebuild_spec
from ..make_trainer import make_trainer
from ..precision import Precision
from ..settings.behavior import TrainerSettings
from ..threads import ACTING_THREADS, UpdateThreads
from ..trainer import Trainer
from .joining import join
from .messages import receive
from .process import READY
from .progress import Progress
from .sharing import Sharing

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
    spec, seed = rebuild_spec(behavior["spec"]), int(behavior["seed"])
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
