"""Of the logs in tests/engine_logs every fault is named with its place, and nothing of good runs."""

import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.engines.engine_errors import EngineError
from lanista.envs.engines.error_forms import FoundError, reader_of
from lanista.envs.engines.line_scanner import LineScanner, clean

LOGS = Path(__file__).parents[2] / "engine_logs"
FAULTS = yaml.safe_load((LOGS / "faults.yaml").read_text("utf-8"))
ENGINES = ["Unity", "Godot", "Unreal", "Python"]
GOOD = [(engine, path) for engine in ENGINES for path in sorted((LOGS / engine.lower() / "good").iterdir())]
WARNINGS = {
    ("addon-warning", "Lanista: "),
    ("parse-error-4.6", "Lanista: "),
    ("number-of-observations", "Fewer obs"),
}
CASES = [(engine, name, found) for engine in ENGINES for name, found in FAULTS[engine.lower()].items()]


def errors_in(engine: str, data: bytes) -> list[FoundError]:
    scanner = LineScanner(reader_of(engine))
    return scanner.feed(data) + scanner.finish()


def read(engine: str, name: str) -> bytes:
    return (LOGS / engine.lower() / "faults" / f"{name}.log").read_bytes()


@pytest.mark.parametrize(("engine", "path"), GOOD, ids=lambda value: getattr(value, "stem", value))
def test_what_an_engine_prints_in_a_good_run_is_not_told(engine, path):
    assert errors_in(engine, path.read_bytes()) == []


@pytest.mark.parametrize(("engine", "name", "expected"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_a_fault_is_told_with_its_sentence_and_its_place(engine, name, expected):
    found = Counter(errors_in(engine, read(engine, name)))
    assert [(times, place) for times, place, _ in expected] == [(n, one.place) for one, n in found.items()]
    for (_, _, sentence), one in zip(expected, found):
        assert one.text.startswith(sentence) and one.text.isprintable()
        assert one.is_warning == ((name, one.text[:9]) in WARNINGS)


@pytest.mark.parametrize("engine", ENGINES)
def test_there_are_twenty_faults_and_ten_good_runs_of_each_engine(engine):
    faults = {path.stem for path in (LOGS / engine.lower() / "faults").iterdir()}
    assert faults == set(FAULTS[engine.lower()]) and len(faults) >= 20
    assert len([path for each, path in GOOD if each == engine]) >= 10


@pytest.mark.parametrize("engine", ["Unity", "Godot", "Unreal"])
def test_the_page_on_faults_of_scripts_quotes_what_is_told(engine):
    page = (Path(__file__).parents[3] / "docs" / "troubleshooting.md").read_text("utf-8")
    table = page.partition("## Faults of a game's scripts")[2].partition("\n## ")[0]
    found = [one for name in FAULTS[engine.lower()] for one in errors_in(engine, read(engine, name))]
    told = [str(EngineError(engine, "environment 0", one.text, one.place)) for one in found]
    rows = re.findall(rf"^\| {engine}: .* \| (`.*) \|$", table, re.MULTILINE)
    quoted = [quote for row in rows for quote in re.findall("`([^`]+)`", row)]
    assert len(quoted) >= 4
    for quote in quoted:
        pattern = ".*".join(re.escape(piece.strip()) for piece in quote.split("..."))
        assert any(re.search(pattern, each) for each in told), quote


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_split_of_the_bytes_gives_the_same_errors(data):
    engine, name, _ = data.draw(st.sampled_from(CASES))
    log = read(engine, name)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(log)), max_size=12)))
    scanner, found = LineScanner(reader_of(engine)), []
    for start, end in zip([0, *cuts], [*cuts, len(log)]):
        found += scanner.feed(log[start:end])
    assert found + scanner.finish() == errors_in(engine, log)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_an_error_that_repeats_itself_counts_as_often_as_line_by_line(data):
    engine = data.draw(st.sampled_from(ENGINES))
    parts = data.draw(st.lists(st.sampled_from(list(FAULTS[engine.lower()])), min_size=1, max_size=3))
    times = data.draw(st.lists(st.integers(1, 5), min_size=len(parts), max_size=len(parts)))
    log = b"".join(read(engine, name) * n for name, n in zip(parts, times)) * data.draw(st.integers(1, 4))
    log = log[data.draw(st.integers(0, 300)) :]
    reader, found = reader_of(engine), []
    for line in log.split(b"\n"):
        found += reader.read(clean(line))
    assert errors_in(engine, log) == found + reader.finish()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(ENGINES), st.binary(max_size=2000))
