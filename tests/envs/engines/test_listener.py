"""Errors that engines print are told while they run, once, with their place, however the log is written."""

import logging
import multiprocessing
import os
import textwrap
import threading
import time
from pathlib import Path

import pytest
from console_runs import until
from lanista.envs.engines import listener as module
from lanista.envs.engines.engine_errors import EngineError, EngineErrors, ErrorPolicy, summary
from lanista.envs.engines.listener import EngineListener
from lanista.envs.engines.options import EngineOptions
from lanista.envs.unity.environment import UnityEnvironment
from mlagents_envs.exception import UnityEnvironmentException, UnityTimeOutException
from script_programs import CRASH
from scripted_engine import executable

THROWN = b"NullReferenceException: no target\n  at Agent.Act () [0x00001] in /x/Assets/Agent.cs:%d \n\n"
TOLD = "NullReferenceException: no target (Assets/Agent.cs:%d)"


def listening(log: Path | None, engine: str = "Unity") -> tuple[EngineListener, EngineErrors]:
    """A listener that reads when a test says so."""
    errors = EngineErrors()
    return EngineListener(errors, "environment 0", engine, log), errors


def told(errors: EngineErrors) -> list[tuple[int, str]]:
    return [(each.count, str(each.first)) for each in errors.counts()]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_an_error_is_told_as_the_log_grows_and_repetitions_are_counted(tmp_path, caplog):
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    listener.poll()
    report = THROWN % 7
    for cut in (3, 40, len(report)):
        log.write_bytes(report[:cut])
        listener.poll()
    append(log, report * 9)
    listener.poll()
    assert told(errors) == [(10, TOLD % 7)] and [str(error) for error in errors.take_new()] == [TOLD % 7]
    said = f"environment 0 (Unity) has printed an error: {TOLD % 7}. Its log: {log}"
    assert [record.message for record in caplog.records] == [said]
    assert errors.of_environment("environment 0") == errors.total == 10


def test_an_error_whose_place_does_not_come_is_told_after_a_while(tmp_path):
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    log.write_bytes(b"NullReferenceException: no target\n")
    listener.poll()
    assert told(errors) == []
    listener.poll()
    listener.poll()
    assert told(errors) == [(1, "NullReferenceException: no target")]


def test_half_a_line_that_may_tell_the_place_is_waited_for_but_not_for_ever(tmp_path):
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    report = THROWN % 7
    for part in (report[:50], report[50:], report[:50]):
        append(log, part)
        for _ in range(5):
            listener.poll()
    assert told(errors) == [(1, TOLD % 7)]
    append(log, report[50:] + b"KeyNotFoundException: no ball\n" + b"half a line that nobody ends")
    for _ in range(20):
        listener.poll()
    assert told(errors) == [(2, TOLD % 7), (1, "KeyNotFoundException: no ball")]


@pytest.mark.parametrize("repeats", [False, True])
def test_what_stands_in_the_output_and_in_the_log_counts_once(tmp_path, repeats):
    log = tmp_path / "Player-0.log"
    errors = EngineErrors()
    listener = EngineListener(errors, "environment 0", "Godot", log, repeats=repeats)
    report = b"SCRIPT ERROR: no target\n   at: act (res://agent.gd:7)\n"
    listener.hear(report * 3)
    listener.poll()
    log.write_bytes(report * 4)
    listener.hear(report * 2)
    listener.poll()
    listener.hear(b"ERROR: only here\n   at: push_error (core/variant/variant_utility.cpp:1)\n")
    listener.close()
    assert told(errors) == [(5, "no target (res://agent.gd:7)"), (1, "only here")]


def test_a_log_that_repeats_the_output_is_read_where_the_output_is_silent(tmp_path):
    errors = EngineErrors()
    listener = EngineListener(errors, "environment 0", "Godot", tmp_path / "log", repeats=True)
    (tmp_path / "log").write_bytes(b"SCRIPT ERROR: no target\n   at: act (res://agent.gd:7)\n")
    listener.close()
    assert told(errors) == [(1, "no target (res://agent.gd:7)")]


def test_an_error_that_is_cut_off_at_the_end_is_of_the_kind_that_it_was_before(tmp_path):
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    log.write_bytes(THROWN % 7 * 2 + b"NullReferenceException: no target\n  at Age")
    listener.close()
    assert told(errors) == [(3, TOLD % 7)]


def replaced(log: Path) -> None:
    log.rename(log.with_suffix(".old"))
    log.write_bytes(THROWN % 2)


def emptied(log: Path) -> None:
    log.write_bytes(THROWN % 2)


