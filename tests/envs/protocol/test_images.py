"""Compressed images: what becomes of their planes, as floats and as bytes, and on which threads."""

import io
import struct
import threading
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.errors import ObservationError
from lanista.envs.hosting.world import batch
from lanista.envs.images import as_bytes, as_floats
from lanista.envs.protocol import images
from lanista.envs.protocol.decoder import Decoder
from lanista.envs.protocol.engine import StepEncoder
from lanista.envs.protocol.images import read_png
from mlagents_envs.base_env import (
    ActionSpec,
    BehaviorSpec,
    DecisionSteps,
    DimensionProperty,
    ObservationSpec,
    ObservationType,
    TerminalSteps,
)
from PIL import Image
from PIL.PngImagePlugin import PngImageFile
from wiremessages import agent, brain, compressed, decisions, message, picture, vector

CHANNELS_FIRST, CHANNELS_LAST = (1, 2, 2), (2, 2, 1)


@st.composite
def mapped_images(draw: Any) -> tuple[list[np.ndarray], tuple[int, ...], int]:
    """Files, which channel each of their planes counts towards, and how many channels there are."""
    height, width = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    kinds = draw(st.lists(st.sampled_from([(), (2,), (3,), (4,)]), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    files = [rng.integers(0, 256, (height, width, *kind), dtype=np.uint8) for kind in kinds]
    planes = sum(kind[0] if kind else 1 for kind in kinds)
    channels = draw(st.integers(len(files), planes))
    chosen = [*range(channels), *draw(st.lists(st.integers(-1, channels - 1), min_size=planes - channels))]
    return files, tuple(draw(st.permutations(chosen[:planes]))), channels


def plain_planes(files: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.atleast_3d(pixels).transpose(2, 0, 1) for pixels in files])


@settings(max_examples=80, deadline=None)
@given(mapped_images(), st.booleans())
def test_planes_count_towards_channels_as_the_mapping_says(drawn, last: bool) -> None:
    files, mapping, channels = drawn
    planes = plain_planes(files) / np.float32(255)
    expected = np.stack([planes[np.array(mapping) == k].mean(axis=0) for k in range(channels)])
    size = files[0].shape[:2]
    shape = (*size, channels) if last else (channels, *size)
    properties = CHANNELS_LAST if last else CHANNELS_FIRST
    data = message(agent(compressed(shape, files, mapping, properties)), brains=(brain(),))
    floats = decisions(Decoder(), data).obs[0]
    assert floats.dtype == np.float32
    np.testing.assert_allclose(floats[0], expected, rtol=1e-6)
    found = decisions(Decoder(images="uint8"), data).obs[0]
    averaged = any(mapping.count(k) > 1 for k in range(channels))
    assert found.dtype == (np.float32 if averaged else np.uint8)
    np.testing.assert_array_equal(as_floats(found), floats)


def test_without_a_mapping_the_first_channels_count() -> None:
    rng = np.random.default_rng(0)
    files = [rng.integers(0, 256, (4, 6, 3), dtype=np.uint8) for _ in range(3)]
    data = message(agent(compressed((7, 4, 6), files)), brains=(brain(),))
    found = decisions(Decoder(images="uint8"), data).obs[0]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found[0], plain_planes(files)[:7])


def test_a_gray_sensor_is_the_mean_of_the_colors_and_not_a_byte() -> None:
    colors = np.random.default_rng(1).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    for mapping in ((), (0, 0, 0)):
        data = message(agent(compressed((1, 4, 6), [colors], mapping)), brains=(brain(),))
        found = decisions(Decoder(images="uint8"), data).obs[0]
        assert found.dtype == np.float32
        np.testing.assert_allclose(found[0, 0], colors.mean(axis=2) / 255, rtol=1e-6)
    data = message(agent(compressed((1, 4, 6), [colors[..., 0]])), brains=(brain(),))
    assert decisions(Decoder(images="uint8"), data).obs[0].dtype == np.uint8


