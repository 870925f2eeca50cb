"""On terminals of usual widths no line is broken within a word, and no table within a row."""

import io
import re
from contextlib import redirect_stdout

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.settings.presets import scene_preset
from lanista.trainers.utils.text import wrapped
from made_runs import make_run


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(params=[80, 100])
def width(request, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def said(*words):
    with redirect_stdout(Terminal()) as terminal:
        run(list(words))
    return terminal.getvalue().splitlines()


def test_runs_with_long_names_take_two_lines_each(width, tmp_path):
    name = "a-run-whose-name-is-as-long-as-those-of-people-who-tune"
    make_run(tmp_path, name, rewards=(-1234.5678, 2345.6789))
    make_run(tmp_path, "short")
    lines = said("runs", str(tmp_path), "--sort", "name")
    assert max(map(len, lines)) <= width
    assert lines[0] == "run  environment"
    assert lines[2] == f"{name}  scene:<b>" and lines[3].startswith("  unfinished  ppo  ")
    figures = [re.search(r"200 .*$", line) for line in lines[3::2]]
    assert all(figures) and len({len(line) for line in lines[3::2]}) == 1


def test_runs_with_short_names_take_one(width, tmp_path):
    make_run(tmp_path, "short")
    head, line = said("runs", str(tmp_path))
    assert head.startswith("run    state") and line.startswith("short  unfinished") and len(line) <= width


def test_scenes_are_broken_between_words_and_their_commands_nowhere(width):
    lines = said("scenes")
    commands = [line.strip() for line in lines if line.startswith("    ")]
    assert scene_preset("soccer-twos").command() in commands
    assert all(len(line) <= width for line in lines if not line.startswith("    "))


@pytest.mark.slow
def test_the_doctor_indents_what_does_not_fit(width):
    lines = said("doctor", "--no-training")
    packages = next(number for number, line in enumerate(lines) if " packages " in line)
    assert lines[packages].startswith("ok ") and lines[packages + 1].startswith(" " * 21)
    assert all(len(line) <= width for line in lines if " " in line.strip())


def test_in_a_file_a_paragraph_is_one_line():
    with redirect_stdout(io.StringIO()):
        assert wrapped("word " * 100, "  ") == "word " * 100
