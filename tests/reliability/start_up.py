"""Starts runs wrongly, in every way that users do, and reads what `lanista-learn` says about it.

    python tests/reliability/start_up.py [--only PATTERN] [--jobs 1] [--limit 2] [--fork]
                                         [--products Lanista ML-Agents]

Each fault is a process of the console script of its own, in a folder of its own. The table shows the exit
status, the seconds until the process had ended, those of processor time, and the message; on a shared machine
the clock says what others did. Ends with status 1 if a message does not say cause and remedy in one line, a
traceback appeared, torch was loaded without need, a process was left behind, a file was written or changed,
or a message took more than --limit seconds of processor time without torch. What only torch or a running
engine can find is marked with `torch` and `engine`: loading torch takes seconds of its own, and an engine
may write its log.

ML-Agents gets the faults that its users make as well (COMMON). Of it no wording is asked, and it may write
files: it is to end with an error, without a traceback and a process that stays.

With --fork what needs neither is run by copies of one process that has loaded the command, which is quick.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import programs  # noqa: E402
from figures import LANISTA, Recorder  # noqa: E402
from lanista.envs.scenes.registry import export  # noqa: E402
from lanista.trainers import learn  # noqa: E402
from script_options import parse_options  # noqa: E402
from scripted_engine import free_port  # noqa: E402
from start_up_faults import Fault, faults  # noqa: E402
from start_up_places import Around, forget_trained  # noqa: E402

PATIENCE = 120.0
"""Seconds after which a run counts as stuck."""
COMMON = frozenset(
    {
        *("empty", "not a mapping", "a tab", "an open bracket", "bad syntax", "not UTF-8", "no file"),
        *("unknown key, behavior", "unknown hyperparameter", "wrong type", "out of range", "unknown trainer"),
        *("no trainer", "a folder as file", "no executable", "not executable", "an empty program"),
        *(
            "it crashes at once",
            "a run of this name",
            "no run to resume",
            "results in a file",
            "a taken port",
        ),
    }
)
"""Faults that are faults with ML-Agents too."""
TRAP = "TORCH WAS LOADED"
SAYS_ERROR = re.compile(r"^lanista-learn: error: ", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """The outcome of a fault."""

    fault: Fault
    status: int
    seconds: float
    worked: float
    """Seconds of processor time."""
    text: str
    """Standard error."""
    wrong: tuple[str, ...]
    """What should not be."""

    @property
    def line(self) -> str:
        """The message's first line."""
        return SAYS_ERROR.sub("", self.text.strip(), count=1).partition("\n")[0]