def test_agents_that_do_not_compress_are_kept_as_bytes_where_these_are_exact() -> None:
    pixels = np.arange(256, dtype=np.uint8)[: 3 * 4 * 6].reshape(4, 6, 3)
    raw = as_floats(pixels.transpose(2, 0, 1))
    decoder = Decoder("environment 2", images="uint8")
    one = compressed((3, 4, 6), [pixels], properties=CHANNELS_FIRST)
    other = picture((3, 4, 6), raw, CHANNELS_FIRST)
    found = decisions(decoder, message(agent(one), agent(other), brains=(brain(),))).obs[0]
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found[0], found[1])
    for wrong in (raw + 1e-4, raw - 1, np.full_like(raw, np.nan)):
        with pytest.raises(ObservationError, match=r"environment 2.*B\?team=0.*camera.*agent 5.*compression"):
            decoder.decode(message(agent(picture((3, 4, 6), wrong, CHANNELS_FIRST), id=5)))


def test_every_byte_survives_the_conversion_to_a_float() -> None:
    pixels = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(as_bytes(as_floats(pixels)), pixels)
    assert as_bytes(np.nextafter(as_floats(pixels), np.float32(2))) is None


def test_raw_images_whose_channels_change_between_steps_are_refused() -> None:
    decoder = Decoder("environment 1")
    raw = picture((3, 4, 6), np.zeros((3, 4, 6)), CHANNELS_FIRST)
    decoder.decode(message(agent(raw), brains=(brain(),)))
    for shape in ((4, 4, 6), (2, 4, 6), (6, 4, 3)):
        other = picture(shape, np.zeros(shape), CHANNELS_FIRST)
        with pytest.raises(ObservationError, match=rf"agent 3 does not fit.*\(3, 4, 6\).*{shape[0]}, 4, "):
            decoder.decode(message(agent(raw), agent(other, id=3)))


STACKED_GRAY = (0, 0, 0, 1, 1, 1, 2, 2, 2)
STACKED_GRID = (0, 1, 2, 3, 4, -1, 5, 6, 7, 8, 9, -1)
UNITYS = {
    "a camera": (3, 1, ()),
    "a gray camera": (1, 1, ()),
    "a camera, three frames": (9, 3, tuple(range(9))),
    "a gray camera, three frames": (3, 3, STACKED_GRAY),
    "a grid of one tag": (1, 1, ()),
    "a grid of two tags": (2, 1, ()),
    "a grid of five tags": (5, 2, ()),
    "a grid of eight tags": (8, 3, ()),
    "a grid of five tags, two frames": (10, 4, STACKED_GRID),
}
"""Channels, the PNG files that hold them, and the mapping, which stacks alone have."""


@pytest.mark.parametrize("kind", UNITYS)
@pytest.mark.parametrize("last", [False, True], ids=["channels first", "channels last"])
def test_what_unitys_sensors_send_is_read_as_ml_agents_reads_it(kind: str, last: bool) -> None:
    """And kept as bytes wherever no channel is a mean."""
    channels, count, mapping = UNITYS[kind]
    size, random = (5, 7), np.random.default_rng(3)
    shape, properties = ((*size, channels), CHANNELS_LAST) if last else ((channels, *size), CHANNELS_FIRST)
    decoders = {images: Decoder(images=images) for images in ("float32", "uint8")}
    for step in range(3):
        files = [random.integers(0, 256, (*size, 3), dtype=np.uint8) for _ in range(count)]
        planes = plain_planes(files) / np.float32(255)
        if mapping:
            expected = np.stack([planes[np.array(mapping) == k].mean(axis=0) for k in range(channels)])
        else:
            expected = planes[:3].mean(axis=0, keepdims=True) if channels == 1 else planes[:channels]
        sent = agent(compressed(shape, files, mapping, properties))
        data = message(sent, brains=(brain(),) * (step == 0))
        found = {images: decisions(decoder, data).obs[0] for images, decoder in decoders.items()}
        np.testing.assert_allclose(found["float32"][0], expected, rtol=1e-6)
        gray = channels == 1 or mapping == STACKED_GRAY
        assert found["uint8"].dtype == (np.float32 if gray else np.uint8)
        np.testing.assert_array_equal(as_floats(found["uint8"]), found["float32"])


