"""Event files, read back by TensorBoard itself."""

import errno
import logging
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.base import StatsAggregationMethod
from lanista.trainers.stats import tensorboard as event_file
from lanista.trainers.stats.reporter import StatsReporter
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.stats.writer import StatsPropertyType


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
    assert found.Tags()["tensors"] == ["Hyperparameters/text_summary"]
    event = found.Tensors("Hyperparameters/text_summary")[0]
    assert event.step == 0
    assert event.tensor_proto.string_val[0].decode() == "\ttrainer_type:\tppo\n\témile:\t\n\t  a:\t1"
    assert found.SummaryMetadata("Hyperparameters/text_summary").plugin_data.plugin_name == "text"


@given(
    st.text(min_size=1, max_size=40),
    st.floats(allow_nan=False),
    st.integers(min_value=0, max_value=2**62),
    st.floats(min_value=0, max_value=4e9),
)
def test_any_scalar_reads_back(tag, value, step, wall_time):
    from tensorboard.compat.proto.event_pb2 import Event

    tag = tag.encode("utf-8", "replace").decode()
    event = Event.FromString(event_file.event(wall_time, step, [event_file.scalar(tag, value)]))
    with np.errstate(over="ignore"):
        expected = float(np.float32(value))
    assert (event.step, event.wall_time) == (step, wall_time)
    assert (event.summary.value[0].tag, event.summary.value[0].simple_value) == (tag, expected)


@given(st.lists(st.floats(width=32), min_size=1, max_size=50))
def test_any_distribution_reads_back(values):
    from tensorboard.compat.proto.summary_pb2 import Summary

    data = event_file.histogram("x", np.array(values))
    finite = [value for value in values if np.isfinite(value)]
    if not finite:
        assert data is None
        return
    found = Summary.Value.FromString(data).histo
    assert found.num == sum(found.bucket) == len(finite)
    assert (found.min, found.max) == (min(finite), max(finite))
    assert len(found.bucket) == len(found.bucket_limit)


@given(st.binary(max_size=300))
def test_records_carry_the_checksums_that_tensorflow_expects(data):
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    record = event_file.record(data)
    assert record[:8] == struct.pack("<Q", len(data))
    assert record[8:12] == struct.pack("<I", masked_crc32c(record[:8]))
    assert record[-4:] == struct.pack("<I", masked_crc32c(data))


def test_old_curves_go_when_told_so_and_stay_on_resuming(tmp_path, caplog):
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
def test_a_full_disk_costs_one_warning_and_some_points_of_the_curve(tmp_path, caplog, room):
    writer = TensorBoardWriter(tmp_path)
    report(writer, 1000)
    disk = Disk(writer._files["Ball"]._file)
    writer._files["Ball"]._file = disk
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


def test_a_folder_that_cannot_be_made_costs_one_warning(tmp_path, caplog):
    (tmp_path / "Ball").write_text("a file where the folder should be")
    writer = TensorBoardWriter(tmp_path)
    with caplog.at_level(logging.WARNING):
        report(writer, 1000)
        report(writer, 2000)
    assert len(caplog.records) == 1
