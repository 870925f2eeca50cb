"""Shows what is played, drawn after every step: as a film, or live on a page of this machine."""

from __future__ import annotations

import base64
import html
import io
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Protocol

from ...utils.atomic_files import atomic_write_bytes
from ...utils.errors import CommandError
from ...utils.films import FilmError, Frame, Image, as_image, check_ending, encode
from ...utils.text import harmless
from ..page_server import PageServer, content_policy

FRAME_MS = 60


class Viewer(Protocol):
    """Takes the images of a `StepRenderer`."""

    @property
    def wants_more(self) -> bool:
        """Whether it takes another image."""

    def add(self, image: Image) -> None:
        """Take an image."""


class StepRenderer:
    """Draws an environment after every step, as long as a viewer wants the images."""

    def __init__(self, env: Any, name: str, viewers: Sequence[Viewer]) -> None:
        """`env`: a BaseEnv with `draw()`; `name`: the environment's, for messages."""
        self._env = env
        self._name = name
        self._viewers = viewers

    def step(self) -> None:
        """The environment has taken a step.

        Raises:
            CommandError: it cannot draw itself.
        """
        viewers = [viewer for viewer in self._viewers if viewer.wants_more]
        if not viewers:
            return
        try:
            image = as_image(self._env.draw())
        except Exception as error:  # of any renderer: a package may be missing
            raise CommandError(f"{self._name} cannot draw itself: {type(error).__name__}: {error}") from error
        for viewer in viewers:
            viewer.add(image)


class Film:
    """The first images of what is played, as a GIF, an MP4 or a WebM by the ending of its file."""

    def __init__(self, path: Path, most: int) -> None:
        """`most`: frames.

        Raises:
            FilmError: the file's ending stands for no format, or for one whose encoder is not installed; or
                there is no such folder.
        """
        self.path = path
        self._ending = check_ending(path)
        if not path.parent.is_dir():
            raise FilmError(f"The film cannot be written to {path}: there is no folder {path.parent}.")
        self._most = most
        self._frames: list[Frame] = []

    @property
    def wants_more(self) -> bool:
        """Whether there is room for another frame."""
        return len(self._frames) < self._most

    def add(self, image: Image) -> None:
        """Record a frame.

        Raises:
            CommandError: it has another size than those before it.
        """
        frame = Frame(image)
        if self._frames and frame.size != self._frames[0].size:
            raise CommandError(
                f"The images of a film must have one size: found {frame.size} after {self._frames[0].size}."
            )
        self._frames.append(frame)

    def save(self) -> bool:
        """Write the film, if there is a frame; whether there is one.

        Raises:
            CommandError: it cannot be encoded or written.
        """
        if not self._frames:
            return False
        try:
            atomic_write_bytes(self.path, encode(self._frames, FRAME_MS, self._ending))
        except Exception as error:  # FFmpeg is a program of its own, and may lack the codec
            raise CommandError(f"The film could not be written to {self.path}: {error}.") from error
        return True


_LAST_POLL_SECONDS = 1.0
"""Seconds within which the page may ask how the playing has ended."""
_SCRIPT = f"""
const image = document.querySelector("img"), text = document.querySelector("p");
async function look() {{
  let state;
  try {{
    state = await (await fetch("state")).json();
  }} catch {{
    text.textContent += " (Playback has ended.)";
    return;
  }}
  image.src = state.image;
  text.textContent = state.text;
  if (!state.over) setTimeout(look, {FRAME_MS // 2});
}}
look();
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0 auto; padding: 1rem; max-width: 70rem; font: 1rem/1.5 system-ui, sans-serif; }}
h1 {{ font-size: 1.1rem; overflow-wrap: anywhere; }}
img {{ display: block; width: 100%; max-height: 75vh; object-fit: contain; }}
p {{ font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<h1>{title}</h1>
<img alt="What is played">
<p></p>
<script>{script}</script>
</body>
</html>
"""


class Window:
    """Takes the images of a camera and shows them in a browser, while the context is open.

    Playback waits until the page is open, and then for as long as each image is shown.
    """

    wants_more = True

    def __init__(self, title: str, text: Callable[[], str], port: int = 0) -> None:
        """`title` is above the images; `text` returns the line below them. Raises CommandError."""
        page = _PAGE.format(
            title=html.escape(harmless(title)),
            policy=content_policy(_SCRIPT, refreshes=True),
            script=_SCRIPT,
        ).encode()
        self._text = text
        self._image = ""
        self._over = False
        self._opened, self._looked = Event(), Event()
        self._due = 0.0
        self._server = PageServer(lambda: page, port, {"state": self._state})
        self._thread = Thread(target=self._server.serve, daemon=True)

    def __enter__(self) -> Window:
        self._thread.start()
        print(
            f"Watch at {self._server.address} on this machine alone. Playback starts when the page is "
            "open; Ctrl-C ends it.",
            flush=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        if self._opened.is_set():
            self._looked.wait(_LAST_POLL_SECONDS)
        self._server.stop()
        self._thread.join(_LAST_POLL_SECONDS)
        self._server.close()

    def add(self, image: Image) -> None:
        """Show an image."""
        self._image = f"data:image/jpeg;base64,{base64.b64encode(_jpeg(image)).decode()}"
        while not self._opened.wait(0.5):  # without a limit, Windows would not let Ctrl-C through
            if not self._thread.is_alive():
                raise CommandError("The page is served no more, for the reason above.")
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = time.monotonic() + FRAME_MS / 1000

    def _state(self) -> bytes:
        """What the page asks for again and again; called from the server's threads."""
        over = self._over
        text = f"{self._text()}{'. Playback has ended.' if over else ''}"
        state = {"image": self._image, "text": text, "over": over}
        if self._image:
            self._opened.set()
        if over:
            self._looked.set()
        return json.dumps(state).encode()


def _jpeg(image: Image) -> bytes:
    from PIL import Image as Picture

    file = io.BytesIO()
    Picture.fromarray(image).save(file, "JPEG", quality=88)
    return file.getvalue()
