"""Unpacks a zip archive from a stranger: into its folder and nowhere else, or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile, LargeZipFile, ZipFile

from .download import require_room
from .errors import UnsafeArchiveError
from .members import Kind, Member, checked

_CHUNK = 1 << 20
_LONGEST_LINK = 4096
"""Bytes of a symbolic link's target."""
_PROGRAMS = (
    b"#!",
    b"\x7fELF",
    *(bytes.fromhex(magic) for magic in ("feedface", "feedfacf", "cefaedfe", "cffaedfe", "cafebabe")),
)
"""How files begin that a system executes: scripts, and programs of Linux and macOS."""
_LIBRARIES = (".so", ".dylib", ".bundle", ".dll")


def unpack(archive: Path, folder: Path, platform: str = sys.platform) -> None:
    """Unpack `archive` into the new folder `folder`.

    Members keep no rights of their own: what begins like a program may be executed, nothing else. A member
    that would be written elsewhere, over another or through a link is refused, and so is the archive.

    Raises:
        UnsafeArchiveError: naming the member; `folder` is then not there.
        RegistryError: there is no room.
        OSError: it cannot be written.
    """
    folder.mkdir()
    try:
        try:
            with ZipFile(archive) as opened:
                members = checked(opened.infolist(), archive.stat().st_size, platform)
                total = sum(member.info.file_size for member in members)
                require_room(folder, total, "What is to be unpacked")
                _write(opened, members, folder)
        except (BadZipFile, LargeZipFile, NotImplementedError, zlib.error, EOFError, RuntimeError) as error:
            raise UnsafeArchiveError(f"It is damaged, or no zip archive: {error}.") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(opened: ZipFile, members: Sequence[Member], folder: Path) -> None:
    for member in members:
        target = folder.joinpath(*member.parts)
        if member.kind is Kind.FOLDER:
            target.mkdir(parents=True, exist_ok=True)
        elif member.kind is Kind.FILE:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_file(opened, member, target)
    # Last of all, so that nothing is written through them.
    links = [member for member in members if member.kind is Kind.LINK]
    for member in links:
        target = folder.joinpath(*member.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        _link(opened, member, target)
    for member in links:
        _require_inside(folder, folder.joinpath(*member.parts), member)


def _write_file(opened: ZipFile, member: Member, target: Path) -> None:
    left, head = member.info.file_size, b""
    with opened.open(member.info) as source, open(target, "xb") as file:
        while chunk := source.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise UnsafeArchiveError(f"The member {member.name!r} is larger than it says.")
            head = head or chunk[:4]
            file.write(chunk)
    if left:
        raise UnsafeArchiveError(f"The member {member.name!r} is smaller than it says.")
    program = head.startswith(_PROGRAMS) and target.suffix.lower() not in _LIBRARIES
    target.chmod(0o755 if program else 0o644)


def _link(opened: ZipFile, member: Member, place: Path) -> None:
    with opened.open(member.info) as source:
        data = source.read(_LONGEST_LINK + 1)
    try:
        target = data.decode("utf-8")
    except UnicodeDecodeError:
        target = ""
    if not target or len(data) > _LONGEST_LINK or "\0" in target or os.path.isabs(target):
        raise UnsafeArchiveError(f"The member {member.name!r} is a symbolic link that leads anywhere.")
    os.symlink(target, place)


def _require_inside(folder: Path, link: Path, member: Member) -> None:
    """Now that all links are there, see where this one really leads, through whatever others."""
    root, end = os.path.realpath(folder), os.path.realpath(link)
    if end != root and not end.startswith(root + os.sep):
        raise UnsafeArchiveError(
            f"The member {member.name!r} is a symbolic link that leads out of the folder."
        )
