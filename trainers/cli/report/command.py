"""`lanista report`: runs beside each other on one HTML page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...utils.atomic_files import atomic_write_text
from ...utils.errors import CommandError, did_you_mean
from ...utils.text import harmless
from ..arguments import add_results_dir
from ..page_server import PageServer, port_number
from ..runs.record import find_runs, is_run, read_run, run_folder
from .contents import RunResult, group_runs
from .page import is_page, make_page


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
    page = report(folders)
    output: Path = arguments.output
    require_replaceable(output, "Name another file with -o.")
    try:
        atomic_write_text(output, page)
    except OSError as error:
        raise CommandError(
            f"{output} cannot be written: {error.strerror}. Give another place with -o."
        ) from error
    print(f"Wrote {harmless(str(output))}: {len(folders)} run{'s' if len(folders) > 1 else ''}.")
    return 0


def report(folders: dict[str, Path]) -> str:
    """The page of these runs, by name."""
    return make_page(group_runs([RunResult.read(read_run(path, name)) for name, path in folders.items()]))


def require_replaceable(output: Path, remedy: str) -> None:
    """Refuse to write a report over anything but a report.

    Raises:
        CommandError: something else is there.
    """
    if output.is_file() and not is_page(output):
        raise CommandError(f"{harmless(str(output))} is there and is not a report. {remedy}")


def _watch(arguments: argparse.Namespace) -> int:
    from .serve import LivePage

    live = LivePage(lambda: find(arguments.runs, arguments.results_dir))
    live.read()
    with PageServer(live.read, arguments.port) as server:
        print(f"The page is at {server.address} for this machine alone. Ctrl-C ends.", flush=True)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
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
