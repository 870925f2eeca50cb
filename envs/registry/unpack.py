"""Unpack an untrusted zip archive: into its folder and nowhere else, or not at all.

All members are checked before any is written.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import unicodedata
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from zipfile import BadZipFile, LargeZipFile, ZipFile, ZipInfo

from ..errors import UnsafeArchiveError
from ..utils.file_names import refused_by_windows, without_case
from .download import require_room

MAX_MEMBERS = 200_000
MAX_RATIO, ALWAYS_ALLOWED = 100, 1 << 30
"""The unpacked size may be this many times the archive's; or this many bytes, whatever the archive's."""


class MemberKind(Enum):
    """What a member becomes."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"


@dataclass(frozen=True)
class Member:
    """A member that is safe to write."""

    info: ZipInfo
    parts: tuple[str, ...]
    """Its path relative to the folder that the archive is unpacked into."""
    kind: MemberKind

    @property
    def name(self) -> str:
        """The path, as messages show it."""
        return "/".join(self.parts)


def check_members(infos: Sequence[ZipInfo], archive_size: int, platform: str = sys.platform) -> list[Member]:
    """Check the members of an archive of `archive_size` bytes.

    Raises:
        UnsafeArchiveError: One of them, which is named, would be written elsewhere or over another, or all
            together would fill the disk.
    """
    if len(infos) > MAX_MEMBERS:
        raise UnsafeArchiveError(f"It has {len(infos)} members, expected at most {MAX_MEMBERS}.")
    members = [_member(info, platform) for info in infos]
    members = [member for member in members if member.parts]  # "./" is the folder itself
    total = sum(info.file_size for info in infos)
    if total > max(ALWAYS_ALLOWED, MAX_RATIO * archive_size):
        raise UnsafeArchiveError(
            f"It would be {total} bytes unpacked, of {archive_size} packed: expected at most {MAX_RATIO} "
            "times as many."
        )
    _require_distinct(members)
    return members


def _member(info: ZipInfo, platform: str) -> Member:
    raw = info.orig_filename if isinstance(info.orig_filename, str) else info.filename
    name = raw.replace("\\", "/")  # some tools on Windows write these
    shown = repr(raw)
    if not name or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in name):
        raise UnsafeArchiveError(f"The member {shown} has no proper name.")
    if name.startswith("/") or re.match(r"[A-Za-z]:", name):
        raise UnsafeArchiveError(f"The member {shown} has an absolute path, which would lead anywhere.")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise UnsafeArchiveError(f"The member {shown} leads out of the folder by '..'.")
    if platform == "win32":
        _require_windows_names(parts, shown)
    if info.flag_bits & 0x1:
        raise UnsafeArchiveError(f"The member {shown} is encrypted.")
    return Member(info, parts, _kind(info, name, shown, platform))


def _kind(info: ZipInfo, name: str, shown: str, platform: str) -> MemberKind:
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        if platform == "win32":
            raise UnsafeArchiveError(f"The member {shown} is a symbolic link, which Windows does not take.")
        return MemberKind.LINK
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UnsafeArchiveError(f"The member {shown} is neither a file nor a folder.")
    if not name.endswith("/") and kind != stat.S_IFDIR:
        return MemberKind.FILE
    if info.file_size:
        raise UnsafeArchiveError(f"The member {shown} is a folder, and has {info.file_size} bytes.")
    return MemberKind.FOLDER


def _require_windows_names(parts: Sequence[str], shown: str) -> None:
    for part in parts:
        if cause := refused_by_windows(part):
            raise UnsafeArchiveError(f"The member {shown} has a part {part!r} in its name: {cause}.")


def _require_distinct(members: Sequence[Member]) -> None:
    """Refuse two members whose names some file system considers equal, and members inside a file or link."""
    spelled: dict[tuple[str, ...], tuple[tuple[str, ...], Member]] = {}
    solid: dict[tuple[str, ...], Member] = {}
    for member in members:
        for depth in range(1, len(member.parts) + 1):
            prefix = member.parts[:depth]
            other = spelled.setdefault(_folded(prefix), (prefix, member))
            if other[0] != prefix:
                raise UnsafeArchiveError(
                    f"The members {other[1].name!r} and {member.name!r} differ by letters that some systems "
                    "consider the same."
                )
        key = _folded(member.parts)
        if member.kind is not MemberKind.FOLDER:
            if key in solid:
                raise UnsafeArchiveError(f"The member {member.name!r} is there twice.")
            solid[key] = member
    for member in members:
        key = _folded(member.parts)
        depths = range(1, len(key) + (member.kind is MemberKind.FOLDER))
        below = next((solid[key[:depth]] for depth in depths if key[:depth] in solid), None)
        if below is not None:
            raise UnsafeArchiveError(
                f"The member {member.name!r} would lie in {below.name!r}, which is a {below.kind.value}."
            )