def emptied_and_grown(log: Path) -> None:
    log.write_bytes(b"Another start\n" * 100 + THROWN % 2)


def removed(log: Path) -> None:
    log.unlink()


@pytest.mark.parametrize("change", [replaced, emptied, emptied_and_grown])
def test_a_log_that_is_replaced_or_emptied_is_read_from_its_beginning(tmp_path, change):
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    log.write_bytes(b"Loaded\n" * 20 + THROWN % 1)
    listener.poll()
    change(log)
    listener.poll()
    listener.close()
    assert told(errors) == [(1, TOLD % 1), (1, TOLD % 2)]


@pytest.mark.parametrize("change", [replaced, emptied, emptied_and_grown, removed])
def test_what_the_last_run_left_in_a_log_is_not_told(tmp_path, change):
    log = tmp_path / "mine.log"
    log.write_bytes(b"Loaded\n" * 20 + THROWN % 1)
    listener, errors = listening(log)
    listener.poll()
    change(log)
    append(log, THROWN % 3)
    listener.close()
    assert TOLD % 1 not in summary(errors) and (1, TOLD % 3) in told(errors)


@pytest.mark.posix("named pipes")
@pytest.mark.parametrize("make", [Path.mkdir, lambda path: os.mkfifo(path)], ids=["folder", "pipe"])
def test_what_is_no_file_is_said_once_and_not_waited_for(tmp_path, caplog, make):
    log = tmp_path / "Player-0.log"
    make(log)
    listener, errors = listening(log)
    for _ in range(3):
        listener.poll()
    listener.hear(THROWN % 7)
    listener.close()
    assert caplog.text.count("cannot be read") == 1 and f"its log {log} cannot be read (" in caplog.text
    assert told(errors) == [(1, TOLD % 7)], "the output is heard all the same"


@pytest.mark.posix("symbolic links")
def test_a_log_behind_a_link_is_read(tmp_path):
    (tmp_path / "log").symlink_to(tmp_path / "file")
    listener, errors = listening(tmp_path / "log")
    (tmp_path / "file").write_bytes(THROWN % 7)
    listener.close()
    assert told(errors) == [(1, TOLD % 7)]


def test_of_a_flood_the_beginning_and_the_end_are_read_and_the_rest_is_said(tmp_path, caplog):
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    log.write_bytes(THROWN % 1 + THROWN % 2 * 100_000 + THROWN % 3)
    listener.poll()
    listener.poll()
    listener.close()
    counts = {text: count for count, text in told(errors)}
    assert counts == {TOLD % 1: 1, TOLD % 2: counts[TOLD % 2], TOLD % 3: 1}
    assert 1000 < counts[TOLD % 2] < 20_000
    assert not errors.is_complete and f"at least {errors.total:,} errors" in summary(errors)
    assert caplog.text.count("environment 0 prints more than is looked through") == 1


def test_a_flood_in_the_output_takes_no_memory():
    listener, errors = listening(None)
    for _ in range(1000):
        listener.hear(THROWN % 2 * 700)
    assert len(listener._heard) <= 1 << 20
    listener.close()
    assert [text for _, text in told(errors)] == [TOLD % 2] and not errors.is_complete


def test_errors_of_any_number_of_kinds_are_all_counted_once_and_take_no_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_KINDS", 200)
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    names = [bytes(map(ord, f"{number:b}".translate(str.maketrans("01", "ab")))) for number in range(3000)]
    report = b"".join((THROWN % 7).replace(b"no target", name) for name in names)
    listener.hear(report)
    log.write_bytes(report * 2)
    listener.close()
    assert errors.total == 2 * 3000
    kept = (listener._counts, listener._first, listener._placed, listener._of_output, listener._of_log)
    assert max(map(len, kept)) <= 201


def test_a_log_that_several_engines_write_to_is_counted_once(tmp_path):
    """As with `--num-envs 2 --env-args -logFile mine.log`, or the log that all players of a product share."""
    log, errors = tmp_path / "mine.log", EngineErrors()
    listeners = [EngineListener(errors, f"environment {k}", "Unity", log) for k in range(2)]
    for listener in listeners:
        listener.start()
    log.write_bytes(THROWN % 7)
    for listener in listeners:
        listener.close()
    assert errors.total == 1 and errors.environments == ["environment 0"]


def test_a_log_of_a_terabyte_is_not_read_whole(tmp_path):
    log = tmp_path / "Player-0.log"
    listener, errors = listening(log)
    with log.open("wb") as file:
        try:
            file.truncate(1 << 40)
        except OSError:
            pytest.skip("this file system holds no such files")
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + THROWN % 7)
    listener.poll()
    listener.close()
    assert told(errors) == [(1, TOLD % 7)]


