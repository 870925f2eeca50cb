"""Trains random combinations of settings: what two features do to each other, no test of one of them sees.

    python tests/combinations.py [--count 60] [--seed 0] [--jobs 2] [--first 0] [--table found.csv]

Each combination is trained with its seed; its models are compared with its checkpoint and play; it is resumed
with one setting changed; and it is trained again, which must give the same weights. The draw favors pairs of
values that have met least. A combination that does not end is killed, and the stacks of its threads are
printed; one that Lanista refuses is listed with the reason. The status is 1 if any other failed.
"""

from __future__ import annotations

import csv
import faulthandler
import io
import json
import logging
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from crowd import write_demonstration
from drawn_combinations import (
    DEMONSTRATION,
    STEPS,
    Combination,
    changes,
    configuration,
    draw,
    pairs_of,
    repeatable,
    rules_of,
)
from random_env import OBSERVATIONS, make
from script_options import parse_options

TESTS = Path(__file__).parent
LIMIT = 90.0
"""Seconds after which a combination counts as hanging."""

# The trial ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What came of a combination."""

    number: int
    outcome: str
    """fine, refused, failed or hung."""
    where: str = ""
    """The part of the trial."""
    reason: str = ""
    seconds: float = 0.0


class Difference(Exception):
    """Two results that should be equal are not."""


def _train(one: Combination, seed: int, run_id: str, **more: Any) -> Any:
    import lanista

    rules, config = rules_of(one), configuration(one, seed)
    if one["environments"] in ("wire", "ranks"):
        workers = int(one["environments"] == "wire")
        config["env_settings"] |= {"env_workers": workers, "env_args": ["--rules", rules.text()]}
        return lanista.train(config, env="python:random_env:make", run_id=run_id, deterministic=True, **more)
    text = rules.text()
    return lanista.train(
        config, env=lambda seed=0: make(text, seed), run_id=run_id, deterministic=True, **more
    )


def _compare_with_checkpoint(one: Combination, result: Any, seed: int) -> None:
    """The exported models act as the checkpoints do."""
    import lanista

    generator, rules = np.random.default_rng(seed), rules_of(one)
    for behavior, brain in result.brains.items():
        name, _, place = behavior.partition("-place")
        checkpoint = lanista.load(
            result.folder / name / "checkpoint.pt", **({"place": int(place)} if place else {})
        )
        exported = lanista.load(brain)
        for _ in range(3):  # memories go on
            obs = []
            for kind in rules.observations:
                rows = generator.random((5, *OBSERVATIONS[kind].shape)).astype(np.float32)
                obs.append(rows)
            obs = [obs[index] for index in sorted(exported.observations)]
            first, second = checkpoint.act(obs), exported.act(obs)
            if not np.allclose(first.continuous, second.continuous, atol=1e-4) or not np.array_equal(
                first.discrete, second.discrete
            ):
                raise Difference(f"{brain} and checkpoint.pt act differently: {first} and {second}")


def _play(one: Combination, run_id: str) -> None:
    from lanista.trainers.cli.main import run

    words = ["play", f"runs/{run_id}", "--env", "python:random_env:make", "--episodes", "2", "--json"]
    with redirect_stdout(io.StringIO()) as told:
        status = run([*words, "--trust-run", "--env-args", "--rules", rules_of(one).text()])
    behaviors = json.loads(told.getvalue())["behaviors"] if status == 0 else {}
    missing = {name.partition("?")[0] for name in rules_of(one).behaviors} - {
        name.partition("?")[0] for name in behaviors
    }
    if status or missing:
        raise Difference(f"play ended with status {status}, without {missing or 'any reason'}")


def _weights(result: Any) -> dict[str, Any]:
    """The tensors of every checkpoint of a run."""
    from lanista.trainers.checkpoints.file import load_checkpoint

    found: dict[str, Any] = {}

    def walk(path: str, value: Any) -> None:
        if hasattr(value, "detach"):
            found[path] = value.detach().cpu().numpy()
        elif isinstance(value, Mapping):
            for key, each in value.items():
                walk(f"{path}.{key}", each)
        elif isinstance(value, (list, tuple)):
            for key, each in enumerate(value):
                walk(f"{path}.{key}", each)

    for file in sorted(result.folder.glob("*/checkpoint.pt")):
        walk(file.parent.name, load_checkpoint(file))
    return found


ROW_NUMBERS = ("buffer.numbers", "buffer.mates", "buffer.other_numbers")
"""Labels of the steps that wait for an update: which block of memory held a step depends on when others were
freed, and nothing is computed from it."""


def _compare_weights(first: Mapping[str, Any], second: Mapping[str, Any]) -> None:
    if first.keys() != second.keys():
        raise Difference(f"the repeated run saved other tensors: {sorted(first.keys() ^ second.keys())[:5]}")
    numbers = [key for key in first if not key.endswith(ROW_NUMBERS)]
    other = [key for key in numbers if not np.array_equal(first[key], second[key], equal_nan=True)]
    if other:
        raise Difference(f"the repeated run has other numbers in {len(other)} of {len(first)}: {other[:4]}")


