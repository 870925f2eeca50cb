"""`lanista learn --seeds 3`: the same training with several seeds, and a report on all of them."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from ..checkpoints.run_folder import require_usable
from ..runner.signals import INTERRUPTED, StopSignals
from ..settings.command_line import make_parser, parse_command_line
from ..settings.errors import TrainerConfigError
from ..utils.atomic_files import atomic_write_text
from ..utils.errors import CommandError, TrainerError
from .report.command import report
from .runs.record import read_run
from .sweep.launcher import RunProcess

SEEDS = "--seeds"
_POLL = 0.1
"""Seconds between two looks at the processes."""


@dataclass
class SeedRun:
    """The run of one seed."""

    seed: int
    folder: Path
    arguments: list[str]
    """Of `lanista learn`."""
    process: RunProcess | None = None
    began: float = 0.0
    status: int | None = None
    """None until it has ended."""

    @property
    def log(self) -> Path:
        """What it prints goes there, beside its folder, which it claims itself."""
        return self.folder.with_name(f"{self.folder.name}.log")


def asked(argv: Sequence[str]) -> bool:
    """Whether arguments of `lanista learn` ask for several seeds; what follows --env-args is the engine's."""
    return any(word.partition("=")[0] == SEEDS for word in _split(argv)[0])


def run(argv: Sequence[str]) -> int:
    """Train with every seed, and write the report beside the runs; 0 if all runs succeeded."""
    given, rest = _read(argv)
    try:
        runs = _checked(given.seeds, rest)
    except (TrainerConfigError, TrainerError) as error:
        raise CommandError(f"{error}\nNo run has begun.") from error
    stopped = _train(runs, given.parallel)
    begun = {one.folder.name: one.folder for one in runs if one.folder.is_dir()}
    if begun:
        page = runs[0].folder.with_name(f"{_stem(runs)}.html")
        atomic_write_text(page, report(begun))
        print(f"The report is {page}.")
    if stopped:
        print("The runs were stopped. The same command with --resume continues.")
        return INTERRUPTED
    return 0 if all(one.status == 0 for one in runs) else 1


def _read(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The two flags of this command, and the arguments of every run."""
    own, engine = _split(argv)
    parser = argparse.ArgumentParser(prog="lanista learn", add_help=False, allow_abbrev=False)
    _add_arguments(parser)
    given, rest = parser.parse_known_args(own)
    return given, [*rest, *engine]


def help_asked(argv: Sequence[str]) -> bool:
    """Whether arguments of `lanista learn` ask for its help."""
    return not {"-h", "--help"}.isdisjoint(_split(argv)[0])


def make_whole_parser() -> argparse.ArgumentParser:
    """The parser of `lanista-learn`, with the flags that `lanista learn` alone has."""
    parser = make_parser()
    parser.prog = "lanista learn"
    _add_arguments(parser.add_argument_group("several seeds"))
    return parser


def _add_arguments(parser: Any) -> None:
    parser.add_argument(
        SEEDS,
        type=_seeds,
        metavar="N|A,B,...",
        help="train with the seeds 0 to N - 1, or with these, a run each, and write a report on all of them",
    )
    parser.add_argument(
        "--parallel", type=_count, default=1, metavar="N", help="how many of these runs at a time (1)"
    )


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    at = argv.index("--env-args") if "--env-args" in argv else len(argv)
    return list(argv[:at]), list(argv[at:])


def _checked(seeds: Sequence[int], rest: list[str]) -> list[SeedRun]:
    """The runs, none of which would be refused for its settings or its folder.

    Raises:
        TrainerConfigError, TrainerError: one of them would be.
    """
    name = parse_command_line(rest).checkpoint_settings.run_id
    runs = []
    for seed in seeds:
        values = {"env_settings.seed": str(seed), "checkpoint_settings.run_id": f"{name}-{seed}"}
        options = parse_command_line(_with(rest, values))
        folder = Path(options.checkpoint_settings.write_path)
        if options.checkpoint_settings.resume and not folder.is_dir():  # it was stopped before this seed
            values["checkpoint_settings.resume"] = "false"
        else:
            require_usable(folder, options.checkpoint_settings)
        arguments = _with(rest, values)
        runs.append(SeedRun(seed, folder, arguments))
    return runs


def _with(rest: list[str], values: dict[str, str]) -> list[str]:
    own, engine = _split(rest)
    return [*own, *(word for key, value in values.items() for word in ("--set", f"{key}={value}")), *engine]


def _stem(runs: Sequence[SeedRun]) -> str:
    return runs[0].folder.name.removesuffix(f"-{runs[0].seed}")


def _train(runs: Sequence[SeedRun], parallel: int) -> bool:
    """Train at most `parallel` at a time; returns whether the user has stopped them."""
    waiting, going, stop = list(runs), list[SeedRun](), Event()
    with StopSignals() as signals:
        signals.call(stop.set)
        try:
            while going or (waiting and not stop.is_set()):
                while waiting and len(going) < parallel and not stop.is_set():
                    going.append(_begin(waiting.pop(0)))
                if stop.is_set():
                    for process in [one.process for one in going if one.process is not None]:
                        process.terminate()
                time.sleep(_POLL)
                going = [one for one in going if not _ended(one)]
        finally:
            for one in going:
                if one.process is not None:
                    one.process.kill()
    return stop.is_set()


def _begin(one: SeedRun) -> SeedRun:
    one.process, one.began = RunProcess(one.arguments, one.log), time.monotonic()
    print(f"Seed {one.seed}: {one.folder} begins; what it says goes to {one.log}", flush=True)
    return one


def _ended(one: SeedRun) -> bool:
    if one.process is None:
        return True
    one.status = one.process.poll()
    if one.status is None:
        return False
    seconds = time.monotonic() - one.began
    if one.status == INTERRUPTED:
        print(f"Seed {one.seed} was stopped after {seconds:.0f} s.", flush=True)
    elif one.status:
        print(f"Seed {one.seed} failed after {seconds:.0f} s: {one.process.error_message()}", flush=True)
    else:
        reward = read_run(one.folder, brief=True).first.last_reward
        scored = "" if reward is None else f", mean reward {reward:.4g}"
        print(f"Seed {one.seed} ended after {seconds:.0f} s{scored}.", flush=True)
    return True


def _seeds(text: str) -> list[int]:
    """`3` stands for 0, 1 and 2; `7,8` for these."""
    if re.fullmatch(r"[1-9]\d{0,3}", text):
        return list(range(int(text)))
    if re.fullmatch(r"\d+(,\d+)+,?|\d+,", text):
        seeds = [int(part) for part in text.split(",") if part]
        if len(set(seeds)) == len(seeds):
            return seeds
    raise argparse.ArgumentTypeError(f"found {text!r}, expected a number of seeds, or seeds: 3 or 7,8,9")


def _count(text: str) -> int:
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 1 up")
    return int(text)