def _folded(parts: Sequence[str]) -> tuple[str, ...]:
    """A key that is equal for paths that some file system considers equal."""
    return tuple(map(without_case, parts))


_CHUNK = 1 << 20
_MAX_LINK = 4096
"""The most bytes of a symbolic link's target."""
_PROGRAMS = (
    b"#!",
    b"\x7fELF",
    *(bytes.fromhex(magic) for magic in ("feedface", "feedfacf", "cefaedfe", "cffaedfe", "cafebabe")),
)
"""Magic numbers of executables: scripts, and programs for Linux and macOS."""
_LIBRARIES = (".so", ".dylib", ".bundle", ".dll")
_DAMAGED = (
    *(BadZipFile, LargeZipFile, NotImplementedError, zlib.error, EOFError, RuntimeError),
    UnicodeDecodeError,  # of names
)
"""What zipfile raises."""


def unpack(archive: Path, folder: Path, platform: str = sys.platform) -> None:
    """Unpack `archive` into the new folder `folder`.

    Permissions stored in the archive are ignored: only files that start like a program are executable. An
    archive with a member that would be written elsewhere, over another, or through a link is refused.

    Raises:
        UnsafeArchiveError: Names the member; `folder` does not exist then.
        RegistryError: There is not enough room on the disk.
        OSError: The folder is not writable.
    """
    folder.mkdir()
    try:
        try:
            with ZipFile(archive) as opened:
                members = check_members(opened.infolist(), archive.stat().st_size, platform)
                total = sum(member.info.file_size for member in members)
                require_room(folder, total, "The unpacked archive")
                _write(opened, members, folder)
        except _DAMAGED as error:
            raise UnsafeArchiveError(f"It is damaged, or no zip archive: {error}.") from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _write(opened: ZipFile, members: Sequence[Member], folder: Path) -> None:
    for member in members:
        target = folder.joinpath(*member.parts)
        if member.kind is MemberKind.FOLDER:
            target.mkdir(parents=True, exist_ok=True)
        elif member.kind is MemberKind.FILE:
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_file(opened, member, target)
    # Last, so that nothing is written through them.
    links = [member for member in members if member.kind is MemberKind.LINK]
    for member in links:
        target = folder.joinpath(*member.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        _link(opened, member, target)
    for member in links:
        _require_inside(folder, folder.joinpath(*member.parts), member)


def _write_file(opened: ZipFile, member: Member, target: Path) -> None:
    left, head = member.info.file_size, b""
    with open(target, "xb") as file:
        for chunk in _chunks(opened, member):
            left -= len(chunk)
            if left < 0:
                raise UnsafeArchiveError(f"The member {member.name!r} is larger than it says.")
            head = head or chunk[:4]
            file.write(chunk)
    if left:
        raise UnsafeArchiveError(f"The member {member.name!r} is smaller than it says.")
    program = head.startswith(_PROGRAMS) and target.suffix.lower() not in _LIBRARIES
    target.chmod(0o755 if program else 0o644)


def _chunks(opened: ZipFile, member: Member) -> Iterator[bytes]:
    """What a member holds, in pieces. zipfile raises what its decompressors and a wrong offset do."""
    try:
        with opened.open(member.info) as source:
            while chunk := source.read(_CHUNK):
                yield chunk
    except Exception as error:
        raise UnsafeArchiveError(f"It is damaged at the member {member.name!r}: {error}.") from error


def _link(opened: ZipFile, member: Member, place: Path) -> None:
    data = next(_chunks(opened, member), b"")
    try:
        target = data.decode("utf-8")
    except UnicodeDecodeError:
        target = ""
    if not target or len(data) > _MAX_LINK or "\0" in target or os.path.isabs(target):
        raise UnsafeArchiveError(f"The member {member.name!r} is a symbolic link that leads anywhere.")
    os.symlink(target, place)


def _require_inside(folder: Path, link: Path, member: Member) -> None:
    """Now that all links exist, resolve this one, through others if need be, and check where it ends."""
    root, end = os.path.realpath(folder), os.path.realpath(link)
    if end != root and not end.startswith(root + os.sep):
        raise UnsafeArchiveError(
            f"The member {member.name!r} is a symbolic link that leads out of the folder."
        )
