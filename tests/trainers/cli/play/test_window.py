"""`lanista play --watch` shows what is played to this machine, at one secret address."""

import base64
import io
import json
import re
import threading
import urllib.error
import urllib.request
from unittest.mock import Mock

import numpy as np
import pytest
from lanista.trainers.cli.play.film import StepRenderer, Window
from lanista.trainers.utils.errors import CommandError
from PIL import Image


def fetch(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.read().decode()


def level(state):
    """The gray of a state's image."""
    data = state["image"].removeprefix("data:image/jpeg;base64,")
    return int(np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))).mean())


def test_the_page_shows_the_images_and_how_the_playing_ended(capsys):
    shown, pages = [], []

    def browse(address):
        pages.append(fetch(address))
        while not shown or not shown[-1]["over"]:
            shown.append(json.loads(fetch(f"{address}state")))

    told = [0]
    with Window("<run> in scene:basic", lambda: f"{told[0]} of 3 episodes") as window:
        (address,) = re.findall(r"http://127\.0\.0\.1:[0-9]+/[^ ]+/", capsys.readouterr().out)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            fetch(address[: address.index("/", 8)] + "/state")
        images = [np.full((8, 8, 3), gray, np.uint8) for gray in (50, 100, 150)]
        browser = threading.Thread(target=browse, args=(address,))
        browser.start()
        for image in images:
            window.add(image)
            told[0] += 1
    browser.join()
    assert "&lt;run&gt; in scene:basic" in pages[0] and "default-src 'none'" in pages[0]
    seen = [level(state) for state in shown if state["image"]]
    assert seen == sorted(seen) and set(seen) <= {50, 100, 150}
    assert seen[0] == 50, "the playing waits until the page is open"
    assert seen[-1] == 150 and shown[-1]["text"] == "3 of 3 episodes. Playback has ended."
    with pytest.raises(urllib.error.URLError):
        fetch(address)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_playback_ends_where_its_page_is_served_no_more():
    window = Window("a run", str)
    window._server._callers.wait = Mock(side_effect=KeyError("a fault"))
    with window, pytest.raises(CommandError, match="served no more"):
        window.add(np.zeros((8, 8, 3), np.uint8))


def test_a_camera_draws_once_for_all_and_not_at_all_for_nobody():
    class Env:
        drawn = 0

        def draw(self):
            self.drawn += 1
            return np.zeros((4, 4, 3), np.uint8)

    class Viewer:
        def __init__(self, most):
            self.most, self.images = most, []

        @property
        def wants_more(self):
            return len(self.images) < self.most

        def add(self, image):
            self.images.append(image)

    env, viewers = Env(), [Viewer(2), Viewer(3)]
    renderer = StepRenderer(env, "game", viewers)
    for _ in range(5):
        renderer.step()
    assert env.drawn == 3 and [len(viewer.images) for viewer in viewers] == [2, 3]
