"""Images of bytes become the floats of a float32 image."""

import numpy as np
import torch
from lanista.trainers.networks.observations import as_float


def test_every_byte_becomes_the_float_of_the_reference() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    found = as_float(torch.from_numpy(pixels)).numpy()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, pixels / np.float32(255))


def test_the_bytes_stay_bytes() -> None:
    pixels = torch.full((2, 3, 4, 5), 200, dtype=torch.uint8)
    as_float(pixels)
    assert pixels.dtype == torch.uint8 and bool((pixels == 200).all())


def test_floats_are_passed_on() -> None:
    picture = torch.rand(1, 3, 4, 5)
    assert as_float(picture) is picture