def test_a_log_beyond_100_mb_is_said_once_with_its_rate(tmp_path, caplog, monkeypatch):
    log = tmp_path / "Player-0.log"
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    listener, _ = listening(log)
    now[0] += 120.0
    for megabytes in (90, 110, 300):
        with log.open("ab") as file:
            file.truncate(megabytes << 20)
        listener.poll()
    said = [record.message for record in caplog.records if "has grown" in record.message]
    assert len(said) == 1 and f"its log {log} has grown to 110 MB, by 55 MB a minute" in said[0]


def test_errors_that_are_to_be_ignored_are_not_listened_to(tmp_path):
    ignored = EngineOptions(errors=EngineErrors(ErrorPolicy.IGNORE))
    assert EngineListener.of(ignored, "Unity", tmp_path / "log") is None


def test_an_environment_by_itself_tells_the_sum_at_its_end(tmp_path, caplog):
    log = tmp_path / "Player-2.log"
    listener = EngineListener.of(EngineOptions(worker_id=2), "Unity", log)
    log.write_bytes(THROWN % 7 * 1500 + THROWN % 8)
    listener.close()
    said = f"environment 2 (Unity) has printed 1,501 errors: 1,500 x {TOLD % 7}; 1 x {TOLD % 8}."
    assert caplog.records[-1].message == f"{said} The log of environment 2: {log}"
    caplog.clear()
    listener.close()
    shared = EngineListener.of(EngineOptions(errors=EngineErrors()), "Unity", log)
    append(log, THROWN % 7)
    shared.close()
    assert not any("1 errors:" in record.message for record in caplog.records), "the run tells it"


def test_a_warning_of_the_addon_stops_no_run():
    errors = EngineErrors(ErrorPolicy.STOP)
    listener = EngineListener(errors, "environment 0", "Godot", None)
    listener.hear(b"WARNING: Lanista: the scene has no agent\n   at: push_warning (core/x.cpp:1)\nnext\n")
    listener.poll()
    assert told(errors) == [(1, "Lanista: the scene has no agent")] and not errors.should_stop
    assert "has printed 1 warning: 1 x Lanista: the scene has no agent" in summary(errors)
    listener.hear(b"SCRIPT ERROR: no target\n   at: act (res://agent.gd:7)\nnext\n")
    listener.close()
    assert errors.should_stop and "2 errors and warnings" in summary(errors)


def test_one_thread_listens_to_all_engines_while_there_are_any(tmp_path):
    def threads() -> int:
        return sum(thread.name == "listener of engines" for thread in threading.enumerate())

    listeners = []
    for number in range(12):
        listener, errors = listening(tmp_path / f"Player-{number}.log")
        listener.start()
        listeners.append((listener, errors))
    assert threads() == 1
    for number, (listener, errors) in enumerate(listeners):
        (tmp_path / f"Player-{number}.log").write_bytes(THROWN % number + b"next\n")
        until(lambda errors=errors: errors.total)
        listener.close()
    until(lambda: not threads())


