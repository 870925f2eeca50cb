"""Statistics are collected from any thread and reach every writer."""

import logging
from threading import Thread

import numpy as np
import pytest
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.writer import StatsWriter


class Recorder(StatsWriter):
    def __init__(self):
        self.written = []

    def write_stats(self, category, values, step):
        self.written.append((step, {key: summary.values.tolist() for key, summary in values.items()}))


class Broken(StatsWriter):
    calls = 0

    def write_stats(self, category, values, step):
        self.calls += 1
        raise OSError("the printer is on fire")


class Listener(Recorder):
    def __init__(self):
        super().__init__()
        self.heard = []

    def on_add_stat(self, category, key, value, aggregation):
        self.heard.append((category, key, value, aggregation.name))


def test_arrays_and_numbers_join_in_their_order():
    recorder = Recorder()
    reporter = StatsReporter("Ball", [recorder])
    reporter.add_stat("a", 1)
    reporter.add_stats("a", np.array([[2.0, 3.0]], np.float32))
    reporter.add_stats("a", [])
    reporter.add_stat("a", np.float32(4.0))
    assert reporter.get_stats_summaries("a").num == 4
    reporter.write_stats(10)
    reporter.write_stats(20)
    assert recorder.written == [(10, {"a": [1.0, 2.0, 3.0, 4.0]}), (20, {})]


def test_reported_arrays_are_copied():
    reporter = StatsReporter("Ball")
    values = np.ones(3)
    reporter.add_stats("a", values)
    values[:] = 7
    assert reporter.get_stats_summaries("a").mean == 1.0


def test_a_failing_writer_is_reported_once_and_the_others_continue(caplog):
    broken, recorder = Broken(), Recorder()
    reporter = StatsReporter("Ball", [broken, recorder])
    with caplog.at_level(logging.WARNING):
        for step in (10, 20, 30):
            reporter.add_stat("a", step)
            reporter.write_stats(step)
    assert broken.calls == len(recorder.written) == 3
    assert len(caplog.records) == 1
    assert "Broken" in caplog.text and "on fire" in caplog.text


def test_on_add_stat_receives_every_value():
    listener = Listener()
    reporter = StatsReporter("Ball", [listener])
    reporter.add_stat("a", 1.0)
    reporter.add_stats("a", [2.0, 3.0], StatsAggregationMethod.SUM)
    reporter.set_stat("b", 4.0)
    assert listener.heard == [
        ("Ball", "a", 1.0, "AVERAGE"),
        ("Ball", "a", 2.0, "SUM"),
        ("Ball", "a", 3.0, "SUM"),
        ("Ball", "b", 4.0, "MOST_RECENT"),
    ]


def test_no_value_is_lost_between_threads():
    recorder = Recorder()
    reporter = StatsReporter("Ball", [recorder])

    def report():
        for _ in range(500):
            reporter.add_stats("a", np.ones(3))
            reporter.add_stat("a", 1.0)

    threads = [Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(50):
        reporter.write_stats(step)
    for thread in threads:
        thread.join()
    reporter.write_stats(50)
    assert sum(sum(values.get("a", [])) for _, values in recorder.written) == 4 * 500 * 4


def test_the_statistics_of_a_summary():
    summary = StatsSummary([1.0, 2.0, 6.0], StatsAggregationMethod.SUM)
    assert (summary.mean, summary.sum, summary.num, summary.aggregated_value) == (3.0, 9.0, 3, 9.0)
    assert summary.std == pytest.approx(np.sqrt(14 / 3))
    assert np.isnan(StatsSummary([]).mean) and StatsSummary([]).sum == 0.0
