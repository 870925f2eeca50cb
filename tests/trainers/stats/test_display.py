"""The live display on a terminal, and plain lines elsewhere."""

import io
import logging
import math

import pytest
from fake_engine import Clock
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.stats.display import LiveDisplay, PlainDisplay, make_display
from lanista.trainers.stats.earned import GROUP_REWARD, REWARD
from lanista.trainers.stats.progress import (
    BehaviorProgress,
    History,
    braille,
    clock_text,
    count_text,
    number_text,
    sparkline,
)
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.writer import StatsPropertyType
from lanista.trainers.utils.logging import ConsoleHandler
from rich.console import Console


@pytest.fixture
def clock():
    return Clock()


def live(clock, width=100, height=40):
    options = {"force_terminal": True, "legacy_windows": False, "color_system": None}
    console = Console(file=io.StringIO(), width=width, height=height, **options)
    return LiveDisplay("run7", console, clock=clock)


def shown(display):
    width = display.console.width
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(display.render())
    return console.file.getvalue()


def train(display, clock, behavior="Ball", max_steps=10_000):
    reporter = StatsReporter(behavior, [display])
    reporter.add_property(StatsPropertyType.HYPERPARAMETERS, {"max_steps": max_steps})
    for step in (0, 1000, 2000):
        display.progress(behavior, step)
        display.render()
        clock.now += 2.0
    reporter.add_stats("Environment/Cumulative Reward", [10.0, 14.0], StatsAggregationMethod.HISTOGRAM)
    reporter.write_stats(2000)
    display.checkpoint(behavior, 1500)


@pytest.mark.parametrize("of_groups, shown", [(0.0, 12.0), (5.0, 5.0)])
def test_a_team_s_reward_is_what_its_groups_earn(of_groups, shown):
    progress, how = BehaviorProgress("Team"), StatsAggregationMethod.HISTOGRAM
    progress.update({REWARD: StatsSummary([1.0], how), GROUP_REWARD: StatsSummary([0.0], how)})
    progress.update({REWARD: StatsSummary([12.0], how), GROUP_REWARD: StatsSummary([of_groups], how)})
    assert progress.reward == shown and progress.rewards.points == ([shown] if of_groups else [1.0, shown])


def test_the_display_shows_steps_rate_reward_time_left_and_checkpoint(clock):
    display = live(clock)
    display.status("scene:ball3d")
    train(display, clock)
    text = shown(display)
    for part in ("run7", "Ball", "2,000 / 10,000 steps", "20%", "12.00 ± 2.00", "1,500", "scene:ball3d"):
        assert part in text
    assert "333" in text, "2,000 steps in 6 seconds"
    assert "0:24" in text, "8,000 steps at that rate"
    assert "0:06 elapsed" in text


def test_every_behavior_has_a_line_on_a_small_terminal(clock):
    display = live(clock, width=60, height=12)
    for behavior in ("Striker", "Goalie", "Keeper"):
        train(display, clock, behavior)
    text = shown(display)
    assert all(name in text for name in ("Striker", "Goalie", "Keeper"))
    assert all(len(line.rstrip()) == 58 for line in text.splitlines()), "^C must fit behind it"
    assert len(text.splitlines()) == 6


@pytest.mark.parametrize("width", [20, 40, 72, 80, 200])
@pytest.mark.parametrize("height", [5, 24, 60])
def test_the_display_fits_terminals_of_any_size(clock, width, height):
    display = live(clock, width, height)
    shown(display)
    train(display, clock)
    train(display, clock, "A behavior with a name that is far too long for any terminal to show it whole")
    train(display, clock, "[red]Endless[/red]", max_steps=0)
    shown(display)


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("height", [14, 60])
def test_nothing_is_cut_on_usual_terminals(clock, width, height):
    display = live(clock, width, height)
    display.title = "a-run-with-a-rather-long-identifier-of-2026-11-23-and-then-some-more"
    names = ["3DBall", "AVeryLongBehaviorNameOfAGameWithManyWords", "AnotherBehaviorOfTheSameGame"]
    for name in names:
        train(display, clock, name, 1_000_000_000)
        behavior = display.behaviors[name]
        behavior.step, behavior.checkpoint = 987_654_321, 987_654_000
        behavior.reward, behavior.reward_std = -12345.678, 2345.678
        behavior.latest = {"Environment/Episode Length": 123456.7}
    display.lesson("small_wall_height", "AnEasyLessonWithALongName", 1, 8)
    display.lesson("big_wall_height", "AnotherLessonWithALongName", 2, 8)
    display.status("saving; Ctrl-C again stops at once")
    clock.now += 360000
    text = shown(display)
    assert "…" not in text and all(len(line) <= width for line in text.splitlines())
    words = "".join(text.split()).replace("│", "")
    for part in (display.title, "987,654,321", "-12345.7", "AnotherLessonWithALongName(2/8)", "elapsed"):
        assert part in words
    assert all(name[:14] in words for name in names) and words.count("Words") == 1


