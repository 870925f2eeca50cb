"""Videos show the frames; what does not move keeps its color."""

import io
import re

import numpy as np
import pytest
from lanista.envs.utils.installation import install_command
from lanista.trainers.utils import films
from lanista.trainers.utils.films import FilmError, Frame, as_image, check_ending, encode, gif
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


@pytest.mark.parametrize(
    ("ending", "begins", "codec"),
    [(".mp4", b"\0\0\0\x20ftyp", "h264"), (".webm", b"\x1a\x45\xdf\xa3", "vp9")],
)
def test_a_film_is_of_its_format_and_shows_every_frame_cropped_to_even_sizes(ending, begins, codec, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / f"film{ending}"
    path.write_bytes(encode([Frame(picture[:63, :95]) for picture in pictures()], 40, ending))
    assert path.read_bytes().startswith(begins)
    reader = ffmpeg.read_frames(str(path))
    told = next(reader)
    assert (told["codec"], told["source_size"], told["fps"]) == (codec, (94, 62), 25.0)
    frames = [np.frombuffer(frame, np.uint8).reshape(62, 94, 3).astype(int) for frame in reader]
    assert len(frames) == 5
    for frame, picture in zip(frames, pictures()):
        assert np.abs(frame - picture[:62, :94]).mean() < 10


def test_the_ending_says_the_format(tmp_path, monkeypatch):
    assert check_ending(tmp_path / "Film.GIF") == ".gif"
    with pytest.raises(FilmError, match=r"expected a film's name to end in \.gif, \.mp4 or \.webm"):
        check_ending(tmp_path / "film.avi")
    monkeypatch.setattr(films, "find_spec", lambda name: None)
    for ending in (".mp4", ".webm"):
        with pytest.raises(FilmError, match=re.escape(install_command("video"))):
            check_ending(tmp_path / f"film{ending}")
    assert check_ending(tmp_path / "film.gif") == ".gif"


@pytest.mark.parametrize("drawn", [None, np.zeros((4, 4)), np.zeros((4, 4, 4), np.uint8)])
def test_what_is_no_image_is_refused(drawn):
    with pytest.raises(ValueError, match=r"expected .*\(height, width, 3\)"):
        as_image(drawn)
