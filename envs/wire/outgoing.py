"""HTTP/2's flow control of what we send: no more than the other side's windows allow."""

from .frames import (
    DATA,
    DEFAULT_FRAME_SIZE,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    LARGEST_WINDOW,
    ErrorCode,
    ProtocolError,
    frame,
    frame_header,
)


class Outgoing:
    """The message that is being sent, one at a time, and the other side's windows.

    Args:
        out: Where frames go that may be sent.
    """

    def __init__(self, out: bytearray) -> None:
        self.windows: dict[int, int] = {}
        """Per open stream, how many bytes of data the other side takes; negative after it has shrunk them."""
        self.frame_size = DEFAULT_FRAME_SIZE
        self._out = out
        self._window = DEFAULT_WINDOW
        self._initial_window = DEFAULT_WINDOW
        self._stream = 0
        self._body = memoryview(b"")
        self._tail: bytes | None = None

    @property
    def waits(self) -> bool:
        """Whether a part of the message waits for a window to open."""
        return self._stream != 0

    def open(self, stream: int) -> None:
        """A stream begins."""
        self.windows[stream] = self._initial_window

    def close(self, stream: int) -> None:
        """A stream has ended; the rest of its message is dropped."""
        self.windows.pop(stream, None)
        if stream == self._stream:
            self._stream, self._body = 0, memoryview(b"")

    def send(self, stream: int, head: bytes, body: bytes, tail: bytes | None) -> None:
        """Send headers, a body and trailers, which end the stream; see `Connection.send`.

        Without trailers the stream stays open for an answer.
        """
        size = len(body)
        start = frame_header(len(head), HEADERS, END_HEADERS, stream) + head
        if size > self.frame_size or size > self._window or size > self.windows[stream]:
            self._out += start
            self._stream, self._body, self._tail = stream, memoryview(body), tail
            self.go_on()
            return
        self._window -= size
        if tail is None:
            self.windows[stream] -= size
            self._out += start + frame_header(size, DATA, END_STREAM, stream) + body
            return
        end = frame_header(len(tail), HEADERS, END_HEADERS | END_STREAM, stream) + tail
        self._out += start + frame_header(size, DATA, 0, stream) + body + end
        del self.windows[stream]

    def widen(self, stream: int, increment: int) -> None:
        """The other side takes `increment` bytes more, in one stream or, for 0, in all of them together.

        Raises:
            ProtocolError: The increment is zero, or the window would exceed what there is room for.
        """
        if increment == 0:
            raise ProtocolError(ErrorCode.PROTOCOL_ERROR, "a window that grows by nothing")
        if stream == 0:
            self._window = _checked(self._window + increment)
        elif stream in self.windows:
            self.windows[stream] = _checked(self.windows[stream] + increment)
        self.go_on()

    def set_initial_window(self, size: int) -> None:
        """The other side takes `size` bytes in each stream, also in those that are open.

        Raises:
            ProtocolError: A window would exceed what there is room for.
        """
        change = _checked(size) - self._initial_window
        self._initial_window = size
        for stream in self.windows:
            self.windows[stream] = _checked(self.windows[stream] + change)

    def go_on(self) -> None:
        """Send as much of the message as the windows allow now."""
        while (stream := self._stream) != 0:
            size = min(len(self._body), self.frame_size, self._window, self.windows[stream])
            if size <= 0 and len(self._body) > 0:
                return
            part, self._body = self._body[:size], self._body[size:]
            self._window -= size
            self.windows[stream] -= size
            last = len(self._body) == 0
            flags = END_STREAM if last and self._tail is None else 0
            self._out += frame_header(size, DATA, flags, stream)
            self._out += part
            if last:
                self._stream = 0
                if self._tail is not None:
                    self._out += frame(HEADERS, END_HEADERS | END_STREAM, stream, self._tail)
                    del self.windows[stream]


def _checked(window: int) -> int:
    if window > LARGEST_WINDOW:
        raise ProtocolError(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {window} bytes")
    return window