def test_no_bytes_break_a_reader_and_what_is_told_can_be_shown(engine, data):
    for start in (b"", b"SCRIPT ERROR: ", b"XException: ", b"LogX: Error: ", b"ERROR:x:"):
        for error in errors_in(engine, start + data + b"\n" + data):
            assert error.text.isprintable() and error.place.isprintable()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_errors_of_all_engines_survive_noise_between_whole_logs(data):
    """What one run leaves open does not hide the next fault."""
    engine = data.draw(st.sampled_from(ENGINES))
    names = data.draw(st.lists(st.sampled_from(list(FAULTS[engine.lower()])), min_size=2, max_size=4))
    noise = data.draw(st.sampled_from([path for each, path in GOOD if each == engine])).read_bytes()
    found = errors_in(engine, noise.join(b"\n" + read(engine, name) + b"\n" for name in names))
    places = {place for name in names for _, place, _ in FAULTS[engine.lower()][name]}
    assert places <= {one.place for one in found}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"\x1b[1;31mERROR:\x1b[0;91m text\x1b[0m", "ERROR: text"),
        (b" 10%\r 50%\rTraceback (most recent call last):\r", "Traceback (most recent call last):"),
        (b"\x00\x00ab\xff\x07\xe2\x80\xaec", "ab\ufffdc"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
    ],
)
def test_a_line_is_shown_without_what_a_terminal_acts_on(line, shown):
    assert clean(line) == shown


LONG_LINES = [
    ("Unity", "  at ", "()"),
    ("Unity", "  at A.B ", ") in a:1"),
    ("Unity", "[0", ".0"),
    ("Unity", "A:B(", ") (at a:1"),
    ("Unity", "  at A.B () [0x0] in ", "/x\\\\y:1"),
    ("Godot", "ERROR: a", " res://"),
    ("Godot", "  at ", "a (b) in c"),
    ("Unreal", "LogWindows: Error: ", " "),
    ("Unreal", "LogWindows: Error: ", "[File:a] [Line: "),
    ("Unreal", "LogScript: Error: ", " in [/Game/"),
    ("Unreal", "LogWindows: Error: [Callstack] 0x1 a", " [b:1"),
    ("Python", "ERROR:", "a - "),
]
"""Lines as engines write in which patterns could try every place with every other."""


@pytest.mark.parametrize(("engine", "start", "part"), LONG_LINES)
def test_the_time_that_a_line_takes_grows_with_its_length_only(engine, start, part):
    """Python does nothing else while a pattern is tried: the trainer would stand still."""
    reader = reader_of(engine)
    openings = {"Unity": "AException: b", "Godot": "SCRIPT ERROR: a", "Unreal": "LogCore: Error: a"}
    opening = openings.get(engine, "Traceback (most recent call last):")

    def seconds(length: int) -> float:
        took = []
        for number in range(5):
            line = (start + part * length)[:length] + f"{number}{length}!"
            reader.finish()
            reader.read(opening)
            began = time.thread_time()
            reader.read(line)
            took.append(time.thread_time() - began)
        return min(took)

    shortest = 1 / 64 if os.name == "nt" else 0.0  # Windows counts the time of threads in ticks
    assert seconds(32_000) < 100 * max(seconds(2_000), shortest), (
        "16 times as long took much more than 16 times as much"
    )


def test_a_line_without_an_end_takes_no_memory():
    scanner = LineScanner(reader_of("Godot"))
    for _ in range(100):
        assert scanner.feed(b"x" * 65536) == []
    assert len(scanner._partial) < 65536
    found = (
        scanner.feed(b"\nSCRIPT ERROR: " + b"y" * 100_000 + b"\n   at: f (res://a.gd:1)\n") + scanner.finish()
    )
    assert [(len(one.text) < 1000, one.place) for one in found] == [(True, "res://a.gd:1")]


def test_a_place_that_the_sentence_names_itself_is_not_repeated():
    """As in those of Lanista's addon: they name the agent's script."""
    sentence = "Lanista: Walker0 does not override set_action() (res://walker.gd)"
    reader = reader_of("Godot")
    found = reader.read(f"ERROR: {sentence}") + reader.finish()
    (error,) = (EngineError("Godot", "environment 0", one.text, one.place) for one in found)
    assert error.place == "res://walker.gd" and str(error) == sentence


def test_a_long_place_is_cut_where_the_file_and_the_line_remain():
    log = b"AException: b\n  at A.B () [0x1] in /" + b"x" * 2000 + b"/A.cs:7 \n"
    (error,) = errors_in("Unity", log)
    assert len(error.place) < 600 and error.place.endswith("x/A.cs:7")