def test_a_fault_in_the_reading_of_one_log_does_not_end_the_listening_to_others(
    tmp_path, caplog, monkeypatch
):
    broken, _ = listening(tmp_path / "broken.log")
    monkeypatch.setattr(broken, "poll", lambda: 1 // 0)
    good, errors = listening(tmp_path / "good.log")
    broken.start()
    good.start()
    (tmp_path / "good.log").write_bytes(THROWN % 7 + b"next\n")
    until(lambda: errors.total)
    good.close()
    assert "What an engine has printed could not be read." in caplog.text


FRAME = r"  at A.Act () [0x1] in /x/Assets/A.cs:7\n"
SCRIPT = {
    "an exception in the log": f"""
        print("NullReferenceException: no target\\n{FRAME}", file=log)""",
    "half lines": """
        for part in ("NullRef", "erenceException: no target\\n  at A.A", "ct () [0x1] in Assets/A.cs:7\\n"):
            log.write(part)
            log.flush()
            time.sleep(0.3)""",
    "invalid UTF-8": f"""
        log.buffer.write(b"\\xff\\n\\x00NullReferenceException: no \\xfetarget\\n{FRAME}")
        log.buffer.flush()""",
    "an assertion on stderr": r"""
        sys.stderr.write("* Assertion at class.c:5597, condition `x' not met\n\t  at A.Act <0x00045>\n")
        sys.stderr.flush()""",
    "10 MB a second": f"""
        for _ in range(30):
            log.write("The agent moves by 0.123 to the left, as it did before\\n" * 18_000)
        log.write("NullReferenceException: no target\\n{FRAME}\\n")
        log.flush()""",
}
EXPECTED = {
    "an assertion on stderr": "Assertion at class.c:5597, condition `x' not met (A.Act)",
    "invalid UTF-8": "NullReferenceException: no \ufffdtarget (Assets/A.cs:7)",
}


@pytest.mark.posix("forks")
def test_a_forked_process_listens_to_its_own_engines(tmp_path):
    parents, _ = listening(tmp_path / "Player-0.log")
    parents.start()

    def child() -> None:
        listener, errors = listening(tmp_path / "Player-1.log")
        listener.start()
        (tmp_path / "Player-1.log").write_bytes(THROWN % 7 + b"next\n")
        assert until(lambda: errors.total, 60)

    process = multiprocessing.get_context("fork").Process(target=child)
    with module._THREAD._lock:  # as while the parent's thread takes it
        process.start()
    process.join()
    parents.close()
    assert process.exitcode == 0


@pytest.mark.parametrize("kind", SCRIPT)
def test_a_fault_is_named_while_the_session_runs(tmp_path, caplog, kind):
    script = f"greet()\nsteps(3)\n{textwrap.dedent(SCRIPT[kind])}\nsteps(10**6)"
    errors = EngineErrors()
    options = EngineOptions(
        path=executable(tmp_path, script), log_folder=tmp_path, timeout_wait=60, errors=errors
    )
    env = UnityEnvironment.of(options)
    try:
        env.reset()
        deadline = time.monotonic() + 60
        while not errors.total and time.monotonic() < deadline:
            env.step()
    finally:
        env.close()
    found = EXPECTED.get(kind, "NullReferenceException: no target (Assets/A.cs:7)")
    assert f"environment 0 (Unity) has printed an error: {found}." in caplog.text


def test_a_time_out_names_the_first_errors_and_the_last_lines(tmp_path):
    frames = "".join(f"  at Deep.Call{k} () [0x1] in <0>:0\\n" for k in range(40))
    script = rf"""
        greet()
        print("IOException: first\n  at A.Awake () [0x1] in /x/Assets/A.cs:3\n", file=log)
        print("NullReferenceException: last\n{frames}\n(Filename: <0> Line: 0)\n", file=log)
        time.sleep(60)"""
    env = UnityEnvironment(executable(tmp_path, script), timeout_wait=2, log_folder=tmp_path)
    with pytest.raises(UnityTimeOutException) as raised:
        env.reset()
    env.close()
    text = str(raised.value)
    first = "The first errors that it has printed:\n    IOException: first (Assets/A.cs:3)\n"
    assert first + "    NullReferenceException: last (Deep.Call0)\n" in text
    last = text[text.index("The last lines of ") :]
    assert "NullReferenceException: last\n        ...\n" in last and "at Deep.Call39 ()" in last


@pytest.mark.parametrize("end", [CRASH, "sys.exit(1)"])
def test_what_an_engine_printed_is_shown_beside_its_log_if_it_died_or_never_called(tmp_path, end):
    script = rf"""
        print("Initialize engine version", file=log)
        sys.stderr.write("* Assertion at class.c:5597, condition `x' not met\n")
        sys.stderr.flush()
        {end}"""
    with pytest.raises(UnityEnvironmentException) as raised:
        UnityEnvironment(executable(tmp_path, script), timeout_wait=60, log_folder=tmp_path)
    text = str(raised.value)
    assert f"The last lines of {tmp_path / 'Player-0.log'}" in text and "Initialize engine version" in text
    assert "The last lines of its output:\n    * Assertion at class.c:5597" in text


def test_listening_is_silent_where_nothing_is_wrong(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    listener = EngineListener.of(EngineOptions(), "Unity", tmp_path / "Player-0.log")
    (tmp_path / "Player-0.log").write_bytes(b"Initialize engine version\nERROR: Shader x is not supported\n")
    listener.close()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("it observes nothing (res://a.gd:11)", "res://a.gd:11", "it observes nothing (res://a.gd:11)"),
        ('Failed to load script "res://a.gd"', "res://a.gd", 'Failed to load script "res://a.gd"'),
        ("it differs from res://a.gd:112", "res://a.gd:11", "it differs from res://a.gd:112 (res://a.gd:11)"),
        ("the scene is broken.", "", "the scene is broken"),
    ],
)
def test_a_place_that_the_sentence_names_is_not_said_twice(text, place, told):
    assert str(EngineError("Godot", "environment 0", text, place)) == told
