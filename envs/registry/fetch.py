"""From a build's address to its program on this machine."""

from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .cache import Place, Record
from .download import download, is_url, size_text
from .errors import RegistryError, UnsafeArchiveError
from .unpack import unpack

logger = logging.getLogger(__name__)

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
