"""Runs tests on Windows: CPython for Windows under Wine, put beside this system by tests/windows/install.sh.

    python tests/windows/run.py [--all] [--into .cache/windows] [TESTS ...]

Without arguments: journeys of users, and the third of the tests that a system can break most (CHOSEN);
with --all all but the slow ones. Ends with status 1 if a test failed that is not among those that Wine fails
(KNOWN). Where there can be no Windows (no root, no Debian, no index), it says so and ends with 0.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
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
TOO_LONG = -1
UNAVAILABLE = 3
"""The status with which install.sh says that there can be no Windows."""


def install(folder: Path) -> bool:
    """Put Windows and the product's wheel aside; whether there is one."""
    done = subprocess.run(["bash", ROOT / "tests/windows/install.sh", folder], check=False)
    if done.returncode == UNAVAILABLE:
        return False
    done.check_returncode()
    wheels, site = folder / "wheel", folder / "site"
    shutil.rmtree(wheels, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", wheels, ROOT], check=True)
    for old in site.glob("lanista*"):
        shutil.rmtree(old)
    (wheel,) = wheels.iterdir()
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    return True


def copy_tests(folder: Path) -> Path:
    """The files of this repository but the package's own, where Windows sees them."""
    work = folder / "work" / "lanista"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, work / name)
    return work


def run_tests(folder: Path, tests: list[str], jobs: str, minutes: float) -> list[str]:
    """Run tests, of which the slow ones are journeys alone; the names of those that failed."""
    work = copy_tests(folder)
    options = ["-q", "-n", jobs, "-p", "no:cacheprovider", "--timeout", "600", "-rfE"]
    command = [folder / "python", "-m", "pytest", *options, *tests]
    with (folder / "tests.log").open("w+", encoding="utf-8", errors="replace") as log:
        try:  # all that the command has started ends with it
            status = subprocess.run(
                command, cwd=work, check=False, stdout=log, timeout=minutes * 60.0
            ).returncode
        except subprocess.TimeoutExpired:
            status = TOO_LONG
        log.seek(0)
        printed = log.read()
    print(printed)
    if status not in (0, 1):
        sys.exit(
            f"The tests were not over after {minutes:g} minutes (--minutes)."
            if status == TOO_LONG
            else f"pytest ended with status {status}."
        )
    return re.findall(r"^(?:FAILED|ERROR) (\S+(?:\[.*?\])?)(?: - |$)", printed, re.MULTILINE)


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
    if not install(options.into):
        return 0
    os.environ.pop("PYTHONPATH", None)
    tests = ["tests", CHOSEN[0]] if options.all else options.tests
    failed = run_tests(options.into.resolve(), tests, options.jobs, options.minutes)
    reasons = known()
    ours = [name for name in failed if not any(name.startswith(prefix) for prefix in reasons)]
    print(f"{len(failed)} tests failed, of which {len(failed) - len(ours)} by Wine ({KNOWN.name}).")
    return int(bool(ours))


if __name__ == "__main__":
    sys.exit(main())
