"""Where downloaded environments are kept, and what is known of each."""

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

from ..file_lock import FileLock, LockingNotSupportedError
from .errors import RegistryError

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
            lock = FileLock(self.root / f".{self.key}.lock")
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
            lock.give_back()


def _take(lock: FileLock, name: str) -> None:
    told = False
    try:
        while not lock.take():
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
