"""Configurations that were cut or altered: read as what they say, or refused by name; never a traceback.

YAML has no end mark, so that a file cut at the end of a line may be another, valid one. Checkpoints and the
status file, of which every truncation is refused, are in tests/trainers: test_checkpoints.py and
test_training_status.py.
"""

import logging
from pathlib import Path

import pytest
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions

pytestmark = pytest.mark.slow

WHOLE = Path(__file__).parents[2] / "config" / "ppo" / "basic.yaml"


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("lanista").setLevel(logging.ERROR)
    yield
    logging.getLogger("lanista").setLevel(logging.NOTSET)


def read(path, data):
    """What a damaged file is read as; None where it is refused, which is to name it."""
    path.write_bytes(data)
    try:
        return RunOptions.from_file(path)
    except TrainerConfigError as error:
        assert str(path) in str(error), f"{data[-30:]!r}: {error}"
        return None


def test_a_configuration_cut_at_any_byte_is_refused_or_read(tmp_path):
    data = WHOLE.read_bytes()
    refused = sum(read(tmp_path / "c.yaml", data[:length]) is None for length in range(len(data)))
    assert refused > len(data) / 10


@pytest.mark.parametrize("bit", [0, 4, 7])
def test_a_configuration_with_a_flipped_bit_is_refused_or_read(tmp_path, bit):
    data = WHOLE.read_bytes()
    begin = data.index(b"behaviors")
    refused = 0
    for position in range(begin, len(data), 5):
        damaged = bytearray(data)
        damaged[position] ^= 1 << bit
        refused += read(tmp_path / "c.yaml", bytes(damaged)) is None
    assert refused > (len(data) - begin) / 5 / 3
