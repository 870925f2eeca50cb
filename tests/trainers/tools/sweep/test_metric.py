"""The metric that a sweep reads from a run in progress."""

import pytest
from lanista.trainers.tools.sweep.metric import Metric

TAG = "Environment/Cumulative Reward"


def table(run, text, behavior="Ball"):
    (run / behavior).mkdir(parents=True, exist_ok=True)
    (run / behavior / "summaries.csv").write_text(text)


def test_each_step_is_the_mean_of_the_last_summaries(tmp_path):
    table(tmp_path, f"step,time,{TAG}\n10,0,1\n20,0,2\n30,0,6\n")
    assert Metric(TAG, None, 2).curve(tmp_path) == {10: 1.0, 20: 1.5, 30: 4.0}


def test_a_partial_line_is_ignored_until_it_is_complete(tmp_path):
    table(tmp_path, f"step,time,{TAG}\n10,0,1\n20,0,2")
    assert Metric(TAG, None, 1).curve(tmp_path) == {10: 1.0}


def test_the_later_report_of_a_step_counts(tmp_path):
    table(tmp_path, f"step,time,{TAG}\n10,0,1\n20,0,2\n10,0,5\n")
    assert Metric(TAG, None, 1).curve(tmp_path) == {10: 5.0, 20: 2.0}


def test_summaries_without_a_finite_value_are_ignored(tmp_path):
    table(tmp_path, f"step,time,{TAG}\n10,0,\n20,0,nan\n30,0,3\n")
    assert Metric(TAG, None, 9).curve(tmp_path) == {30: 3.0}


def test_the_curve_is_empty_before_the_first_summary(tmp_path):
    assert Metric(TAG, None, 1).curve(tmp_path) == {}
    table(tmp_path, "")
    assert Metric(TAG, "Ball", 1).curve(tmp_path) == {}


@pytest.mark.parametrize("of_groups, found", [((0, 0), {10: 1.0, 20: 2.0}), ((0, 5), {10: 0.0, 20: 5.0})])
def test_a_team_s_reward_is_what_its_groups_earn(tmp_path, of_groups, found):
    group = "Environment/Group Cumulative Reward"
    first, second = of_groups
    table(tmp_path, f"step,time,{TAG},{group}\n10,0,1,{first}\n20,0,2,{second}\n")
    assert Metric(TAG, None, 1).curve(tmp_path) == found


@pytest.mark.parametrize(
    "metric, says",
    [
        (Metric("Environment/Cumulativ Reward", "Ball", 1), f"Did you mean {TAG}?"),
        (Metric(TAG, None, 1), "several behaviors, Ball, Wall: name one"),
        (Metric(TAG, "Bal", 1), "no summary of Bal, only of Ball, Wall"),
    ],
)
def test_an_empty_curve_is_explained(tmp_path, metric, says):
    table(tmp_path, f"step,time,{TAG}\n10,0,1\n")
    table(tmp_path, f"step,time,{TAG}\n10,0,1\n", "Wall")
    assert says in metric.explain_missing(tmp_path)


@pytest.mark.parametrize("damage", [b"\xff\xfe,\n", b'"' + b"a" * 200_000 + b"\n", b"\0,\0\n"])
def test_a_damaged_table_does_not_end_the_sweep(tmp_path, damage):
    table(tmp_path, f"step,time,{TAG}\n10,0,1\n")
    with (tmp_path / "Ball" / "summaries.csv").open("ab") as file:
        file.write(damage)
    assert Metric(TAG, None, 1).curve(tmp_path) in ({10: 1.0}, {})
