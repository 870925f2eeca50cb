"""`lanista learn --seeds 3`: the same training with several seeds, and a report on all of them."""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

from ...checkpoints.run_folder import require_usable
from ...cli.arguments import count_from_1
from ...runner.signals import INTERRUPTED, StopSignals
from ...settings.command_line import make_parser, parse_command_line
from ...settings.errors import TrainerConfigError
from ...settings.late_flags import warn_of_late_flags
from ...utils.atomic_files import atomic_write_text
from ...utils.errors import CommandError, TrainerError
from ...utils.text import typed
from ..report.command import report, require_replaceable
from .runs import SeedDisplay, SeedRun, terminal

SEEDS = "--seeds"
_POLL = 0.1
"""Seconds between two looks at the processes."""


def asked(argv: Sequence[str]) -> bool:
    """Whether arguments of `lanista learn` ask for several seeds; what follows --env-args is the engine's."""
    return any(word.partition("=")[0] == SEEDS for word in _split(argv)[0])


def run(argv: Sequence[str]) -> int:
    """Train with every seed, and write the report beside the runs; 0 if all runs succeeded."""
    given, rest = _read(argv)
    try:
        runs = _checked(given.seeds, rest)
        page = runs[0].folder.with_name(f"{_stem(runs)}.html")
        require_replaceable(page, "Move it away, or choose another --run-id.")
    except (TrainerConfigError, TrainerError, CommandError) as error:
        raise CommandError(f"{error}\nNo run has begun.") from error
    stopped = _train(runs, given.parallel)
    begun = {one.folder.name: one.folder for one in runs if one.folder.is_dir()}
    if begun:
        atomic_write_text(page, report(begun, page.parent))
        print(f"The report is {page}.")
    if stopped:
        print(f"The runs were stopped. This continues them: {_resuming(argv)}")
        return INTERRUPTED
    return 0 if all(one.status == 0 for one in runs) else 1


def _read(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The two flags of this command, and the arguments of every run."""
    own, engine = _split(argv)
    parser = argparse.ArgumentParser(prog="lanista learn", add_help=False, allow_abbrev=False)
    _add_arguments(parser)
    parser.add_argument("--seed")
    given, rest = parser.parse_known_args(own)
    if given.seed is not None:
        parser.error(
            f"found --seed {given.seed} beside {SEEDS}: --seed is that of a single run; name the seeds with "
            f"{SEEDS}, such as {SEEDS} 7,8,9"
        )
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
        "--parallel", type=count_from_1, default=1, metavar="N", help="how many of these runs at a time (1)"
    )


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    at = argv.index("--env-args") if "--env-args" in argv else len(argv)
    return list(argv[:at]), list(argv[at:])


def _checked(seeds: Sequence[int], rest: list[str]) -> list[SeedRun]:
    """The runs, none of which would be refused for its settings or its folder.

    Raises:
        TrainerConfigError, TrainerError: one of them would be.
    """
    whole = parse_command_line(rest)
    warn_of_late_flags(whole, rest)
    name = whole.checkpoint_settings.run_id
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


def _resuming(argv: Sequence[str]) -> str:
    """The command that continues what these arguments of `lanista learn` began."""
    own, engine = _split(argv)
    kept = [word for word in own if word not in ("--force", "--resume")]
    return typed(["lanista", "learn", *kept, "--resume", *engine])


def _train(runs: Sequence[SeedRun], parallel: int) -> bool:
    """Train at most `parallel` at a time; returns whether the user has stopped them."""
    waiting, going, stop = list(runs), list[SeedRun](), Event()
    with StopSignals() as signals, SeedDisplay(runs, terminal()) as display:
        signals.call(stop.set)
        try:
            while going or (waiting and not stop.is_set()):
                while waiting and len(going) < parallel and not stop.is_set():
                    going.append(waiting.pop(0))
                    going[-1].begin()
                    display.began(going[-1])
                if stop.is_set():
                    display.stopping = True
                    for process in [one.process for one in going if one.process is not None]:
                        process.terminate()
                time.sleep(_POLL)
                display.update()
                for one in [one for one in going if one.ended()]:
                    going.remove(one)
                    display.ended(one)
        finally:
            for one in going:
                if one.process is not None:
                    one.process.kill()
    return stop.is_set()


def _seeds(text: str) -> list[int]:
    """`3` stands for 0, 1 and 2; `7,8` for these."""
    if re.fullmatch(r"[1-9]\d{0,3}", text):
        return list(range(int(text)))
    if re.fullmatch(r"\d+(,\d+)+,?|\d+,", text):
        seeds = [int(part) for part in text.split(",") if part]
        if len(set(seeds)) == len(seeds):
            return seeds
    raise argparse.ArgumentTypeError(f"found {text!r}, expected a number of seeds, or seeds: 3 or 7,8,9")
