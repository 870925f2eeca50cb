"""The one answer to whether what a saved file names may be started or imported.

It may if it is part of Lanista, if a run of this user did so before (`is_own`), or if the user says so. The
command line, and the configurations that it names, are the user's own word: they are never asked about.

A mark in a run's folder is a keyed hash (HMAC-SHA256, RFC 2104) of one thing that the run has started or
imported: the words that name it, the folder in which that was done, and the files of its modules. This user
alone can read the key. So a mark that came with somebody else's files, a copied one of this user too, allows
nothing but what this user has done before, in the same folder. It tells nothing of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from ...envs.utils.bounded_yaml import load_json
from ...envs.utils.regular_files import read_text
from .atomic_files import atomic_write_text, place_new
from .text import harmless, typed
from .trusted_names import Named, modules_of

MARKS = Path("run_logs", "own.json")
"""The file of the marks in a run's folder: a list of hexadecimal numbers."""
_KEY_BYTES = 32
_MOST_MARKS = 100
_MOST_BYTES = 1 << 16
"""The most bytes of the file of the marks."""


def mark_own(run: Path, named: Named) -> None:
    """Note in the run's folder that this user started and imported what is named and no part of Lanista.

    Where there is no key and none can be made (a container without a home), the run stays without a mark, and
    opening it later is asked about.
    """
    foreign = [*named.foreign.each()]
    with suppress(OSError):
        key = _user_key(create=True) if foreign else None
        if key is None:
            return
        marks = [_mark(key, each) for each in foreign if not _is_within(run, each)]
        known = [*dict.fromkeys(mark for mark in (*marks, *_marks(run)) if mark)][:_MOST_MARKS]
        if known:
            atomic_write_text(run / MARKS, json.dumps(known, indent=1) + "\n")


def is_own(run: Path, named: Named) -> bool:
    """Whether this user, in the current folder, has started and imported all that is named.

    That was in this run, or in another one whose marks were copied.
    """
    marks = _marks(run)
    key = _user_key(create=False) if marks else None
    if key is None:
        return False
    for each in named.each():
        mark = _mark(key, each)
        if not mark or _is_within(run, each) or not any(hmac.compare_digest(mark, one) for one in marks):
            return False
    return True


def _marks(run: Path) -> list[str]:
    try:
        found = load_json(read_text(run / MARKS, _MOST_BYTES, within=run))
    except (OSError, ValueError):
        return []
    listed = found if isinstance(found, list) else []
    return [mark for mark in listed if isinstance(mark, str) and mark.isascii()]


def _mark(key: bytes, words: Sequence[str]) -> str:
    """The mark of one thing; empty if a module that it names is nowhere to be found."""
    files = {name: _files(name) for name in modules_of(words)}
    if not all(files.values()):
        return ""
    try:
        folder = os.getcwd()
    except OSError:  # it was removed
        return ""
    text = json.dumps({"words": list(words), "folder": folder, "modules": files}, sort_keys=True)
    return hmac.new(key, b"lanista run 1\n" + text.encode(), hashlib.sha256).hexdigest()


def _files(module: str) -> list[str]:
    """Where the package, or the module, of this name would be imported from; nothing of it is imported.

    Of a module in a package, the package's files and the place of the module below its folders.

    The current folder is looked at last, as by those who import what is named (`find_in_working_folder`).
    """
    name, *inner = module.split(".")
    try:
        found = find_spec(name) or PathFinder.find_spec(name, ["."])
    except (ImportError, ValueError):  # one that was made in memory, or no name
        return []
    if found is None:
        return []
    folders = [*(found.submodule_search_locations or ())]
    places = (found.origin, *folders, *(os.path.join(folder, *inner) for folder in folders if inner))
    return [os.path.realpath(path) for path in places if path]