def bomb(*sizes: tuple[int, int]) -> bytes:
    """A gray PNG with a header of each size."""
    heads = [b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0) for height, width in sizes]
    parts = [*heads, b"IDAT" + zlib.compress(bytes(1 << 20)), b"IEND"]
    chunks = [struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def never_inflated(image: Any) -> None:
    raise AssertionError("a picture was inflated")


@pytest.mark.parametrize(
    ("shape", "first", "then"),
    [
        ((1, 16384, 16384), bomb((16384, 16384)), b""),
        ((1, 64, 84), b"", bomb((64, 84), (8000, 8000))),
        ((1, 64, 84), b"", bomb((8000, 8000))),
    ],
    ids=["announced itself", "a second header", "another size"],
)
def test_no_picture_is_inflated_that_is_larger_than_announced(monkeypatch, shape, first, then) -> None:
    decoder = Decoder("environment 1")
    size = (64, 84) if then else (1, 1)
    one = compressed(shape, [np.zeros(size, np.uint8)], properties=CHANNELS_FIRST)
    if first:
        one.compressed_data = first
    else:
        decoder.decode(message(agent(one), brains=(brain(),)))
        one.compressed_data = then
    monkeypatch.setattr(PngImageFile, "load", never_inflated)
    with pytest.raises(ObservationError, match=r"environment 1.*(shape|second header)"):
        decoder.decode(message(agent(one), brains=(brain(),) if first else ()))


@pytest.mark.parametrize("mapping", [(), (0, 0, 0, -1), (0,) * 64], ids=len)
def test_more_pictures_than_channels_count_as_in_ml_agents(mapping: tuple[int, ...]) -> None:
    """The mapping says for each plane where it counts; without it, one channel is the first file's mean."""
    rng = np.random.default_rng(0)
    files = [rng.integers(0, 256, (4, 6), dtype=np.uint8) for _ in mapping or range(3)]
    data = message(agent(compressed((1, 4, 6), files, mapping)), brains=(brain(),))
    planes = plain_planes(files) / np.float32(255)
    expected = planes[np.array(mapping) == 0].mean(axis=0) if mapping else planes[0]
    np.testing.assert_allclose(decisions(Decoder(), data).obs[0][0, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(("mapping", "most"), [((), 1), ((0,) * 20, 21), ((0,) * 10_000, 3120)])
def test_few_pictures_are_inflated_of_very_many(monkeypatch, mapping: tuple[int, ...], most: int) -> None:
    """A picture may be a few bytes; those that no channel needs are not inflated, nor are gigabytes."""
    inflated = []
    one = compressed((1, 64, 84), [np.zeros((64, 84), np.uint8)], mapping, CHANNELS_FIRST)
    one.compressed_data *= 10_000
    monkeypatch.setattr(
        images, "read_png", lambda png: inflated.append(png) or np.zeros((1, 64, 84), np.uint8)
    )
    monkeypatch.setattr(images.ImageCache, "read", lambda cache, png: images.read_png(png))
    data = message(agent(one), brains=(brain(),))
    if mapping:
        with pytest.raises(ObservationError, match="channel mapping"):
            Decoder().decode(data)
    else:
        Decoder().decode(data)
    assert len(inflated) == most


def test_many_agents_with_few_bytes_claim_no_gigabytes() -> None:
    decoder = Decoder("environment 1")
    one = compressed((1, 2000, 2000), [np.zeros((2000, 2000), np.uint8)], properties=CHANNELS_FIRST)
    decoder.decode(message(agent(one), brains=(brain(),)))
    with pytest.raises(ObservationError, match=r"environment 1.*100000 agents in .* bytes announce"):
        decoder.decode(message(*[agent()] * 100_000))


def camera(value: int, size: tuple[int, int] = (64, 84)) -> Any:
    return compressed((3, *size), [np.full((*size, 3), value, np.uint8)], properties=CHANNELS_FIRST)


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda data: data[: len(data) // 2], "cannot be decoded"),
        (lambda data: data[:60] + bytes(40) + data[100:], "cannot be decoded"),
        (lambda data: data[:29] + bytes(4) + data[33:], "cannot be decoded: its first parts are damaged"),
        (lambda data: b"no picture", "no PNG"),
        (lambda data: b"", "no PNG"),
    ],
)
@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_a_damaged_image_is_an_error_that_names_environment_behavior_sensor_and_agent(
    kind, damage, cause
) -> None:
    decoder = Decoder("environment 4", images=kind)
    decoder.decode(message(agent(camera(1)), brains=(brain(),)))
    noise = np.random.default_rng(2).integers(0, 256, (64, 84, 3), dtype=np.uint8)
    broken = compressed((3, 64, 84), [noise], properties=CHANNELS_FIRST)
    broken.compressed_data = damage(broken.compressed_data)
    data = message(*[agent(camera(row), id=row) for row in range(6)], agent(broken, id=17))
    with pytest.raises(ObservationError, match=rf"environment 4.*'B\?team=0'.*'camera'.*agent 17.*{cause}"):
        decoder.decode(data)
    found = decisions(decoder, message(agent(camera(8))))
    assert as_floats(found.obs[0][0, 0, 0, :1]) == np.float32(8) / np.float32(255)


def image_of(*shape: int, **options: Any) -> Any:
    return compressed(shape, [np.zeros((64, 84, 3), np.uint8)], properties=CHANNELS_FIRST, **options)


@pytest.mark.parametrize(
    "changed",
    [
        compressed((3, 32, 84), [np.zeros((32, 84, 3), np.uint8)], properties=CHANNELS_FIRST),
        image_of(1, 64, 84),
        compressed((3, 64, 84), [np.zeros((32, 84, 3), np.uint8)], properties=CHANNELS_FIRST),
        compressed((3, 64, 84), [np.zeros((64, 84), np.uint8)], properties=CHANNELS_FIRST),
        image_of(3, 64, 84, mapping=(0, 1, 2, 3)),
        image_of(3, 64, 84, mapping=(0, 1, 1)),
        compressed((4, 64, 84), [np.zeros((64, 84, 3), np.uint8)] * 2, properties=CHANNELS_FIRST),
        picture((4, 64, 84), np.zeros((4, 64, 84)), CHANNELS_FIRST),
        picture((84, 64, 3), np.zeros((84, 64, 3)), CHANNELS_FIRST),
    ],
    ids=[
        *["height", "channels", "file's size", "file's channels", "mapping's length", "mapping's channels"],
        *["one more file", "channels of floats", "as many floats"],
    ],
)
def test_sizes_and_channels_that_change_between_steps_are_refused(changed: Any) -> None:
    decoder = Decoder("environment 1", images="uint8")
    decoder.decode(message(agent(camera(1)), brains=(brain(),)))
    with pytest.raises(ObservationError, match=r"environment 1.*'B\?team=0'.*'camera'.*agent 3"):
        decoder.decode(message(agent(changed, id=3)))


def test_a_mean_that_is_not_a_whole_number_is_refused_where_bytes_are_kept() -> None:
    decoder = Decoder(images="uint8")
    gray = np.zeros((64, 84), np.uint8)
    first = compressed((1, 64, 84), [gray], properties=CHANNELS_FIRST)
    decoder.decode(message(agent(first), brains=(brain(),)))
    same = compressed((1, 64, 84), [np.full((64, 84, 3), 9, np.uint8)], properties=CHANNELS_FIRST)
    assert (decisions(decoder, message(agent(same))).obs[0] == 9).all()
    colors = np.zeros((64, 84, 3), np.uint8)
    colors[0, 0, 0] = 1
    other = compressed((1, 64, 84), [colors], properties=CHANNELS_FIRST)
    with pytest.raises(ObservationError, match="no whole number"):
        decoder.decode(message(agent(other)))


def test_equal_files_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images that several agents see, and the older frames of stacked sensors."""
    decoded: list[bytes] = []
    read = images.read_png
    monkeypatch.setattr(images, "read_png", lambda png: decoded.append(png) or read(png))
    frames = [np.full((4, 6, 3), value, np.uint8) for value in range(40)]
    decoder = Decoder(images="uint8")
    for step in range(30):
        stack = compressed((9, 4, 6), frames[step : step + 3])
        found = decisions(decoder, message(agent(stack), agent(stack, id=1), brains=(brain(),) * (step == 0)))
        np.testing.assert_array_equal(found.obs[0][1, :, 0, 0], np.repeat(np.arange(step, step + 3), 3))
    assert len(decoded) == 32


def test_images_are_decoded_while_the_calling_thread_does_something_else(monkeypatch) -> None:
    monkeypatch.setattr(images, "_threads", lambda: 2)
    begun, go_on, done = threading.Event(), threading.Event(), threading.Event()
    main, read = threading.get_ident(), images.read_png

    def slow(png: bytes) -> np.ndarray:
        assert threading.get_ident() != main
        begun.set()
        assert go_on.wait(10)
        return read(png)

    decoder = Decoder(images="uint8")
    decoder.decode(message(agent(camera(0), vector(0)), brains=(brain(),)))
    monkeypatch.setattr(images, "read_png", slow)
    agents = [agent(camera(row), vector(row), id=row, done=row % 2 == 1) for row in range(1, 5)]
    underway = decoder.start(message(*agents), done.set)
    assert begun.wait(10)
    assert not underway.done and not done.is_set()
    go_on.set()
    assert done.wait(10)
    assert underway.done
    steps = underway.result().steps
    assert steps is not None
    asking, ended = steps["B?team=0"]
    assert asking.obs[0][:, 0, 0, 0].tolist() == [2, 4]
    assert ended.obs[0][:, 2, 63, 83].tolist() == [1, 3]


def test_small_images_are_decoded_without_threads() -> None:
    decoder = Decoder()
    small = compressed((3, 4, 6), [np.zeros((4, 6, 3), np.uint8)])
    underway = decoder.start(message(agent(small), brains=(brain(),)), pytest.fail)
    assert underway.done
    assert underway.result().steps is not None


def test_gray_pictures_of_16_bits_keep_their_upper_ones():
    data = io.BytesIO()
    Image.fromarray(np.array([[42609, 22564, 300]], np.uint16)).save(data, "PNG")
    assert read_png(data.getvalue()).tolist() == [[[166, 88, 1]]] * 3


def test_a_single_number_without_a_shape_comes_beside_pictures():
    """Agents are read one by one then."""
    across = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
    camera = ObservationSpec(
        (3, 4, 4), (DimensionProperty.NONE, across, across), ObservationType.DEFAULT, "cam"
    )
    spec = BehaviorSpec([camera, ObservationSpec((), (), ObservationType.DEFAULT, "n")], ActionSpec(1, ()))
    zeros, ids = np.zeros(2, np.float32), np.arange(2, dtype=np.int32)
    obs = [np.zeros((2, 3, 4, 4), np.uint8), np.array([0.25, 0.5], np.float32)]
    steps = DecisionSteps(obs, zeros, ids, None, ids * 0, zeros)
    sent = StepEncoder({"A?team=0": spec}).encode({"A?team=0": batch(steps, TerminalSteps.empty(spec), spec)})
    decided, _ = Decoder().decode(sent).steps["A?team=0"]
    assert decided.obs[1].tolist() == [0.25, 0.5]
