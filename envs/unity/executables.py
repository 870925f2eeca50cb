"""Finds an environment's executable and checks whether it can be started."""

import errno
import os
import re
import stat
import sys
from difflib import get_close_matches
from pathlib import Path

from mlagents_envs.exception import UnityEnvironmentException

from ..engines.terms import UNITY, Terms
from .plugin import UNITY_PLUGIN, Plugin

_SUFFIXES = (".x86_64", ".x86", ".app", ".exe")
_PLATFORMS = {".x86_64": "Linux", ".x86": "Linux", ".app": "macOS", ".exe": "Windows"}
_ARCHIVES = (".7z", ".bz2", ".dmg", ".gz", ".rar", ".tar", ".tgz", ".xz", ".zip", ".zst")
_WINDOWS = b"MZ"
_MACH_O = tuple(bytes.fromhex(magic) for magic in ("feedface", "feedfacf", "cefaedfe", "cffaedfe"))


def find_executable(
    file_name: str,
    platform: str = sys.platform,
    plugin: Plugin = UNITY_PLUGIN,
    terms: Terms | None = None,
) -> str:
    """The program that `file_name` means on this platform; the suffix may be left out.

    On Linux `NAME.x86_64`, `NAME.x86` or `NAME` (of Unreal `NAME.sh` too); on macOS the program inside
    `NAME.app`, or `NAME`; on Windows `NAME.exe`; on all of them the only program in the folder `NAME`.

    Args:
        file_name: As it was given.
        platform: As `sys.platform`.
        plugin: Whose suffixes count on Linux.
        terms: The words for the engine; None: those of the plug-in.

    Raises:
        UnityEnvironmentException: There is none; the message says what was looked for and what is there.
    """
    path = Path(file_name).expanduser()
    if not path.name:  # '', '.' and '/'
        raise UnityEnvironmentException(
            f"Couldn't launch the environment {file_name!r}: that names no file. Give the path of an "
            "executable, or for example scene:ball3d."
        )
    stem = path.with_suffix("") if path.suffix in (*_SUFFIXES, *plugin.suffixes) else path
    if path.suffix.lower() in _ARCHIVES and path.is_file():
        raise UnityEnvironmentException(
            f"Couldn't launch the environment {file_name!r}: it is an archive, and no program. Unpack it, "
            "and give the path of the program in it, or of the folder."
        )
    candidates = _candidates(path, stem, platform, plugin.suffixes)
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate.absolute())
    inside = _programs_in(stem, platform, plugin.suffixes)
    if len(inside) == 1 and inside[0].is_file():
        return str(inside[0].absolute())
    if kind := _no_program(path):
        raise UnityEnvironmentException(
            f"Couldn't launch the environment {file_name!r}: it is {kind}, and no program. Give the path "
            "of an executable, or for example scene:ball3d."
        )
    looked_for = ", ".join(dict.fromkeys(map(str, candidates)))
    where = "" if path.is_absolute() else f" in {Path.cwd()}"
    raise UnityEnvironmentException(
        f"Couldn't launch the {stem.name} environment. Provided filename does not match any environments: "
        f"{file_name!r}. {_suggestion(file_name) or _hint(path, stem, platform, plugin, terms)} Looked for "
        f"{looked_for}{where}."
    )


def check_executable(program: str, platform: str = sys.platform, terms: Terms = UNITY) -> None:
    """Refuse a program that cannot be started, as far as its file shows that.

    Raises:
        UnityEnvironmentException: The user may not execute it, it is empty, a program for macOS elsewhere, an
            .exe that is no program of Windows, or a script whose interpreter is missing.
    """
    if not os.access(program, os.X_OK):
        raise UnityEnvironmentException(
            "Error when trying to launch environment - make sure permissions are set correctly: "
            f'{program} is not executable. For example "chmod -R 755 {program}".'
        )
    try:
        with open(program, "rb") as file:
            head = file.read(256)
    except OSError:  # the user may execute it, but not read it
        return
    fault = _fault(head, Path(program).suffix.lower(), platform, terms)
    if fault:
        raise UnityEnvironmentException(f"{program} cannot be started: {fault}")


def _fault(head: bytes, suffix: str, platform: str, terms: Terms) -> str:
    """Why a program that begins with these bytes cannot be started, and what to do; empty if it may."""
    if not head:
        return "the file is empty. Build it again, or copy it again."
    menu = terms.build or UNITY.build
    if head.startswith(_MACH_O) and platform != "darwin":
        return f"it is a program for macOS. Make a build for this machine in {menu}."
    if platform == "win32" and suffix == ".exe" and not head.startswith(_WINDOWS):
        return (
            f"it is no program for Windows, which begins with {_WINDOWS.decode()}. Make a build for Windows "
            f"in {menu}, or copy it again."
        )
    line, newline, _ = head.partition(b"\n")
    if platform == "win32" or not line.startswith(b"#!") or not newline:
        return ""
    if line.endswith(b"\r"):
        return "its lines end as on Windows, which hides its interpreter. Save it with the line ends of Unix."
    interpreter = (line[2:].split() or [b""])[0].decode(errors="replace")
    if interpreter.startswith("/") and not Path(interpreter).exists():
        return f"its first line names {interpreter}, which does not exist. Install that, or mend the line."
    return ""


