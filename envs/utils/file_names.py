"""Which names of files and folders systems refuse, and which they take for one."""

from __future__ import annotations

import re
import unicodedata

_FORBIDDEN = re.compile(r'[<>:"|?*\\]|[. ]$')
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9]) *(\..*)?", re.IGNORECASE)


def refused_by_windows(name: str) -> str:
    """Why Windows refuses the name of a file or folder, as the end of a sentence; empty if it takes it."""
    found = _FORBIDDEN.search(name)
    if found:
        where = "end with" if found.end() == len(name) and found[0] in ". " else "hold"
        return f"a name cannot {where} {found[0]!r} on Windows"
    return "Windows keeps that name for a device" if _DEVICES.fullmatch(name) else ""


def without_case(name: str) -> str:
    """Equal for names that Windows or macOS takes for one: by case, or by how letters are composed."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
