"""Where downloaded environments are kept, and what is known of each.

From a build's address to its program on this machine.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import RegistryError, UnsafeArchiveError
from .download import download, is_url, size_text
from .process_lock import LockingNotSupportedError, ProcessLock
from .unpack import unpack

logger = logging.getLogger(__name__)

VARIABLE = "LANISTA_CACHE"
_POLL = 0.2
"""Seconds between two attempts to take a lock."""


def cache_folder(platform: str = sys.platform) -> Path:
    """The folder of caches: the variable LANISTA_CACHE, or `lanista` in the user's usual one."""
    told = os.environ.get(VARIABLE)
    if told:
        return Path(told).expanduser()
    if platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lanista"
    if platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "lanista" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lanista"


@dataclass(frozen=True)
class Record:
    """What is known of a download; it outlives the environment's folder."""

    url: str
    sha256: str
    """Of the archive, as it was downloaded first."""
    size: int
    """Bytes of the archive."""
    program: str | None = None
    """The program, from the environment's folder on; None where it is not unpacked."""


class Place:
    """Where one environment is kept: its folder, its record and its lock.

    Args:
        identifier: its name in a registry.
        url: where it comes from.
        folder: of all environments.
    """

    def __init__(self, identifier: str, url: str, folder: Path | None = None) -> None:
        self.root = cache_folder() / "environments" if folder is None else folder
        # A name may hold anything; what is used of it leads nowhere else.
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", identifier)[:60].strip(".") or "_"
        self.key = f"{plain}-{hashlib.sha256(f'{identifier} {url}'.encode()).hexdigest()[:16]}"
        self.folder = self.root / self.key
        self._record = self.root / f"{self.key}.json"

    def record(self) -> Record | None:
        """What is known, if anything is."""
        try:
            return Record(**json.loads(self._record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def keep(self, record: Record) -> None:
        """Write down what is known."""
        partial = self.partial()
        partial.write_text(json.dumps(asdict(record), indent=2), encoding="utf-8")
        os.replace(partial, self._record)

    def forget(self) -> None:
        """Remove what is known."""
        self._record.unlink(missing_ok=True)

    def program(self) -> Path | None:
        """The program, if it is there."""
        record = self.record()
        if record is None or record.program is None:
            return None
        path = self.folder / record.program
        return path if path.exists() else None

    def remove(self) -> bool:
        """Remove the folder, but not what is known; whether it was there."""
        if not self.folder.is_dir():
            return False
        going = self.partial()
        self.folder.rename(going)  # so that half of it is never found
        shutil.rmtree(going)
        return True

    def partial(self) -> Path:
        """A name for what is not finished."""
        return self.root / f".{self.key}.{secrets.token_hex(6)}.partial"

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """While open, no other process works here; what killed ones left is removed.

        Raises:
            RegistryError: the folder cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            lock = ProcessLock(self.root / f".{self.key}.lock")
            _take(lock, self.key)
        except OSError as error:
            raise RegistryError(
                f"The cache {self.root} cannot be used: {error.strerror}. Name another folder by the "
                f"variable {VARIABLE}."
            ) from error
        try:
            for left in self.root.glob(f".{self.key}.*.partial"):
                _discard(left)
            yield
        finally:
            lock.release()


def _take(lock: ProcessLock, name: str) -> None:
    told = False
    try:
        while not lock.acquire():
            if not told:
                logger.info(
                    "Another process fetches %s (%s); waiting for it.", name, lock.holder() or "unknown"
                )
            told = True
            time.sleep(_POLL)
    except LockingNotSupportedError as error:
        logger.warning("%s cannot be locked (%s): fetch it in one process at a time.", lock.path, error)


def _discard(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


_PROGRAMS = {"linux": ("*.x86_64", "*.x86"), "darwin": ("*.app",), "win32": ("*.exe",)}
"""What the program of a build is called, on each platform."""
_HELPERS = ("UnityCrashHandler",)
"""Programs beside it, which are not it."""


@dataclass(frozen=True)
class Build:
    """An archive with an environment for one platform."""

    identifier: str
    url: str
    """Of a zip archive; or its path, where a manifest on this machine says so."""
    sha256: str | None = None
    """Of the archive, where the manifest knows it."""
    folder: Path | None = None
    """Under which it is unpacked; None for the cache."""

    @property
    def place(self) -> Place:
        """Where it is kept."""
        return Place(self.identifier, self.url, self.folder)


def fetched(build: Build, platform: str = sys.platform) -> Path:
    """The program of a build, which is downloaded and unpacked unless it is there.

    Raises:
        RegistryError: it cannot be had, is not what it should be, or holds no program.
    """
    place = build.place
    known = place.record()
    program = place.program()
    if program is not None and known is not None and build.sha256 in (None, known.sha256):
        return program
    with place.claimed():
        known, program = place.record(), place.program()
        if program is not None and known is not None and build.sha256 in (None, known.sha256):
            return program  # another process has fetched it while we waited
        return _fetch(build, place, known, platform)


def _fetch(build: Build, place: Place, known: Record | None, platform: str) -> Path:
    if build.sha256 is None and known is None and build.url.lower().startswith("http://"):
        logger.warning(
            "%s comes from %s, unencrypted, and its manifest has no sha256 of it: whoever is on the way "
            "could put another program in its place. An address with https://, or a sha256, prevents that.",
            *(build.identifier, build.url),
        )
    archive = place.partial()
    try:
        try:
            sha256, size = _obtain(build.url, archive)
            _require_same(build, known, sha256)
            folder = place.partial()
            try:
                unpack(archive, folder, platform)
            except UnsafeArchiveError as error:
                raise UnsafeArchiveError(
                    f"The archive of {build.identifier}, {build.url}: {error}"
                ) from error
            try:
                program = _program(folder, build, platform)
                place.remove()
                folder.rename(place.folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            archive.unlink(missing_ok=True)
        place.keep(Record(build.url, sha256, size, program))
    except OSError as error:
        if isinstance(error, RegistryError):
            raise
        raise RegistryError(
            f"{build.identifier} could not be kept in {place.root}: {error.strerror or error}. Free some "
            "space, or name another folder by the variable LANISTA_CACHE."
        ) from error
    logger.info("%s is in %s (%s packed).", build.identifier, place.folder, size_text(size))
    return place.folder / program


def _obtain(url: str, archive: Path) -> tuple[str, int]:
    """Download the archive, or copy that of this machine; its SHA-256 and size."""
    if is_url(url):
        return download(url, archive)
    import hashlib

    try:
        shutil.copyfile(url, archive)
    except OSError as error:
        raise RegistryError(f"The archive {url} could not be read: {error.strerror}.") from error
    with archive.open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest(), archive.stat().st_size


def _require_same(build: Build, known: Record | None, sha256: str) -> None:
    """Compare with the manifest's checksum; where it has none, with that of the first download."""
    if build.sha256 is not None:
        if sha256 != build.sha256:
            raise RegistryError(
                f"{build.url} is not what the manifest says: its SHA-256 is {sha256}, expected "
                f"{build.sha256}. It was damaged on the way, or exchanged; it was not unpacked."
            )
        return
    if known is not None and known.sha256 != sha256:
        raise RegistryError(
            f"{build.url} is another file than at its first download: its SHA-256 is {sha256}, and was "
            f"{known.sha256}. It was not unpacked. If its owner has changed it, give "
            f"`lanista envs remove {build.identifier} --forget`, and fetch it again."
        )
    if known is None:
        logger.info(
            "The manifest gives no checksum of %s. SHA-256 %s is kept: the next download is compared.",
            *(build.identifier, sha256),
        )


def _program(folder: Path, build: Build, platform: str) -> str:
    """The program of the unpacked build, from the folder on."""
    patterns = _PROGRAMS.get("linux" if platform.startswith("linux") else platform, ())
    for pattern in patterns:
        found = [path for path in folder.rglob(pattern) if not path.name.startswith(_HELPERS)]
        if found:
            first = min(found, key=lambda path: (len(path.parts), path.name))
            if first.is_file() and platform != "win32":
                first.chmod(0o755)
            return first.relative_to(folder).as_posix()
    there = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
    raise RegistryError(
        f"The archive of {build.identifier}, {build.url}, holds no program for this platform (looked for "
        f"{' or '.join(patterns) or platform}); there is {there}."
    )
