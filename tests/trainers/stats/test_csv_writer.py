"""Tables of summaries keep their columns, survive kills and full disks, and are continued after a resume."""

import csv
import os

import numpy as np
import pytest
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.writers import CsvTable, CsvWriter

REWARD = "Environment/Cumulative Reward"
HISTOGRAM = StatsAggregationMethod.HISTOGRAM


def rows(folder, category="Ball"):
    with open(folder / category / "summaries.csv", newline="") as file:
        return list(csv.DictReader(file))


def summaries(**values):
    return {key: StatsSummary(np.atleast_1d(value)) for key, value in values.items()}


def test_a_summary_is_a_row_with_what_tensorboard_shows(tmp_path):
    reporter = StatsReporter("Ball", [CsvWriter(tmp_path, clock=lambda: 1700000000.1234)])
    for reward in (1.0, 3.0):
        reporter.add_stat(REWARD, reward, HISTOGRAM)
    reporter.add_stat("Goals", 2.0, StatsAggregationMethod.SUM)
    reporter.add_stat("Goals", 2.5, StatsAggregationMethod.SUM)
    reporter.add_stat("Is Training", 1.0)
    reporter.write_stats(500)
    (row,) = rows(tmp_path)
    assert row == {
        "step": "500",
        "time": "1700000000.123",
        REWARD: "2.0",
        f"{REWARD}_std": "1.0",
        "Goals": "4.5",
    }


def test_columns_keep_their_positions_when_keys_come_and_go(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.write_stats("Ball", summaries(a=1.0), 10)
    writer.write_stats("Ball", summaries(b=2.0, a=3.0), 20)
    writer.write_stats("Ball", summaries(b=4.0), 30)
    found = rows(tmp_path)
    assert list(found[0]) == ["step", "time", "a", "b"]
    assert [(row["a"], row["b"]) for row in found] == [("1.0", ""), ("3.0", "2.0"), ("", "4.0")]


def test_an_engine_that_names_a_statistic_time_or_step_leaves_these_columns_alone(tmp_path):
    writer = CsvWriter(tmp_path, clock=lambda: 1700000000.0)
    writer.write_stats("Ball", summaries(time=1.5, step=2.5), 10)
    (row,) = rows(tmp_path)
    assert (row["step"], row["time"]) == ("10", "1700000000.0")
    assert (row["Environment/step"], row["Environment/time"]) == ("2.5", "1.5")


def test_a_resumed_run_appends_to_its_table(tmp_path):
    CsvWriter(tmp_path).write_stats("Ball", summaries(a=1.0, b=2.0), 10)
    CsvWriter(tmp_path).write_stats("Ball", summaries(c=5.0, b=3.0), 20)
    first, second = rows(tmp_path)
    assert (first["a"], first["b"], first["c"]) == ("1.0", "2.0", "")
    assert (second["a"], second["b"], second["c"]) == ("", "3.0", "5.0")


def test_a_partial_row_of_a_killed_run_is_removed(tmp_path):
    CsvWriter(tmp_path).write_stats("Ball", summaries(a=1.0), 10)
    with open(tmp_path / "Ball" / "summaries.csv", "a") as file:
        file.write("20,1700")
    CsvWriter(tmp_path).write_stats("Ball", summaries(a=3.0), 30)
    assert [row["step"] for row in rows(tmp_path)] == ["10", "30"]


def test_a_full_disk_leaves_the_table_intact(tmp_path, file_size_limit, caplog):
    reporter = StatsReporter("Ball", [CsvWriter(tmp_path)])

    def summary(step):
        reporter.add_stat("a", 1.0)
        reporter.write_stats(step)

    summary(10)
    size = (tmp_path / "Ball" / "summaries.csv").stat().st_size
    with file_size_limit(size + 5):
        summary(20)
        summary(30)
    assert (tmp_path / "Ball" / "summaries.csv").stat().st_size == size
    summary(40)
    assert [row["step"] for row in rows(tmp_path)] == ["10", "40"]
    assert [record.getMessage().partition("(")[0] for record in caplog.records] == ["Ball: CsvWriter failed "]


def test_a_new_table_replaces_one_that_was_moved_away(tmp_path):
    writer = CsvWriter(tmp_path)
    writer.write_stats("Ball", summaries(a=1.0), 10)
    (tmp_path / "Ball" / "summaries.csv").unlink()
    writer.write_stats("Ball", summaries(a=2.0), 20)
    assert [(row["step"], row["a"]) for row in rows(tmp_path)] == [("20", "2.0")]


def test_a_file_that_is_no_summary_table_is_left_alone(tmp_path):
    path = tmp_path / "summaries.csv"
    path.write_text("name,price\napples,3\n")
    with pytest.raises(ValueError, match="not a table of summaries"):
        CsvTable(path)
    assert path.read_text() == "name,price\napples,3\n"


@pytest.mark.posix("named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "summaries.csv")
    with pytest.raises(OSError, match="a pipe or a device"):
        CsvTable(tmp_path / "summaries.csv")


def test_names_with_commas_quotes_and_line_ends_stay_one_column(tmp_path):
    name = 'Hits, "far"\nand wide'
    CsvWriter(tmp_path).write_stats("Ball", summaries(**{name: 1.5}), 10)
    CsvWriter(tmp_path).write_stats("Ball", summaries(**{name: float("nan")}), 20)
    assert [row['Hits, "far" and wide'] for row in rows(tmp_path)] == ["1.5", "nan"]