def _no_program(path: Path) -> str:
    """What `path` is if it is there and neither a file nor a folder; else nothing."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if not path.is_symlink():
            return ""
        return "a link that leads to itself" if error.errno == errno.ELOOP else "a link that leads nowhere"
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    kinds |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")
    return kinds.get(stat.S_IFMT(mode), "")


def _with(stem: Path, suffix: str) -> Path:
    # Not with_suffix, which would take "Game.v2" for a Game with the suffix ".v2".
    return stem.with_name(stem.name + suffix)


def _candidates(path: Path, stem: Path, platform: str, suffixes: tuple[str, ...]) -> list[Path]:
    """What the name may mean, the likeliest first; `suffixes` are those of programs on Linux."""
    if platform.startswith("linux"):
        named = [path] if path.suffix in suffixes else []
        return [*named, *(_with(stem, suffix) for suffix in suffixes), stem]
    if platform == "darwin":
        return [*_programs_of_app(_with(stem, ".app")), stem]
    if platform == "win32":
        return [_with(stem, ".exe")]
    raise UnityEnvironmentException(
        f"Environments cannot be launched on the platform {platform!r}, only on Linux, macOS and Windows."
    )


def _programs_of_app(app: Path) -> list[Path]:
    """The programs of a macOS application, first the one that bears its name."""
    programs = app / "Contents" / "MacOS"
    return [programs / app.stem, *sorted(programs.glob("*"))]


def _programs_in(folder: Path, platform: str, suffixes: tuple[str, ...]) -> list[Path]:
    """The programs in a folder, by their names; on Linux files without a suffix if no other is one."""
    if not folder.is_dir():
        return []
    entries = sorted(folder.iterdir())
    if platform == "darwin":
        apps = [_programs_of_app(entry) for entry in entries if entry.suffix == ".app"]
        return [next(filter(Path.is_file, programs), programs[0]) for programs in apps]
    if platform == "win32":
        programs = [entry for entry in entries if entry.suffix.lower() == ".exe"]
        return [entry for entry in programs if not entry.name.startswith("UnityCrashHandler")]
    named = [entry for entry in entries if entry.suffix in suffixes and entry.is_file()]
    return named or [
        entry for entry in entries if not entry.suffix and entry.is_file() and os.access(entry, os.X_OK)
    ]


def _suggestion(name: str) -> str:
    """What to suggest for a name that looks like that of an environment of another kind; or nothing."""
    prefixed = re.fullmatch(r"(\w+)[:/](.+)", name)
    kind = prefixed[1].lower() if prefixed else ""
    kind = "gymnasium" if kind == "gym" else kind
    near = get_close_matches(
        kind,
        ("godot", "gymnasium", "pettingzoo", "python", "registry", "scene", "unreal"),
        n=1,
        cutoff=0.75,
    )
    if prefixed and prefixed[1] == "registry":
        return f"Make it with lanista.envs.registry.default_registry[{prefixed[2]!r}].make()."
    if prefixed and near:
        return f"Did you mean --env {near[0]}:{prefixed[2]}?"
    if re.fullmatch(r"[A-Za-z_][\w.]+:[A-Za-z_]\w*(\?.*)?", name):
        return f"A function that makes an environment is named --env python:{name}."
    if re.fullmatch(r"\w+-v\d+", name):
        return f"An environment of Gymnasium is named --env gymnasium:{name}."
    return ""


def _hint(path: Path, stem: Path, platform: str, plugin: Plugin, terms: Terms | None) -> str:
    """What was found in its place."""
    own = {"darwin": "macOS", "win32": "Windows"}.get(platform, "Linux")
    if path.exists() and _PLATFORMS.get(path.suffix, own) != own:
        menu = (terms or plugin.kind.terms).build
        return f"That is a build for {_PLATFORMS[path.suffix]}; make one for {own} in {menu}."
    folder = stem if stem.is_dir() else stem.parent
    if not folder.is_dir():
        return f"There is no folder {folder}."
    names = [entry.name for entry in folder.iterdir()]
    suffixes = plugin.suffixes if own == "Linux" else tuple(s for s, of in _PLATFORMS.items() if of == own)
    programs = sorted(name for name in names if name.endswith(suffixes))
    if inside := _programs_in(stem, platform, plugin.suffixes):
        shown = [program.relative_to(stem).parts[0] for program in inside[:5]]
        return f"That is a folder; it holds {', '.join(shown)}: name one of them."
    archives = [name for name in sorted(names) if name.lower().endswith(_ARCHIVES)]
    if packed := [name for name in archives if stem.is_dir() or name.startswith(stem.name)]:
        return f"There is {packed[0]}, an archive: unpack it, and give the path of the program in it."
    near = get_close_matches(path.name, names, n=3) or programs[:5]
    place = "the current folder" if folder == Path() else folder
    return f"There is {', '.join(near)}." if near else f"No {own} build is in {place}."
