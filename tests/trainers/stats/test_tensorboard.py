"""Event files, read back by TensorBoard itself."""

import errno
import logging
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.tensorboard import TensorBoardWriter, histogram, scalar
from lanista.trainers.stats.writer import StatsPropertyType
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData


def read(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "tensors": 0})
    return accumulator.Reload()


def report(writer, step, reward=1.5):
    reporter = StatsReporter("Ball", [writer])
    reporter.add_stats(
        "Environment/Cumulative Reward", [reward, reward + 1], StatsAggregationMethod.HISTOGRAM
    )
    reporter.add_stat("Losses/Value Loss", 0.25)
    reporter.add_stats("Engine/Hits", [1.0, 2.0, 4.0], StatsAggregationMethod.SUM)
    reporter.set_stat("Step", step)
    reporter.add_stat("Is Training", 1.0)
    reporter.write_stats(step)


def test_tensorboard_reads_the_curves(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    report(writer, 1000)
    report(writer, 2000, reward=3.0)
    writer.close()
    found = read(tmp_path / "Ball")
    tags = found.Tags()
    assert sorted(tags["scalars"]) == ["Engine/Hits", "Environment/Cumulative Reward", "Losses/Value Loss"]
    assert tags["histograms"] == ["Environment/Cumulative Reward_hist"]
    curve = [(e.step, e.value) for e in found.Scalars("Environment/Cumulative Reward")]
    assert curve == [(1000, 2.0), (2000, 3.5)]
    assert [e.value for e in found.Scalars("Engine/Hits")] == [7.0, 7.0]
    distribution = found.Histograms("Environment/Cumulative Reward_hist")[0].histogram_value
    assert (distribution.num, distribution.min, distribution.max, distribution.sum) == (2.0, 1.5, 2.5, 4.0)
    assert sum(distribution.bucket) == 2.0 and list(distribution.bucket_limit)[-1] == 2.5


def test_tensorboard_shows_the_settings(tmp_path):
    writer = TensorBoardWriter(tmp_path)
    writer.add_property("Ball", StatsPropertyType.HYPERPARAMETERS, {"trainer_type": "ppo", "émile": {"a": 1}})
    writer.close()
    found = read(tmp_path / "Ball")
    assert found.Tags()["tensors"] == ["Hyperparameters/text_summary", "_hparams_/session_start_info"]
    event = found.Tensors("Hyperparameters/text_summary")[0]
    assert event.step == 0
    assert event.tensor_proto.string_val[0].decode() == "\ttrainer_type:\tppo\n\témile:\t\n\t  a:\t1"
    assert found.SummaryMetadata("Hyperparameters/text_summary").plugin_data.plugin_name == "text"
    shown = found.SummaryMetadata("_hparams_/session_start_info").plugin_data
    hparams = HParamsPluginData.FromString(shown.content).session_start_info.hparams
    assert shown.plugin_name == "hparams"
    assert (hparams["trainer_type"].string_value, hparams["émile.a"].number_value) == ("ppo", 1.0)


@given(st.text(min_size=1, max_size=40), st.floats(allow_nan=False))
def test_any_scalar_reads_back(tag, value):
    tag = tag.encode("utf-8", "replace").decode()
    with np.errstate(over="ignore"):
        expected = float(np.float32(value))
    assert (scalar(tag, value).tag, scalar(tag, value).simple_value) == (tag, expected)


@given(st.lists(st.floats(width=32), min_size=1, max_size=50))
def test_any_distribution_reads_back(values):
    made = histogram("x", np.array(values))
    finite = [value for value in values if np.isfinite(value)]
    if not finite:
        assert made is None
        return
    assert made.histo.num == sum(made.histo.bucket) == len(finite)
    assert (made.histo.min, made.histo.max) == (min(finite), max(finite))
    assert len(made.histo.bucket) == len(made.histo.bucket_limit)


def test_tensorboard_is_imported_with_the_first_summary_and_tensorflow_never(tmp_path):
    script = f"""
import sys
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.stats.writer import StatsPropertyType
writer = TensorBoardWriter({str(tmp_path)!r})
writer.add_property("Ball", StatsPropertyType.HYPERPARAMETERS, {{"a": 1}})
assert "tensorboard" not in sys.modules
writer.write_stats("Ball", {{"x": StatsSummary([1.0], StatsAggregationMethod.AVERAGE)}}, 10)
assert "tensorboard" in sys.modules and "tensorflow" not in sys.modules
"""
    (tmp_path / "tensorflow.py").write_text("")
    subprocess.run(
        [sys.executable, "-c", script], check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )


def test_old_curves_are_deleted_on_request_and_kept_on_resume(tmp_path, caplog):
    first = TensorBoardWriter(tmp_path)
    report(first, 1000)
    first.close()
    second = TensorBoardWriter(tmp_path)
    report(second, 2000)
    second.close()
    assert [e.step for e in read(tmp_path / "Ball").Scalars("Engine/Hits")] == [1000, 2000]
    third = TensorBoardWriter(tmp_path, clear_past_data=True)
    with caplog.at_level(logging.WARNING):
        report(third, 10)
        report(third, 20)
    third.close()
    assert [e.step for e in read(tmp_path / "Ball").Scalars("Engine/Hits")] == [10, 20]
    assert caplog.text.count("left over from a previous run") == 2


class Disk:
    """A file on a disk that has room for so many bytes, and then writes only a part."""

    def __init__(self, file):
        self.file, self.room = file, 10**9

    def write(self, data):
        part = data[: self.room]
        self.room -= len(part)
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(part)

    def __getattr__(self, name):
        return getattr(self.file, name)


@pytest.mark.parametrize("room", [0, 1, 30, 200])
def test_a_full_disk_costs_one_warning_and_some_points_of_a_curve(tmp_path, caplog, room):
    writer = TensorBoardWriter(tmp_path)
    report(writer, 1000)
    disk = Disk(writer._files["Ball"].file)
    writer._files["Ball"].file = disk
    disk.room = room
    with caplog.at_level(logging.WARNING):
        report(writer, 2000)
        disk.room = 0
        report(writer, 3000)
        assert len(caplog.records) == 1 and "training goes on" in caplog.text
        disk.room = 10**9
        report(writer, 4000)
    writer.close()
    assert "written again" in caplog.text
    assert [e.step for e in read(tmp_path / "Ball").Scalars("Engine/Hits")] == [1000, 4000]


def test_a_folder_that_cannot_be_created_costs_one_warning(tmp_path, caplog):
    (tmp_path / "Ball").write_text("a file where the folder should be")
    writer = TensorBoardWriter(tmp_path)
    with caplog.at_level(logging.WARNING):
        report(writer, 1000)
        report(writer, 2000)
    assert len(caplog.records) == 1
