"""Downloaded builds: from the address of an archive to its program on this machine."""

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
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import RegistryError, UnsafeArchiveError
from ..utils.process_lock import LockingNotSupportedError, ProcessLock
from .download import download, is_url, size_text
from .unpack import unpack

logger = logging.getLogger(__name__)

VARIABLE = "LANISTA_CACHE"
_POLL_SECONDS = 0.2
"""Seconds between two attempts to acquire a lock."""
_PROGRAMS = {"linux": ("*.x86_64", "*.x86"), "darwin": ("*.app",), "win32": ("*.exe",)}
"""File names of a build's program by platform."""
_HELPERS = ("UnityCrashHandler",)
"""How the names of the helpers begin that accompany a build's program."""


def cache_folder() -> Path:
    """The cache: the variable LANISTA_CACHE, or `lanista` in the user's cache folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("lanista", appauthor=False)


@dataclass(frozen=True)
class Record:
    """What is known about a download; it outlives the unpacked build."""

    url: str
    sha256: str
    """The SHA-256 of the archive, as first downloaded."""
    size: int
    """The size of the archive in bytes."""
    program: str | None = None
    """The program's path inside the build's folder; None if it is not unpacked."""


@dataclass(frozen=True)
class Build:
    """An archive with an environment for one platform, and where it is unpacked.

    A build has a folder, a record beside it, and a lock.
    """

    identifier: str
    """The environment's name in its registry."""
    url: str
    """The address of a zip archive; or its path, where a manifest on this machine says so."""
    sha256: str | None = None
    """The SHA-256 of the archive, if the manifest states it."""
    root: Path | None = None
    """The folder to unpack into; None for the cache."""

    @property
    def folder(self) -> Path:
        """The folder that the build is unpacked into."""
        return self._root / self._key

    @property
    def record(self) -> Record | None:
        """What is known about the build's download; None if it has never been downloaded."""
        try:
            return Record(**json.loads(self._record_file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def program(self) -> Path | None:
        """The build's program; None if it is not on this machine, or not of the manifest's archive."""
        record = self.record
        if record is None or record.program is None or self.sha256 not in (None, record.sha256):
            return None
        path = self.folder / record.program
        return path if path.exists() else None

    @property
    def _root(self) -> Path:
        return cache_folder() / "environments" if self.root is None else self.root

    @property
    def _key(self) -> str:
        """The build's file name: an identifier may hold anything, and must not lead out of the folder."""
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", self.identifier)[:60].strip(".") or "_"
        return f"{plain}-{hashlib.sha256(f'{self.identifier} {self.url}'.encode()).hexdigest()[:16]}"

    @property
    def _record_file(self) -> Path:
        return self._root / f"{self._key}.json"

    def fetch(self, platform: str = sys.platform) -> Path:
        """The program, downloaded and unpacked if necessary.

        Raises:
            RegistryError: The archive cannot be downloaded, has another checksum, or contains no program.
        """
        program = self.program
        if program is None:
            with self.locked():
                program = self.program  # another process may have fetched it in the meantime
                if program is None:
                    program = self._fetch(platform)
        return program

    def remove(self) -> bool:
        """Delete the folder, while the build is locked, but not the record; False if there is none."""
        if not self.folder.is_dir():
            return False
        doomed = self._partial()
        self.folder.rename(doomed)  # so that half a folder is never found
        shutil.rmtree(doomed)
        return True

    def remove_record(self) -> None:
        """Delete the record, and with it the checksum that the next download is compared with."""
        self._record_file.unlink(missing_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from the build's folder; remove what killed ones left.

        Raises:
            RegistryError: The folder is not writable.
        """
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            lock = ProcessLock(self._root / f".{self._key}.lock")
            self._acquire(lock)
        except OSError as error:
            raise RegistryError(
                f"The cache {self._root} cannot be used: {error.strerror}. Name another folder by the "
                f"variable {VARIABLE}."
            ) from error
        try:
            for left in self._root.glob(f".{self._key}.*.partial"):
                shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            lock.release()

    def _acquire(self, lock: ProcessLock) -> None:
        waiting = False
        try:
            while not lock.acquire():
                if not waiting:
                    holder = lock.holder() or "unknown"
                    logger.info("Another process is fetching %s (%s); waiting for it.", self._key, holder)
                waiting = True
                time.sleep(_POLL_SECONDS)
        except LockingNotSupportedError as error:
            logger.warning("%s cannot be locked (%s): fetch it in one process at a time.", lock.path, error)

    def _partial(self) -> Path:
        """A new name for a folder of unfinished work."""
        return self._root / f".{self._key}.{secrets.token_hex(6)}.partial"

    def _fetch(self, platform: str) -> Path:
        """Download and unpack it; the program."""
        if self.sha256 is None and self.record is None and self.url.lower().startswith("http://"):
            logger.warning(
                "%s is downloaded from %s, unencrypted, and its manifest has no sha256: anyone on the "
                "network path could substitute another program. An https:// address or a sha256 prevents it.",
                self.identifier,
                self.url,
            )
        partial = self._partial()
        try:
            partial.mkdir()
            archive, unpacked = partial / "archive.zip", partial / "unpacked"
            if is_url(self.url):
                download(self.url, archive)
            else:
                self._copy(archive)
            sha256 = self._check(archive)
            try:
                unpack(archive, unpacked, platform)
            except UnsafeArchiveError as error:
                raise UnsafeArchiveError(f"The archive of {self.identifier}, {self.url}: {error}") from error
            record = Record(self.url, sha256, archive.stat().st_size, self._find_program(unpacked, platform))
            self.remove()
            unpacked.rename(self.folder)
            (partial / "record").write_text(json.dumps(asdict(record), indent=2), encoding="utf-8")
            os.replace(partial / "record", self._record_file)
        except OSError as error:
            if isinstance(error, RegistryError):
                raise
            raise RegistryError(
                f"{self.identifier} could not be stored in {self._root}: {error.strerror or error}. Free "
                f"some space, or name another folder by the variable {VARIABLE}."
            ) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        logger.info("%s is in %s (%s packed).", self.identifier, self.folder, size_text(record.size))
        return self.folder / str(record.program)

    def _copy(self, archive: Path) -> None:
        try:
            shutil.copyfile(self.url, archive)
        except OSError as error:
            raise RegistryError(f"The archive {self.url} could not be read: {error.strerror}.") from error

    def _check(self, archive: Path) -> str:
        """Compare the checksum with the manifest's, or else with that of the first download; return it."""
        from pooch import file_hash

        sha256: str = file_hash(str(archive))
        record = self.record
        if self.sha256 is not None:
            if sha256 != self.sha256:
                raise RegistryError(
                    f"{self.url} is not what the manifest states: its SHA-256 is {sha256}, expected "
                    f"{self.sha256}. It was damaged in transit, or replaced; it was not unpacked."
                )
        elif record is None:
            logger.info(
                "The manifest gives no checksum for %s. SHA-256 %s is recorded and compared with the next "
                "download.",
                self.identifier,
                sha256,
            )
        elif record.sha256 != sha256:
            raise RegistryError(
                f"{self.url} is another file than at its first download: its SHA-256 is {sha256}, and was "
                f"{record.sha256}. It was not unpacked. If its owner has changed it, run "
                f"`lanista envs remove {self.identifier} --forget`, and fetch it again."
            )
        return sha256

    def _find_program(self, folder: Path, platform: str) -> str:
        """The program's path inside the unpacked build."""
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
            f"The archive of {self.identifier}, {self.url}, contains no program for this platform (looked "
            f"for {' or '.join(patterns) or platform}); it contains {there}."
        )
