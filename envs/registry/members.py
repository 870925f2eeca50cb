"""The members of a zip archive, each looked at before any is written."""

from __future__ import annotations

import re
import stat
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from zipfile import ZipInfo

from .errors import UnsafeArchiveError

MOST_MEMBERS = 200_000
MOST_GROWTH, ALWAYS_ALLOWED = 100, 1 << 30
"""Unpacked, an archive may be so many times its own size; or so many bytes, whatever its own."""
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{k}" for port in ("com", "lpt") for k in range(10))}
)
"""What Windows takes for devices, with any ending."""


class Kind(Enum):
    """What a member becomes."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"


@dataclass(frozen=True)
class Member:
    """A member that may be written."""

    info: ZipInfo
    parts: tuple[str, ...]
    """Its path below the folder into which it is unpacked."""
    kind: Kind

    @property
    def name(self) -> str:
        """As messages show it."""
        return "/".join(self.parts)


def checked(infos: Sequence[ZipInfo], archive_size: int, platform: str = sys.platform) -> list[Member]:
    """The members of an archive of `archive_size` bytes.

    Raises:
        UnsafeArchiveError: one of them would be written elsewhere, over another, or fill the disk; named.
    """
    if len(infos) > MOST_MEMBERS:
        raise UnsafeArchiveError(f"It has {len(infos)} members, expected at most {MOST_MEMBERS}.")
    members = [_member(info, platform) for info in infos]
    members = [member for member in members if member.parts]  # "./" is the folder itself
    total = sum(info.file_size for info in infos)
    if total > max(ALWAYS_ALLOWED, MOST_GROWTH * archive_size):
        raise UnsafeArchiveError(
            f"It would be {total} bytes unpacked, of {archive_size} packed: expected at most {MOST_GROWTH} "
            "times as many."
        )
    _require_apart(members)
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


def _kind(info: ZipInfo, name: str, shown: str, platform: str) -> Kind:
    mode = info.external_attr >> 16
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFLNK:
        if platform == "win32":
            raise UnsafeArchiveError(f"The member {shown} is a symbolic link, which Windows does not take.")
        return Kind.LINK
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UnsafeArchiveError(f"The member {shown} is neither a file nor a folder.")
    return Kind.FOLDER if name.endswith("/") or kind == stat.S_IFDIR else Kind.FILE


def _require_windows_names(parts: Sequence[str], shown: str) -> None:
    for part in parts:
        if set(part) & set('<>:"|?*') or part[-1] in ". " or part.partition(".")[0].lower() in _DEVICES:
            raise UnsafeArchiveError(f"The member {shown} has a name that Windows does not take: {part!r}.")


def _require_apart(members: Sequence[Member]) -> None:
    """Refuse two members that one file system would take for one, and members below no folder."""
    spelled: dict[tuple[str, ...], tuple[tuple[str, ...], Member]] = {}
    solid: dict[tuple[str, ...], Member] = {}
    for member in members:
        for depth in range(1, len(member.parts) + 1):
            prefix = member.parts[:depth]
            other = spelled.setdefault(_alike(prefix), (prefix, member))
            if other[0] != prefix:
                raise UnsafeArchiveError(
                    f"The members {other[1].name!r} and {member.name!r} differ by letters that some systems "
                    "take for the same."
                )
        key = _alike(member.parts)
        if member.kind is not Kind.FOLDER:
            if key in solid:
                raise UnsafeArchiveError(f"The member {member.name!r} is there twice.")
            solid[key] = member
    for member in members:
        key = _alike(member.parts)
        depths = range(1, len(key) + (member.kind is Kind.FOLDER))
        below = next((solid[key[:depth]] for depth in depths if key[:depth] in solid), None)
        if below is not None:
            raise UnsafeArchiveError(
                f"The member {member.name!r} would lie in {below.name!r}, which is a {below.kind.value}."
            )


def _alike(parts: Sequence[str]) -> tuple[str, ...]:
    """The same for paths that some file system takes for one."""
    return tuple(
        unicodedata.normalize("NFC", unicodedata.normalize("NFC", part).casefold()) for part in parts
    )
