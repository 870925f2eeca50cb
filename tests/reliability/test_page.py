"""The page of the ten figures says what its CSV says, and rows add up over sessions."""

import math
from dataclasses import replace

from reliability.figures import LANISTA, ML_AGENTS, ROOT, Recorder, Row, Sum, rows
from reliability.page import by_case, by_commit, page

ROW = Row(1, "ppo", LANISTA, "2026-01-02", 3, 2, 10.0, "steps lost", "", "2 cores", 0.5, "abc", "python x.py")


def test_rows_add_up_with_the_worst_of_all():
    both = Sum([ROW, replace(ROW, tried=4, held=4, worst=7.0, date="2026-01-09", load=3.0)])
    assert str(both) == "6 of 7, at most 10 steps lost"
    assert both.when == "2026-01-02 to 2026-01-09, 2 cores, load 0.5 to 3"


def test_what_was_not_measured_has_no_worst():
    assert str(Sum([replace(ROW, worst=math.nan)])) == "2 of 3"


def test_a_recorded_row_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "figures.csv"
    recorder = Recorder(6, True, path)
    recorder.add("demo, cut", LANISTA, 5, 4, found='said "no", twice')
    recorder.add("demo, cut", ML_AGENTS, 5, 1, worst=1 / 3, unit="s")
    first, second = rows(path)
    assert (first.figure, first.case, first.tried, first.held, first.found) == (
        *(6, "demo, cut", 5, 4),
        'said "no", twice',
    )
    assert math.isnan(first.worst) and second.worst == 0.3333
    assert [(name, len(group)) for name, group in by_case([first, second])] == [((6, "demo, cut"), 2)]


def test_a_figure_names_the_commit_that_was_measured_last_and_lists_them_all():
    found = [ROW, replace(ROW, commit="def", tried=4, held=4), replace(ROW, tried=5, held=5)]
    assert [(commit, Sum(group).tried) for commit, group in by_commit(found)] == [("def", 4), ("abc", 8)]
    text = page([*found, replace(ROW, commit="ghi", product=ML_AGENTS)])
    assert "abc: 7 of 8, at most 10 steps lost" in text
    assert "| 1 | def | 2026-01-02 | 4 of 4, at most 10 steps lost |" in text
    assert "ghi:" not in text


def test_the_page_is_that_of_the_csv():
    assert (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8") == page(rows())
