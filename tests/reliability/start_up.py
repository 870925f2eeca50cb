"""Starts runs wrongly, in every way that users do, and reads what `lanista-learn` says about it.

    python tests/reliability/start_up.py [--only PATTERN] [--jobs 1] [--limit 2] [--fork]

Each fault is a process of the console script of its own, in a folder of its own. The table shows the exit
status, the seconds until the process had ended, and the message. Ends with status 1 if a message does not
say cause and remedy in one line, a traceback appeared, torch was loaded without need, a process was left
behind, or a file was written or changed. What only torch or a running engine can find is marked with `torch`
and `engine`: loading torch takes seconds of its own, and an engine may write its log.

With --fork what needs neither is run by copies of one process that has loaded the command, which is quick.
"""

from __future__ import annotations

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
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from console_runs import learn_command, left_behind, until  # noqa: E402
from lanista.trainers import learn  # noqa: E402
from script_options import parse_options  # noqa: E402
from start_up_faults import Fault, faults  # noqa: E402
from start_up_places import Around, forget_trained  # noqa: E402

PATIENCE = 120.0
"""Seconds after which a run counts as stuck."""
TRAP = "TORCH WAS LOADED"
SAYS_ERROR = re.compile(r"^lanista-learn: error: ", re.MULTILINE)


@dataclass(frozen=True)
class Seen:
    """The outcome of a fault."""

    fault: Fault
    status: int
    seconds: float
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


def commit(fault: Fault, trapped: Path, fork: bool) -> Seen:
    """Start a run with this fault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        if fault.yaml is not None:
            content = fault.yaml
            (folder / "c.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
        with fault.place(folder) if fault.place else nullcontext(Around()) as around:
            before = files(folder)
            begin = time.monotonic()
            alone = fault.needs or fault.python or around.preexec
            run = _forked if fork and not alone else _started
            status, text = run(fault, around, folder, trapped)
            seconds = time.monotonic() - begin
            orphans = not until(lambda: not left_behind(folder), 10.0)
            after = files(folder)
        changed = {path for path, content in before.items() if after.get(path) != content}
        new = set() if fault.needs else set(after) - set(before)
        wrong = [*_wrong(fault, status, text), *(f"{path} was changed" for path in sorted(changed | new))]
        return Seen(fault, status, seconds, text, (*wrong, *(["a process stayed"] if orphans else [])))


def _arguments(fault: Fault, around: Around) -> list[str]:
    return ["c.yaml", "--run-id", "r", *around.arguments, *fault.arguments]


def _started(fault: Fault, around: Around, folder: Path, trapped: Path) -> tuple[int, str]:
    """Status and errors of the console script; where something must be pretended, of the module."""
    command = learn_command()
    if fault.python:
        script = f"import sys\nsys.argv[0] = 'lanista-learn'\n{fault.python}\n"
        command = [sys.executable, "-c", f"{script}from lanista.trainers.learn import main\nmain()"]
    environment = dict(os.environ)
    if not fault.needs:
        path = [str(trapped), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(part for part in path if part)
    process = subprocess.Popen(
        [*command, *_arguments(fault, around)],
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
    status = f"{seen.status} {seen.seconds:5.2f} s {seen.fault.needs:6}"
    print(f"{seen.fault.name:27} {status} {seen.line}", flush=True)
    for what in seen.wrong:
        print(f"    WRONG: {what}\n" + "\n".join(f"    | {line}" for line in seen.text.splitlines()[-20:]))


def main() -> int:
    """Run as the module says."""
    options = parse_options(
        __doc__,
        only={"default": "", "metavar": "PATTERN", "help": "faults whose names match"},
        jobs={"default": 1, "help": "processes at once; the times count with 1 alone"},
        limit={"default": 0.0, "help": "seconds that a message may take without torch"},
        fork={"default": False, "help": "by copies of one process, one after the other"},
    )
    chosen = [fault for fault in faults() if re.search(options.only, fault.name)]
    outcomes: list[Seen] = []
    try:
        with trap() as trapped, ThreadPoolExecutor(options.jobs) as pool:
            spread = map if options.fork else pool.map  # no threads beside a fork
            for seen in spread(lambda fault: commit(fault, trapped, options.fork), chosen):
                outcomes.append(seen)
                show(seen)
    finally:
        forget_trained()
    bad = [seen for seen in outcomes if seen.wrong]
    early = [seen.seconds for seen in outcomes if not seen.fault.needs]
    late = [seen.seconds for seen in outcomes if seen.fault.needs]
    print(
        f"{len(outcomes)} faults, {len(bad)} bad messages. Without torch at most "
        f"{max(early, default=0):.2f} s ({len(early)} faults), with torch or an engine "
        f"{max(late, default=0):.2f} s ({len(late)} faults)."
    )
    return int(bool(bad) or (options.limit > 0 and max(early, default=0) > options.limit))


if __name__ == "__main__":
    sys.exit(main())
