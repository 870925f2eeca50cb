"""What is wrong with a demonstration."""

from pathlib import Path

from mlagents_envs.exception import UnityException


class DemonstrationError(UnityException):  # type: ignore[misc]
    """A file that is no demonstration, or not all of one. The message names the file and the byte."""

    def __init__(self, path: Path, found: str, byte: int | None = None) -> None:
        """`byte`: where the file breaks, from 0; None where it is not about one place."""
        where = "" if byte is None else f" byte {byte}:"
        super().__init__(f"The demonstration {path}:{where} {found}")
        self.path = path
        self.byte = byte
