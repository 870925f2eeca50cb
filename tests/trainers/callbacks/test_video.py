"""Videos show the frames; what does not move keeps its color."""

import io

import numpy as np
import pytest
from lanista.trainers.callbacks.video import Frame, gif, has_mp4_encoder, mp4
from PIL import Image


def pictures(count=5):
    """Frames of a ball with a soft edge that moves over a white floor, in close shades."""
    rows, columns = np.mgrid[:64, :96]
    drawn = []
    for k in range(count):
        far = np.hypot(rows - 30, columns - 20 - 5 * k)
        shade = np.clip((far - 8) / 12, 0, 1)[..., None]
        drawn.append((255 * shade + np.array([200, 60, 20]) * (1 - shade)).astype(np.uint8))
    return drawn


def shown(film):
    image = Image.open(io.BytesIO(film))
    found = []
    for k in range(image.n_frames):
        image.seek(k)
        found.append((image.info["duration"], np.asarray(image.convert("RGB")).astype(int)))
    return found


def test_a_gif_shows_every_frame_in_its_colors():
    drawn = pictures()
    found = shown(gif([Frame(picture) for picture in drawn], 40))
    assert [duration for duration, _ in found] == [40] * 5
    for (_, seen), picture in zip(found, drawn):
        assert np.abs(seen - picture).max() < 40
    corners = {tuple(seen[-1, -1]) for _, seen in found}
    assert len(corners) == 1, "what stands still does not flicker"


def test_a_frame_restores_its_pixels():
    picture = pictures(1)[0][:, ::-1]
    assert (Frame(picture).pixels() == picture).all() and Frame(picture).size == (96, 64)


@pytest.mark.skipif(not has_mp4_encoder(), reason="imageio and imageio-ffmpeg are not installed")
def test_an_mp4_shows_every_frame_cropped_to_even_sizes():
    import imageio.v2 as imageio

    film = mp4([Frame(picture[:63, :95]) for picture in pictures()], 40)
    with imageio.get_reader(io.BytesIO(film), "mp4") as reader:
        frames = list(reader.iter_data())
    assert len(frames) == 5 and frames[0].shape == (62, 94, 3)
    assert np.abs(frames[0].astype(int) - pictures()[0][:62, :94]).mean() < 10
