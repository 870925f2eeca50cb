"""`lanista godot install PROJECT`: copy Lanista's addon into a project of Godot 4."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from ..utils.atomic_files import atomic_write_bytes, atomic_write_text
from ..utils.errors import CommandError

ADDON = Path(__file__).parents[2] / "envs" / "godot" / "addon"
INSTALLED_AT = Path("addons", "lanista")
RECORD = ".installed.json"
"""Checksums of the files as they were installed; Godot overlooks files whose name begins with a dot."""
GODOT_4 = 5
"""`config_version` in project.godot: Godot 4 writes 5, Godot 3 wrote 4."""


@dataclass(frozen=True)
class Installation:
    """The addon in a project.

    Attributes:
        folder: the addon's folder in the project.
        recorded: checksums by path, as an earlier installation left them.
    """

    folder: Path
    recorded: dict[str, str]

    def is_changed(self, path: str) -> bool:
        """Whether a file is neither what was installed nor what would be."""
        target = self.folder / path
        if not target.is_file():
            return False
        found = _checksum(target.read_bytes())
        return found not in (self.recorded.get(path), _checksum((ADDON / path).read_bytes()))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="install")
    install = actions.add_parser("install", help="copy Lanista's addon into a project of Godot 4")
    install.add_argument(
        "project", type=Path, metavar="PROJECT", help="the folder with the file project.godot"
    )
    install.add_argument(
        "--force", action="store_true", help="overwrite files of the addon that were changed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Install the addon and say what was done."""
    project = _checked_project(arguments.project)
    try:
        written = _install(_installation(project), force=arguments.force)
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}.") from error
    print(
        f"{project / INSTALLED_AT}: {len(written)} files written"
        + (":" if written else ", all were up to date.")
    )
    for path in written:
        print(f"  {path}")
    print(
        "Next:\n"
        "  1. Open the project once in the editor, or run `godot --headless --path PROJECT --import`.\n"
        "  2. Add a LanistaSync to the scene, and to each body that learns a LanistaAgent2D or\n"
        "     LanistaAgent3D with a script of your own. A controller of\n"
        "     godot_rl_agents only changes what it extends.\n"
        f"  3. lanista-learn config.yaml --env godot:{project} --run-id first"
    )
    return 0


def _checked_project(project: Path) -> Path:
    if project.name == "project.godot" and project.is_file():
        project = project.parent
    settings = project / "project.godot"
    if not settings.is_file():
        found = "is no folder" if not project.is_dir() else "has no file project.godot"
        raise CommandError(f"{project} {found}. Expected: the folder of a Godot 4 project.")
    text = settings.read_text(encoding="utf-8", errors="replace")
    version = re.search(r"^config_version\s*=\s*(\d+)", text, flags=re.MULTILINE)
    if version is None or int(version[1]) < GODOT_4:
        found = "no config_version" if version is None else f"config_version={version[1]}"
        raise CommandError(
            f"{settings} has {found}: it is of Godot 3 or earlier. The addon needs Godot 4 "
            "(config_version=5): open the project with Godot 4, which converts it."
        )
    return project


def _installation(project: Path) -> Installation:
    record = project / INSTALLED_AT / RECORD
    try:
        recorded = json.loads(record.read_text(encoding="utf-8"))["files"] if record.is_file() else {}
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{record} is damaged ({error}). Remove it; --force then overwrites the addon."
        ) from error
    return Installation(project / INSTALLED_AT, recorded)


def _install(installation: Installation, *, force: bool) -> list[str]:
    """Copy what differs, remove what an earlier version had besides; return the paths written."""
    paths = sorted(path.relative_to(ADDON).as_posix() for path in ADDON.rglob("*") if path.is_file())
    changed = [path for path in paths if installation.is_changed(path)]
    if changed and not force:
        raise CommandError(
            f"{installation.folder} has changed files: {', '.join(changed)}. Nothing was written. "
            "Keep your changes elsewhere, or overwrite them with --force."
        )
    contents = {path: (ADDON / path).read_bytes() for path in paths}
    written = []
    for path, data in contents.items():
        target = installation.folder / path
        if target.is_file() and target.read_bytes() == data:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_bytes(target, data)
        written.append(path)
    for path, checksum in installation.recorded.items():
        target = installation.folder / path
        inside = target.resolve().is_relative_to(installation.folder.resolve())
        if (
            path not in contents
            and inside
            and target.is_file()
            and _checksum(target.read_bytes()) == checksum
        ):
            target.unlink()
            target.with_name(f"{target.name}.uid").unlink(missing_ok=True)
    checksums = {path: _checksum(data) for path, data in contents.items()}
    atomic_write_text(installation.folder / RECORD, json.dumps({"files": checksums}, indent=1) + "\n")
    return written


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()  # Git may change line ends on Windows
