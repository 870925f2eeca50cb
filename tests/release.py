"""Makes a release, up to the upload.

    python tests/release.py VERSION [--dry-run] [--without-installs]

In a copy of the last commit it sets the version and the date, moves what the changelog has as unreleased
under them, lets the pages install Lanista from an index (tests/install_lines.py), builds the packages
(tests/packages.sh), and trains with the wheel in a fresh environment of each Python that is installed here
(tests/fresh_installs.sh, which TORCH_INDEX concerns). Only when all of that has worked does this checkout get
the same changes as a commit with a tag, and `dist` the packages and the notes. Nothing is uploaded or pushed.
"""

import argparse
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import install_lines
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parent.parent
UNRELEASED = re.compile(r"^## Unreleased\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def git(root: Path, *arguments: str) -> str:
    """What a command of git prints."""
    done = subprocess.run(["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def refusal(root: Path, text: str) -> str:
    """Why there can be no release of this version from this checkout; empty if there can."""
    current = runpy.run_path(str(root / "_version.py"))["__version__"]
    try:
        version = Version(text)
    except InvalidVersion:
        return f"found version {text!r}; expected one such as 0.2.0 or 0.2.0rc1 (PEP 440)"
    if str(version) != text or version.local:
        return f"found version {text!r}; expected {version.public!r}, as indexes write it"
    if version <= Version(current):
        return f"version {text} is not newer than {current}, which _version.py has"
    if git(root, "tag", "--list", f"v{text}"):
        return f"there is a tag v{text} already: choose another version, or remove it with git tag -d v{text}"
    if changes := git(root, "status", "--porcelain"):
        return f"found changes that are not committed; commit or remove them first:\n{changes}"
    if not git(root, "branch", "--show-current"):
        return "found no branch (a detached HEAD); check out the one to release from"
    if not notes(root):
        return "CHANGELOG.md has nothing under '## Unreleased'; write what changed"
    return ""


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def notes(root: Path) -> str:
    """What the changelog has as unreleased."""
    found = UNRELEASED.search(read(root / "CHANGELOG.md"))
    return found[1].strip() if found else ""


def change(root: Path, version: str, day: str) -> None:
    """Write the version, the date and the lines that install it into a checkout."""
    replace(root / "_version.py", r"^__version__ = .+$", f'__version__ = "{version}"')
    citation = root / "CITATION.cff"
    replace(citation, r"^(?:date-released: .+\n)", "", required=False)
    replace(citation, r"^version: .+$", f'version: {version}\ndate-released: "{day}"')
    replace(root / "CHANGELOG.md", r"^## Unreleased$", f"## Unreleased\n\n## {version} ({day})")
    for page in (root / "README.md", *sorted(root.glob("docs/**/*.md"))):
        if (text := read(page)) != (released := install_lines.from_index(text)):
            page.write_text(released, encoding="utf-8")


def replace(path: Path, pattern: str, new: str, *, required: bool = True) -> None:
    """Replace the one match of a pattern."""
    text, count = re.subn(pattern, lambda found: new, read(path), count=1, flags=re.MULTILINE)
    if required and not count:
        sys.exit(f"release: {path} has no match of {pattern}")
    path.write_text(text, encoding="utf-8")


def try_out(copy: Path, *, install: bool) -> list[Path]:
    """Build the packages of a checkout, and install and run the wheel; returns wheel and sdist."""
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["bash", "tests/packages.sh", "dist"], cwd=copy, check=True, env=environment)
    (wheel,), (sdist,) = (list((copy / "dist").glob(f"lanista-*{ending}")) for ending in (".whl", ".tar.gz"))
    if install:
        subprocess.run(["bash", "tests/fresh_installs.sh", str(wheel)], cwd=copy, check=True)
    return [wheel, sdist]


def release(root: Path, version: str, *, dry_run: bool, install: bool) -> None:
    """Make a release of the last commit, or try what it would be."""
    if reason := refusal(root, version):
        sys.exit(f"release: {reason}")
    day, commit, text = date.today().isoformat(), git(root, "rev-parse", "HEAD"), notes(root)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "lanista"
        git(root, "clone", "--quiet", str(root), str(copy))
        change(copy, version, day)
        packages = try_out(copy, install=install)
        if dry_run:
            print(
                git(copy, "diff", "--stat"), f"\nNotes of {version}:\n\n{text}\n\nNothing was changed here."
            )
            return
        if git(root, "status", "--porcelain") or git(root, "rev-parse", "HEAD") != commit:
            sys.exit("release: this checkout was changed meanwhile; start again")
        (root / "dist").mkdir(exist_ok=True)
        packages = [Path(shutil.copy(package, root / "dist")).relative_to(root) for package in packages]
    message = root / "dist" / f"notes-{version}.md"
    message.write_text(f"Lanista {version}\n\n{text}\n", encoding="utf-8")
    change(root, version, day)
    git(root, "commit", "--quiet", "--all", "--message", f"Lanista {version}")
    git(root, "tag", "--annotate", f"v{version}", "--cleanup=verbatim", "--file", str(message))
    print(f"Lanista {version} is committed and tagged here; {message.relative_to(root)} has the notes.")
    print("What remains, of which the second alone does both where .github/workflows/release.yml runs:")
    print(f"    {shlex.join(['twine', 'upload', *map(str, packages)])}")
    print(f"    git push origin {git(root, 'branch', '--show-current')} v{version}")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version", metavar="VERSION")
    parser.add_argument("--dry-run", action="store_true", help="change nothing in this checkout")
    parser.add_argument("--without-installs", action="store_true", help="do not install and run the wheel")
    options = parser.parse_args(arguments)
    try:
        release(root, options.version, dry_run=options.dry_run, install=not options.without_installs)
    except subprocess.CalledProcessError as error:
        command = shlex.join(map(str, error.cmd))
        sys.exit(f"release: {command} ended with status {error.returncode}; nothing was uploaded or pushed")


if __name__ == "__main__":
    main()