def _is_within(run: Path, words: Sequence[str]) -> bool:
    """Whether what is named lies in the run's folder, whose files may be somebody else's."""
    folder = os.path.realpath(run)
    named = (part for word in words for part in (word, word.partition(":")[2], word.partition("=")[2]))
    paths = [*map(_real_path, named), *(path for name in modules_of(words) for path in _files(name))]
    return any(os.path.commonpath((folder, path)) == folder for path in paths if _same_drive(folder, path))


def _real_path(text: str) -> str:
    try:
        return os.path.realpath(os.path.expanduser(text.partition("?")[0].strip()))
    except ValueError:  # a null character
        return os.sep


def _same_drive(one: str, other: str) -> bool:
    return os.path.splitdrive(one)[0] == os.path.splitdrive(other)[0]


def _user_key(*, create: bool) -> bytes | None:
    """This user's key; None where there is none, or others could have read or written it.

    Raises:
        OSError: it cannot be made.
    """
    from platformdirs import user_data_path

    try:
        path = user_data_path("lanista", appauthor=False) / "run-key"
    except RuntimeError:  # there is no home
        return None
    if not path.is_absolute():  # without a home it would lie in the current folder, which may be anybody's
        return None
    if create and not os.path.lexists(path):
        _make_key(path)
    return _read_key(path)


def _make_key(path: Path) -> None:
    """Make the key; of several processes that do so at once, one does."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            place_new(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _read_key(path: Path) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with open(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return None
        if hasattr(os, "geteuid") and (found.st_uid != os.geteuid() or found.st_mode & 0o077):
            return None
        key = file.read(_KEY_BYTES + 1)
    return key if len(key) == _KEY_BYTES else None


FLAG = "--trust-run"


class Trust:
    """What the user trusts of the files that are opened."""

    def __init__(
        self, granted: bool = False, *, how: str = FLAG, ask: Callable[[str], bool] | None = None
    ) -> None:
        """Args:
        granted: whether the user trusts everything.
        how: what to pass in order to trust everything.
        ask: asks the user a question; None where there is nobody to ask.
        """
        self.granted = granted
        self._how = how
        self._ask = ask
        self._permitted: set[tuple[str, ...]] = set()

    @classmethod
    def of_command(cls, granted: bool) -> Trust:
        """The trust of a command: `granted` by its flag; on a terminal the user is asked."""
        terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))
        return cls(granted, ask=_asked if terminal else None)

    def refusal(self, named: Named, source: Path | None = None) -> str:
        """Why what a file names must be neither started nor imported, and what to do; empty if it may be.

        Args:
            named: all of that kind in the file.
            source: the file, in the folder of a run or of one of its behaviors.
        """
        wanted = named.foreign
        new = [each for each in wanted.each() if each not in self._permitted]
        if self.granted or not new or (source is not None and _is_of_own_run(source, wanted)):
            return ""
        found = f"{'it' if source is None else harmless(str(source))} names {_things(wanted)}"
        unknown = "Nothing shows that it is from a run that you trained in the current folder"
        if self._ask is not None and self._ask(f"{found}\n{unknown}. Do you trust it?"):
            self._permitted.update(new)
            return ""
        other = ", or name the environment yourself with --env" if wanted.environment else ""
        return f"{found}\n{unknown}, so Lanista refuses. If you trust it, pass {self._how}{other}."


def _things(named: Named) -> str:
    """What would be done, the whole line."""
    parts = []
    if named.environment:
        line = typed([harmless(word) for word in named.environment])
        parts.append(f"an environment, which would be started:\n  {line}")
    if named.imports:
        parts.append(f"code, which would be imported:\n  {', '.join(map(harmless, named.imports))}")
    return "\nand ".join(parts)


def _is_of_own_run(source: Path, named: Named) -> bool:
    folder = Path(os.path.abspath(source)).parent
    return any(is_own(run, named) for run in (folder, folder.parent))


def _asked(question: str) -> bool:
    """Whether the user says yes on the terminal; Enter alone is no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
