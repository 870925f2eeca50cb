"""Messages appear once, as lines that tools can read."""

import io
import logging
import re

import pytest
from lanista.trainers.utils.logging import PACKAGE, configure_logging


@pytest.fixture(autouse=True)
def restored():
    logger = logging.getLogger(PACKAGE)
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before[0], before[1], before[2]


def test_a_message_is_one_line_with_its_level_however_often_logging_is_set_up(capsys):
    for _ in range(3):
        configure_logging()
    logging.getLogger("lanista.trainers.somewhere").info("Exported %s", "a.onnx")
    logging.getLogger("lanista.trainers.somewhere").debug("not this")
    assert capsys.readouterr().out == "[INFO] Exported a.onnx\n"


def test_debug_messages_tell_when_and_where(capsys):
    configure_logging(debug=True)
    logging.getLogger("lanista.envs").debug("seed 7")
    assert re.fullmatch(
        r"[0-9-]{10} [0-9:]{8} DEBUG \[test_logging\.py:[0-9]+\] seed 7\n", capsys.readouterr().out
    )


def test_a_reader_that_went_away_is_no_error(monkeypatch, capsys):
    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    configure_logging()
    monkeypatch.setattr("sys.stdout", Closed())
    logging.getLogger("lanista.envs").info("nobody reads this")
    assert capsys.readouterr().err == ""