def attempt(one: Combination, number: int, seed: int) -> Found:
    """Try one combination in the current folder."""
    from lanista.trainers.settings import TrainerConfigError
    from lanista.trainers.utils.errors import TrainerError

    begun, where = time.monotonic(), "train"
    Path(DEMONSTRATION).unlink(missing_ok=True)  # of the combination before
    write_demonstration(Path(DEMONSTRATION), rules_of(one).spec, [6, 9, 4], rewarded=True)
    try:
        result = _train(one, seed, "first")
        weights = _weights(result)
        where = "compare"
        _compare_with_checkpoint(one, result, seed)
        where = "play"
        _play(one, "first")
        where = "repeat"
        if repeatable(one):
            _compare_weights(weights, _weights(_train(one, seed, "second")))
        where = "resume"
        resumed = _train(one, seed, "first", resume=True, overrides=changes(one))
        if min(resumed.steps.values()) < STEPS:
            raise Difference(f"the resumed run ended at {resumed.steps}")
    except TrainerConfigError as error:
        outcome, reason = ("refused" if where == "train" else "failed"), str(error)
    except (TrainerError, Difference) as error:
        outcome, reason = "failed", str(error)
    except BaseException:
        outcome, reason = "failed", traceback.format_exc()
    else:
        outcome, where, reason = "fine", "", ""
    return Found(number, outcome, where, reason, time.monotonic() - begun)


# The workers --------------------------------------------------------------------------------------------


def work(orders: Connection, folder: Path) -> None:
    """Try combinations as they are sent, in a process of its own."""
    sys.path.insert(0, str(TESTS))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    log = open("log", "w")  # noqa: SIM115 - as long as the process
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    faulthandler.register(signal.SIGUSR1, file=open("stacks", "w"), all_threads=True)  # noqa: SIM115
    logging.getLogger("lanista").setLevel(logging.WARNING)
    while (order := orders.recv()) is not None:
        shutil.rmtree("runs", ignore_errors=True)
        orders.send(attempt(*order))


class Worker:
    """A process that tries combinations one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, self.folder), daemon=False)
        self._process.start()
        theirs.close()
        self.order: tuple[Combination, int, int] | None = None

    def begin(self, one: Combination, number: int, seed: int) -> None:
        """Try this one."""
        self.order, self._deadline = (one, number, seed), time.monotonic() + LIMIT
        self.connection.send(self.order)

    def result(self) -> Found | None:
        """What came of it; None if it is still being tried."""
        assert self.order is not None
        number = self.order[1]
        found: Found | None = None
        try:
            if self.connection.poll():
                found = self.connection.recv()
                self.order = None
                return found
        except EOFError:
            found = Found(number, "failed", "process", f"it ended with status {self._process.exitcode}")
        if found is None and time.monotonic() > self._deadline:
            os.kill(self._process.pid or 0, signal.SIGUSR1)
            time.sleep(1.0)
            stacks = (self.folder / "stacks").read_text()
            found = Found(number, "hung", "", stacks, LIMIT)
        if found is not None:
            self._process.kill()
            self._process.join(10)
            self._start()
        return found

    def close(self) -> None:
        """End the process."""
        self.connection.send(None)
        self._process.join(10)
        self._process.kill()


def run_all(orders: Sequence[tuple[Combination, int, int]], jobs: int, folder: Path) -> Iterator[Found]:
    """Try all; what came of each, in the order in which they end."""
    left = list(reversed(orders))
    workers = [Worker(folder / f"worker{k}") for k in range(jobs)]
    try:
        while left or any(worker.order for worker in workers):
            for worker in workers:
                if worker.order is None and left:
                    worker.begin(*left.pop())
                elif worker.order is not None and (found := worker.result()) is not None:
                    yield found
            time.sleep(0.02)
    finally:
        for worker in workers:
            worker.close()


def append_row(table: Path, row: Mapping[str, Any]) -> None:
    """Write a row at once: a long run may be ended, and go on with `--first`."""
    begins = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        if begins:
            writer.writeheader()
        writer.writerow(row)


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        count={"default": 60, "help": "combinations to try"},
        seed={"default": 0, "help": "of the draw"},
        jobs={"default": 2, "help": "processes"},
        first={"default": 0, "help": "the number of the first one to try"},
        table={"default": "", "help": "a CSV file to which a row for each is added"},
    )
    refused = Counter[str]()
    drawn = draw(options.first + options.count, options.seed, refused)
    orders = [(one, number, options.seed + number) for number, one in enumerate(drawn)][options.first :]
    outcomes, rows = Counter[str](), []
    with tempfile.TemporaryDirectory() as made:
        for found in run_all(orders, options.jobs, Path(made)):
            outcomes[found.outcome] += 1
            rows.append({"number": found.number, "outcome": found.outcome, "where": found.where})
            rows[-1] |= {**drawn[found.number], "seconds": round(found.seconds, 1), "reason": found.reason}
            if options.table:
                append_row(Path(options.table), rows[-1])
            if found.outcome != "fine":
                described = ", ".join(f"{key}: {value}" for key, value in drawn[found.number].items())
                print(
                    f"{found.number} {found.outcome} {found.where} ({described})\n    {found.reason}",
                    flush=True,
                )
    met = Counter(pair for row, *_ in orders for pair in pairs_of(row))
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(
        f"{len(orders)} combinations, {len(met)} pairs of values, each at least {min(met.values())} times: "
        f"{told}."
    )
    for reason, count in refused.most_common():
        print(f"{count} draws refused: {reason}")
    return int(any(outcomes[kind] for kind in ("failed", "hung")))


if __name__ == "__main__":
    sys.exit(main())
