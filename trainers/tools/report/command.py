"""`lanista report`: runs beside each other on one HTML page."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

from ...cli.arguments import add_results_dir
from ...cli.page_server import PageServer, port_number
from ...cli.runs.record import CARD, find_runs, is_locked, is_run, read_run, run_folder
from ...utils.atomic_files import atomic_write_text
from ...utils.errors import CommandError, did_you_mean
from ...utils.logging import print_error
from ...utils.plugins import cause
from ...utils.text import harmless
from .contents import RunResult, group_runs
from .page import is_page, make_page

REFRESH = 5.0
"""Seconds between two looks of the page at its runs."""
Signature = tuple[bool, tuple[tuple[str, int, int], ...]]
"""Whether a process trains the run, and path, time and size of each file."""


class LivePage:
    """The page of runs that may still go on; only runs whose files have changed are read again."""

    def __init__(
        self, find: Callable[[], dict[str, Path]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`find` returns the folders of the runs by name; runs that begin later join."""
        self._find = find
        self._clock = clock
        self._runs: dict[str, tuple[Signature, RunResult]] = {}
        self._page = b""
        self._made = -REFRESH
        self._lock = Lock()

    def read(self) -> bytes:
        """The page, at most `REFRESH` / 2 seconds old; the last one while a run that was named is gone.

        Raises:
            CommandError: at the first reading, a run that was named is not there.
        """
        with self._lock:
            if self._clock() - self._made > REFRESH / 2:
                try:
                    self._update()
                except Exception as error:  # one was set aside by --force, for example, or is being damaged
                    if not self._page:
                        raise
                    print_error("lanista report", f"the page stays as it was: {cause(error)}")
                self._made = self._clock()
            return self._page

    def _update(self) -> None:
        runs = {}
        for name, path in self._find().items():
            signature = _signature(path)
            before = self._runs.get(name)
            same = before is not None and before[0] == signature
            runs[name] = before if before and same else (signature, RunResult.read(read_run(path, name)))
        changed = {name: one[0] for name, one in runs.items()} != {n: one[0] for n, one in self._runs.items()}
        self._runs = runs
        if changed or not self._page:
            page = make_page(group_runs([run for _, run in runs.values()]), refresh=REFRESH)
            self._page = page.encode()


def _signature(folder: Path) -> Signature:
    """What changes whenever the run's curves, status or state do; a killed process leaves its files alone."""
    found = []
    for path in (*folder.glob("*/*"), folder / "configuration.yaml", folder / CARD):
        try:
            stat = path.stat()
        except OSError:
            continue
        found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return is_locked(folder), tuple(sorted(found))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run's ID or folder, or a folder with runs, such as results",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page (report.html)",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="in place of a file, serve the page to this machine until Ctrl-C, and refresh it as runs go on",
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=0,
        help="where --watch listens on 127.0.0.1 (any free port)",
    )
    add_results_dir(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the page, or serve it."""
    if arguments.watch:
        return _watch(arguments)
    folders = find(arguments.runs, arguments.results_dir)
    output: Path = arguments.output
    page = report(folders, output.parent)
    require_replaceable(output, "Name another file with -o.")
    try:
        atomic_write_text(output, page)
    except OSError as error:
        raise CommandError(
            f"{output} cannot be written: {error.strerror}. Give another place with -o."
        ) from error
    print(f"Wrote {harmless(str(output))}: {len(folders)} run{'s' if len(folders) > 1 else ''}.")
    return 0


def report(folders: dict[str, Path], beside: Path | None = None) -> str:
    """The page of these runs, by name; `beside`: the folder that it is for."""
    runs = [RunResult.read(read_run(path, name)) for name, path in folders.items()]
    return make_page(group_runs(runs), beside=beside)


def require_replaceable(output: Path, remedy: str) -> None:
    """Refuse to write a report over anything but a report.

    Raises:
        CommandError: something else is there.
    """
    if output.is_file() and not is_page(output):
        raise CommandError(f"{harmless(str(output))} is there and is not a report. {remedy}")


def _watch(arguments: argparse.Namespace) -> int:
    live = LivePage(lambda: find(arguments.runs, arguments.results_dir))
    live.read()
    with PageServer(live.read, arguments.port) as server:
        print(f"The page is at {server.address} for this machine alone. Ctrl-C ends.", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve()
    return 0


def find(wanted: Sequence[str], results: Path) -> dict[str, Path]:
    """The folders of the runs, by their names.

    Raises:
        CommandError: one of them is not there.
    """
    found: dict[Path, str] = {}
    for text in wanted:
        folder = run_folder(text, results)
        if is_run(folder):
            found.setdefault(folder, text if folder != Path(text) else folder.resolve().name)
            continue
        inner = list(find_runs(folder))
        if not inner:
            known = [path.relative_to(results).as_posix() for path in find_runs(results)]
            raise CommandError(
                f"there is no run {harmless(text)}, neither as a folder nor in {harmless(str(results))}."
                f"{harmless(did_you_mean(text, known))} `lanista runs` lists what is there."
            )
        for path in inner:
            found.setdefault(path, path.relative_to(folder).as_posix())
    return _named(found)


def _named(found: dict[Path, str]) -> dict[str, Path]:
    """The folders by name; by path where names are equal."""
    names = list(found.values())
    return {name if names.count(name) == 1 else str(path): path for path, name in found.items()}
