"""Messages appear once, as lines that tools can read."""

import io
import logging
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.demonstrations.recorder import DemonstrationWriter
from lanista.envs.protocol.engine import AgentBatch
from lanista.trainers.cli.main import run
from lanista.trainers.stats.progress import BehaviorProgress
from lanista.trainers.stats.rich_display import draw
from lanista.trainers.utils.logging import PACKAGE, configure_logging, plain, print_error, warnings_kept
from mlagents_envs.base_env import ActionTuple
from rich.console import Console
from specs import vector_spec


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


FORGED = "Ball\r[INFO] all is well\n[ERROR] forged\x1b]0;title\x07\x1b[2J\x9b31m\u202e"


def test_names_forge_no_lines_and_no_escape_sequences(capsys):
    configure_logging()
    logging.getLogger("lanista.envs").warning("Behavior %s: %s", FORGED, "Bär 球 é\tz")
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].startswith("[WARNING] Behavior Ball\\r[INFO] all")
    assert (
        not re.search(r"^\[ERROR", printed, re.M)
        and "\n  [ERROR] forged\\x1b]0;title\\x07\\x1b[2J" in printed
    )
    assert not set(printed) & set("\r\x1b\x07\x9b\u202e") and "Bär 球 é\tz" in printed


@settings(deadline=None)
@given(st.text())
def test_nothing_but_tabs_and_newlines_controls_the_terminal(text):
    shown = plain(text)
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c not in "\t\n"]
    assert not re.search(r"\n\S", shown)


def test_errors_and_the_live_display_show_no_escape_sequences(capsys):
    print_error("lanista play", FORGED)
    assert "\n  [ERROR] forged\\x1b" in capsys.readouterr().err
    screen = Console(file=io.StringIO(), width=100, force_terminal=False)
    screen.print(draw("run", "learning", [BehaviorProgress(FORGED)], 0.0, 100, 40))
    assert "\x1b" not in screen.file.getvalue() and "\r" not in screen.file.getvalue()


def test_a_demonstration_s_names_are_shown_without_escape_sequences(tmp_path, capsys):
    spec = vector_spec([1], continuous=1)
    with DemonstrationWriter(tmp_path / "a.demo", FORGED, spec) as writer:
        row = np.zeros(1, np.float32)
        ids = np.zeros(1, np.int32)
        batch = AgentBatch([row[:, None]], row, row > 1, row > 1, ids, ids, row, None)
        writer.write(batch, ActionTuple(row[:, None]))
    assert run(["demo", "show", str(tmp_path / "a.demo")]) == 0
    printed = capsys.readouterr().out
    assert "Ball\\r[INFO]" in printed and not set(printed) & set("\r\x1b\x07\x9b\u202e")


def test_warnings_are_kept_in_a_file_that_the_first_of_them_makes(tmp_path):
    path = tmp_path / "warnings.log"
    logger = configure_logging()
    with warnings_kept(path):
        logger.info("all is well")
        assert not path.exists()
        logger.getChild("engines").warning("engine 3 \x1b was restarted")
    logger.warning("later")
    (line,) = path.read_text().splitlines()
    assert line.endswith("WARNING engine 3 \\x1b was restarted")
    with warnings_kept(tmp_path / "absent" / "warnings.log"):
        logger.warning("a full disk is no reason to end a run")