def test_log_lines_appear_above_the_live_display(clock):
    display = live(clock)
    logger = logging.getLogger("test-above")
    handler = ConsoleHandler(display.terminal)
    logger.addHandler(handler)
    display.start()
    try:
        logger.warning("environment %d [was] restarted", 3)
    finally:
        display.close()
        logger.removeHandler(handler)
    assert "environment 3 [was] restarted" in display.console.file.getvalue()


@pytest.mark.parametrize("force_color", ["", "1"])
def test_without_a_terminal_summaries_are_lines(force_color, monkeypatch, caplog):
    monkeypatch.setenv("FORCE_COLOR", force_color)  # as notebooks and CI set it
    monkeypatch.setattr("sys.stdout", io.StringIO())
    display = make_display("run")
    assert isinstance(display, PlainDisplay) and display.terminal is None
    display.start()
    display.progress("Ball", 5)
    with caplog.at_level(logging.INFO):
        reporter = StatsReporter("Ball", [display])
        reporter.add_stat("Environment/Cumulative Reward", 1.0, StatsAggregationMethod.HISTOGRAM)
        reporter.write_stats(500)
    display.close()
    assert "Ball. Step: 500. Time Elapsed: " in caplog.text


def test_the_rate_is_that_of_the_last_seconds():
    behavior = BehaviorProgress("Ball")
    assert behavior.rate is None and behavior.time_left is None
    for second in range(200):
        behavior.step = second * 100 if second < 100 else 10_000 + (second - 100) * 1000
        behavior.sample(float(second))
    assert behavior.rate == pytest.approx(1000)
    assert len(behavior._samples) < 20
    behavior.max_steps = behavior.step + 5000
    assert behavior.time_left == pytest.approx(5.0)


def test_times_and_numbers_are_formatted():
    assert [clock_text(x) for x in (None, 5, 65.4, 3723)] == ["—", "0:05", "1:05", "1:02:03"]
    assert [count_text(x) for x in (None, 0, 1234567.8)] == ["—", "0", "1,234,568"]
    texts = [number_text(x) for x in (None, math.nan, 0.0, 1.23456, -12.345, 971.74, 1e-5, 123456.0)]
    assert texts == ["—", "—", "0.000", "1.235", "-12.35", "971.7", "1.00e-05", "1.23e+05"]


@given(st.lists(st.floats(-1e30, 1e30), max_size=200), st.integers(1, 60), st.integers(1, 6))
def test_a_curve_has_the_requested_size_and_a_dot_in_every_column(values, width, rows):
    lines = braille(values, width, rows)
    assert [len(line) for line in lines] == [width] * rows
    if values:
        for column in range(width):
            bits = [ord(line[column]) - 0x2800 for line in lines]
            assert any(b & 0x47 for b in bits) and any(b & 0xB8 for b in bits)
    assert len(sparkline(values, width)) <= width


def test_a_rising_curve_rises():
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    lines = braille(list(range(100)), 20, 5)
    assert [next(i for i, dot in enumerate(line) if dot != "\u2800") for line in lines] == [16, 12, 8, 4, 0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=3000), st.sampled_from([4, 16, 512]))
def test_a_history_stays_small_and_keeps_its_shape(values, capacity):
    history = History(capacity)
    for value in values:
        history.add(value)
    history.add(math.nan)
    assert len(history.points) < capacity or len(values) < capacity
    assert min(values) - 1e-9 <= min(history.points, default=0.5)
    assert max(history.points, default=0.5) <= max(values) + 1e-9 or len(values) == 1


def test_the_display_shows_the_lesson_of_each_parameter(clock):
    display = live(clock)
    train(display, clock)
    assert "lesson" not in shown(display)
    display.lesson("wall_height", "Low", 1, 3)
    display.lesson("num_tiles", "UpTo4", 2, 11)
    display.lesson("wall_height", "High", 3, 3)
    assert "lesson  wall_height High (3/3) · num_tiles UpTo4 (2/11)" in shown(display)
