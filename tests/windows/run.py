"""Runs tests on Windows: CPython for Windows under Wine, put beside this system by tests/windows/install.sh.

    python tests/windows/run.py [--all] [--minutes 8] [--into .cache/windows] [TESTS ...]

Without arguments: journeys of users, and the third of the tests that a system can break most (CHOSEN);
with --all all but the slow ones. Ends with status 1 if a test failed that is not among those that Wine fails
(KNOWN). Where there can be no Windows (no root, no Debian, no index), it says so and ends with 0. Tests to
which it has not come in time count as not run.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
KNOWN = Path(__file__).with_name("known.txt")
"""Lines `test: reason`, of tests that fail for what Wine lacks."""
CHOSEN = [
    "tests/windows/test_journeys.py",
    "tests/agent_processor",
    "tests/envs/unity",
    "tests/envs/engines",
    "tests/envs/test_programs.py",
    "tests/envs/test_process_lock.py",
    "tests/envs/test_regular_files.py",
    "tests/trainers/checkpoints",
    "tests/trainers/settings",
    "tests/trainers/stats",
    "tests/trainers/utils",
]
UNAVAILABLE = 3
"""The status with which install.sh says that there can be no Windows."""
OUTCOME = re.compile(
    r"^\[gw\d+\] \[ *\d+%\] (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS) (.+?)\s*$", re.MULTILINE
)
UNREADABLE = re.compile(r"^ERROR ([^ :]+) - ", re.MULTILINE)
"""Files in the summary from which no tests could be collected."""
COLLECTED = re.compile(r"^\d+ workers? \[(\d+) items?\]", re.MULTILINE)


def install(folder: Path) -> str:
    """Put Windows and the product's wheel aside; why that cannot be done here, or nothing.

    Whether there are packages at all is for tests/packages.sh to say: they need an index, as Windows does.
    """
    done = subprocess.run(["bash", ROOT / "tests/windows/install.sh", folder], check=False)
    if done.returncode:
        return "see above" if done.returncode == UNAVAILABLE else f"install.sh ended with {done.returncode}"
    wheels, site = folder / "wheel", folder / "site"
    shutil.rmtree(wheels, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    made = subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT],
        check=False,
        stderr=subprocess.PIPE,
        text=True,
    )
    if made.returncode:
        return f"no wheel could be made: {(made.stderr.strip().splitlines() or ['pip says nothing'])[-1]}"
    for old in site.glob("lanista*"):
        shutil.rmtree(old)
    (wheel,) = wheels.iterdir()
    zipfile.ZipFile(wheel).extractall(site)
    return ""


def copy_tests(folder: Path) -> Path:
    """The files of this repository, where Windows sees them; its pages in the package too, as in a clone."""
    work = folder / "work" / "lanista"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, work / name)
    shutil.copytree(work / "docs", folder / "site" / "lanista" / "docs", dirs_exist_ok=True)
    return work


@dataclass(frozen=True)
class Results:
    """What became of the tests."""

    by_outcome: dict[str, list[str]]
    """Names of tests by PASSED, FAILED, SKIPPED, ..."""
    not_run: int
    complete: bool
    """Whether pytest has come to its end."""

    @property
    def failed(self) -> list[str]:
        """The tests that failed."""
        return [*self.by_outcome.get("FAILED", ()), *self.by_outcome.get("ERROR", ())]


def run_tests(folder: Path, tests: list[str], jobs: str, minutes: float) -> Results:
    """Run tests, as many as there is time for. Ends this program where pytest cannot run them."""
    work = copy_tests(folder)
    # In their order: the first count most where there is no time for all.
    options = ["-v", "-n", jobs, "--maxschedchunk", "1", "-p", "no:cacheprovider", "--timeout", "600", "-rfE"]
    command = [folder / "python", "-m", "pytest", *options, *tests]
    with (folder / "tests.log").open("w+", encoding="utf-8", errors="replace") as log:
        try:  # all that the command has started ends with it
            status = subprocess.run(
                command, cwd=work, check=False, stdout=log, timeout=minutes * 60.0
            ).returncode
        except subprocess.TimeoutExpired:
            status = None
        log.seek(0)
        printed = log.read()
    results = read(printed, status is not None)
    if status is None:
        lines = [line for line in printed.splitlines() if not line.startswith(("[gw", "tests/"))]
        print("\n".join(filter(None, lines))[-20_000:])
    else:
        print(printed[max(printed.find("= FAILURES ="), printed.find("= ERRORS ="), 0) :][-20_000:])
    if status not in (0, 1, None) or not (results.by_outcome or results.not_run):
        sys.exit(f"pytest ended with status {status}." if status is not None else "pytest began no test.")
    return results


def read(printed: str, complete: bool) -> Results:
    """The results in what pytest has printed, which may have been ended early."""
    by_outcome: dict[str, list[str]] = {}
    for outcome, name in OUTCOME.findall(printed):
        by_outcome.setdefault(outcome, []).append(name)
    collected = COLLECTED.search(printed)
    begun = sum(map(len, by_outcome.values()))
    by_outcome.setdefault("ERROR", []).extend(UNREADABLE.findall(printed))
    return Results(by_outcome, max(0, int(collected[1]) - begun) if collected else 0, complete)


def known() -> dict[str, str]:
    """Reasons by the name of a test, or of a file."""
    lines = KNOWN.read_text(encoding="utf-8").splitlines() if KNOWN.exists() else []
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def main() -> int:
    """0 if all that can pass under Wine passed, or there is no Windows here."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", default=CHOSEN)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--into", type=Path, default=ROOT / ".cache" / "windows")
    parser.add_argument("--jobs", default="2", help="tests at a time (default: 2)")
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="after which they are ended (default: 60)"
    )
    options = parser.parse_args()
    if reason := install(options.into):
        print(f"No test is run on Windows: {reason}.")
        return 0
    os.environ.pop("PYTHONPATH", None)
    tests = ["tests", CHOSEN[0]] if options.all else options.tests
    results = run_tests(options.into.resolve(), tests, options.jobs, options.minutes)
    reasons = known()
    ours = [name for name in results.failed if not any(name.startswith(prefix) for prefix in reasons)]
    counts = {
        "passed": len(results.by_outcome.get("PASSED", ())),
        f"failed by Wine ({KNOWN.name})": len(results.failed) - len(ours),
        "failed by us": len(ours),
        "skipped": len(results.by_outcome.get("SKIPPED", ())),
        "not run": results.not_run,
    }
    print(*(f"FAILED {name}" for name in ours), sep="\n")
    print(", ".join(f"{count} {what}" for what, count in counts.items()) + ".")
    if not results.complete:
        print(f"They were ended after {options.minutes:g} minutes (--minutes).")
    return int(bool(ours))


if __name__ == "__main__":
    sys.exit(main())
