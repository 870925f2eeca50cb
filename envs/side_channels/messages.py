"""Side-channel messages: sequences of little-endian values."""

import struct
import warnings
from collections.abc import Sequence

from mlagents_envs.exception import UnitySideChannelException


class OutgoingMessage:
    """A message to the engine; write the values in the order in which the engine reads them."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def write_bool(self, b: bool) -> None:
        """Append one byte, 0 or 1."""
        self.buffer += struct.pack("<?", b)

    def write_int32(self, i: int) -> None:
        """Append a signed number of four bytes."""
        self.buffer += struct.pack("<i", i)

    def write_float32(self, f: float) -> None:
        """Append a float of four bytes."""
        self.buffer += struct.pack("<f", f)

    def write_float32_list(self, float_list: Sequence[float]) -> None:
        """Append the count (int32) and the floats."""
        self.write_int32(len(float_list))
        self.buffer += struct.pack(f"<{len(float_list)}f", *float_list)

    def write_string(self, s: str) -> None:
        """Append the length in bytes (int32) and the text.

        The engine reads ASCII, of which UTF-8 is a superset.
        """
        encoded = s.encode("utf-8")
        self.write_int32(len(encoded))
        self.buffer += encoded

    def set_raw_bytes(self, buffer: bytes | bytearray) -> None:
        """Make `buffer` the whole message, with a warning if something was written before."""
        if self.buffer:
            warnings.warn("set_raw_bytes drops what was written to the message before.", stacklevel=2)
        self.buffer = bytearray(buffer)


class IncomingMessage:
    """A message from the engine; read the values in the order in which the engine wrote them.

    Past the end of the message every reader returns its default, so that a newer reader understands an older
    engine. A value that is cut off by the end raises `UnitySideChannelException`.
    """

    def __init__(self, buffer: bytes | bytearray, offset: int = 0) -> None:
        self.buffer = buffer
        self.offset = offset

    def read_bool(self, default_value: bool = False) -> bool:
        """One byte."""
        return default_value if self._at_end() else self._take(1, "a bool") != b"\0"

    def read_int32(self, default_value: int = 0) -> int:
        """A signed number of four bytes."""
        if self._at_end():
            return default_value
        return int.from_bytes(self._take(4, "an int32"), "little", signed=True)

    def read_float32(self, default_value: float = 0.0) -> float:
        """A float of four bytes."""
        if self._at_end():
            return default_value
        return float(struct.unpack("<f", self._take(4, "a float32"))[0])

    def read_float32_list(self, default_value: list[float] | None = None) -> list[float]:
        """A count (int32) and as many floats."""
        if self._at_end():
            return [] if default_value is None else default_value
        count = self.read_int32()
        return list(struct.unpack(f"<{max(count, 0)}f", self._take(4 * count, f"a list of {count} floats")))

    def read_string(self, default_value: str = "") -> str:
        """A length in bytes (int32) and as many bytes of UTF-8."""
        if self._at_end():
            return default_value
        length = self.read_int32()
        encoded = self._take(length, f"a text of {length} bytes")
        try:
            return encoded.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UnitySideChannelException(
                f"A side-channel message of {len(self.buffer)} bytes has a text that is neither ASCII nor "
                f"UTF-8, {error.reason} at byte {self.offset - length + error.start}: {encoded!r}."
            ) from error

    def get_raw_bytes(self) -> bytearray:
        """The whole message, including what has been read."""
        return bytearray(self.buffer)

    def _at_end(self) -> bool:
        return self.offset >= len(self.buffer)

    def _take(self, size: int, what: str) -> bytes:
        end = self.offset + size
        if size < 0 or end > len(self.buffer):
            raise UnitySideChannelException(
                f"A side-channel message of {len(self.buffer)} bytes should hold {what} at byte "
                f"{self.offset}, and does not. The engine writes this channel in another way than it is "
                "read here."
            )
        taken = bytes(self.buffer[self.offset : end])
        self.offset = end
        return taken