@contextmanager
def trap() -> Iterator[Path]:
    """A folder whose `torch` ends whoever loads it."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "torch"
        package.mkdir()
        (package / "__init__.py").write_text(f"raise SystemExit({TRAP!r})\n")
        yield Path(folder)


def commit(fault: Fault, trapped: Path, fork: bool, product: str = LANISTA) -> Seen:
    """Start a run of a product with this fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        if fault.yaml is not None:
            content = fault.yaml
            (folder / "c.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
        with fault.place(folder) if fault.place else nullcontext(Around()) as around:
            before = files(folder)
            begin, worked = time.monotonic(), processor_seconds()
            alone = fault.needs or fault.python or around.preexec or product != LANISTA
            if fork and not alone:
                status, text = _forked(fault, around, folder, trapped)
            else:
                status, text = _started(fault, around, folder, trapped, product)
            seconds, worked = time.monotonic() - begin, processor_seconds() - worked
            orphans = programs.end_left_behind(folder)
            after = files(folder)
        changed = {path for path, content in before.items() if after.get(path) != content}
        new = set() if fault.needs else set(after) - set(before)
        found = _wrong(fault, status, text) if product == LANISTA else _wrong_of_ml_agents(status, text)
        touched = sorted(changed | new) if product == LANISTA else []
        wrong = [*found, *(f"{path} was changed" for path in touched)]
        return Seen(
            fault, status, seconds, worked, text, (*wrong, *(["a process stayed"] if orphans else []))
        )


def processor_seconds() -> float:
    """That the processes which have ended took; 0 where the system does not say."""
    times = os.times()
    return times.children_user + times.children_system


def _arguments(fault: Fault, around: Around) -> list[str]:
    return ["c.yaml", "--run-id", "r", *around.arguments, *fault.arguments]


def _started(
    fault: Fault, around: Around, folder: Path, trapped: Path, product: str = LANISTA
) -> tuple[int, str]:
    """Status and errors of the console script; where something must be pretended, of the module."""
    command, arguments = programs.command(product), _arguments(fault, around)
    if product != LANISTA:
        basic = [str(_basic()) if word == "scene:basic" else word for word in arguments]
        arguments = basic if "--base-port" in basic else [*basic, "--base-port", str(free_port())]
    if fault.python:
        script = f"import sys\nsys.argv[0] = 'lanista-learn'\n{fault.python}\n"
        command = [sys.executable, "-c", f"{script}from lanista.trainers.learn import main\nmain()"]
    environment = dict(os.environ)
    if not fault.needs and product == LANISTA:
        path = [str(trapped), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    process = subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=around.preexec,
    )
    try:
        text = process.communicate(timeout=PATIENCE)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        text = f"STUCK {process.communicate()[1]}"
    return process.returncode, text


@cache
def _basic() -> Path:
    """The scene `basic` as an executable."""
    return export("basic", Path(tempfile.mkdtemp()) / "basic.x86_64")


def _forked(fault: Fault, around: Around, folder: Path, trapped: Path) -> tuple[int, str]:
    """The same of a copy of this process."""
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            status = 70
            try:
                os.chdir(folder)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                os.dup2(errors.fileno(), 2)
                sys.path.insert(0, str(trapped))
                status = learn.run(_arguments(fault, around))
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
                if isinstance(end.code, str):
                    print(end.code, file=sys.stderr)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        return status, errors.read().decode()


def _wrong(fault: Fault, status: int, text: str) -> Iterator[str]:
    text = text.strip()
    if status != fault.status:
        yield f"the status is {status}, not {fault.status}"
    if "Traceback" in text or len(SAYS_ERROR.findall(text)) != 1:
        yield "not one message"
    if TRAP in text:
        yield "torch was loaded"
    if "\n" in text and fault.needs != "engine":  # an engine's output follows the message
        yield "more than one line"
    if not re.search(fault.says, text):
        yield f"it does not say {fault.says!r}"


def _wrong_of_ml_agents(status: int, text: str) -> Iterator[str]:
    if status not in (1, 2):
        yield f"the status is {status}"
    if "Traceback" in text:
        yield "a traceback"


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and time of every file, but for the logs of a run that is tried once more."""
    found = {}
    for path in folder.rglob("*"):
        of_engine = path.name == "timers.json" or path.match("Player-0*.log")
        if path.is_file() and os.access(path, os.R_OK) and not of_engine:
            found[str(path.relative_to(folder))] = (path.read_bytes(), path.stat().st_mtime_ns)
    return found


def show(seen: Seen) -> None:
    """A row of the table."""
    status = f"{seen.status} {seen.seconds:5.2f} s {seen.worked:5.2f} s {seen.fault.needs:6}"
    print(f"{seen.fault.name:27} {status} {seen.line}", flush=True)
    if seen.wrong:
        last = "\n".join(f"    | {line}" for line in seen.text.splitlines()[-20:])
        print(f"    WRONG: {', '.join(seen.wrong)}\n{last}")


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        only={"default": "", "metavar": "PATTERN", "help": "faults whose names match"},
        jobs={"default": 1, "help": "processes at once; the times count with 1 alone"},
        limit={"default": 0.0, "help": "seconds of processor time that a message may take without torch"},
        fork={"default": False, "help": "by copies of one process, one after the other"},
        products=programs.OPTION,
        record={"default": False, "help": "keep the figures"},
    )
    recorder = Recorder(9, options.record)
    failed = 0
    try:
        for product in options.products:
            chosen = [fault for fault in faults() if re.search(options.only, fault.name)]
            if product != LANISTA:
                chosen = [fault for fault in chosen if fault.name in COMMON]
            outcomes = commit_all(chosen, product, options.jobs, options.fork)
            failed += report(outcomes, product, options.limit, recorder)
    finally:
        forget_trained()
    return int(failed > 0)


def commit_all(chosen: list[Fault], product: str, jobs: int, fork: bool) -> list[Seen]:
    """Start a run with each fault, and show what came of it."""
    outcomes: list[Seen] = []
    with trap() as trapped, ThreadPoolExecutor(jobs) as pool:
        spread = map if fork else pool.map  # no threads beside a fork
        for seen in spread(lambda fault: commit(fault, trapped, fork, product), chosen):
            outcomes.append(seen)
            show(seen)
    return outcomes


def report(outcomes: list[Seen], product: str, limit: float, recorder: Recorder) -> bool:
    """Print and record the sum; whether Lanista is not as it should be."""
    bad = [seen for seen in outcomes if seen.wrong]
    early = [seen for seen in outcomes if not seen.fault.needs]
    longest, most = (
        max((getattr(seen, key) for seen in early), default=0.0) for key in ("seconds", "worked")
    )
    if product == LANISTA:
        found = f"without torch ({len(early)} faults) at most {longest:.2f} s by the clock"
    else:
        tracebacks = sum("a traceback" in seen.wrong for seen in outcomes)
        left = sum("a process stayed" in seen.wrong for seen in outcomes)
        went_on = sum(seen.status == 0 for seen in outcomes)
        found = f"{tracebacks} tracebacks, {left} left a process, {went_on} trained nevertheless"
    held = len(outcomes) - len(bad)
    lanista = product == LANISTA
    worst = (most, "s of processor time without torch") if lanista else (math.nan, "")
    recorder.add("faults", product, len(outcomes), held, worst=worst[0], unit=worst[1], found=found)
    return lanista and (bool(bad) or 0 < limit < most)


if __name__ == "__main__":
    sys.exit(main())
