"""Curves are read back as they were written, from files in any state."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.stats.event_files import read_curves, read_extent
from lanista.trainers.stats.summary import StatsSummary
from lanista.trainers.stats.tensorboard import TensorBoardWriter
from lanista.trainers.stats.writers import CsvWriter


def write(folder, points, writer=TensorBoardWriter):
    """Summaries of the tag T as (step, value)."""
    written = writer(folder)
    for step, value in points:
        written.write_stats("B", {"T": StatsSummary([value])}, step)
    written.close()


def points(folder):
    curve = read_curves(folder / "B").by_tag["T"]
    return list(zip(curve.steps, curve.values))


@pytest.mark.parametrize("writer", [TensorBoardWriter, CsvWriter])
def test_what_a_resumed_run_takes_anew_counts_once(tmp_path, writer):
    write(tmp_path, [(10, 1.0), (20, 2.0), (30, 3.0)], writer)
    write(tmp_path, [(20, 5.0), (30, 6.0)], writer)
    assert points(tmp_path) == [(10, 1.0), (20, 5.0), (30, 6.0)]


def test_an_unfinished_record_is_left_out(tmp_path):
    write(tmp_path, [(10, 1.0), (20, 2.0)])
    (path,) = (tmp_path / "B").iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    curves = read_curves(tmp_path / "B")
    assert points(tmp_path) == [(10, 1.0)] and curves.problems == []
    assert read_extent(tmp_path / "B", ("T",)).values == {"T": [1.0]}


@given(position=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_flipped_byte_raises_nothing(tmp_path_factory, position, byte):
    folder = tmp_path_factory.mktemp("run")
    write(folder, [(10, 1.0), (20, 2.0)])
    (path,) = (folder / "B").iterdir()
    data = bytearray(path.read_bytes())
    data[position % len(data)] = byte
    path.write_bytes(data)
    read_curves(folder / "B")
    read_extent(folder / "B", ("T",))


def test_a_length_that_is_none_is_named(tmp_path):
    write(tmp_path, [(10, 1.0)])
    (path,) = (tmp_path / "B").iterdir()
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(struct.pack("<QI", 1 << 40, 7))
    assert read_curves(tmp_path / "B").problems == [
        f"{path.name}: what follows byte {size} of {size + 12} is no record"
    ]
    assert points(tmp_path) == [(10, 1.0)]


@pytest.mark.parametrize("row", ["2,2.0,x", "2", "2,2.0,3.0,4.0", f"{2**63},2.0,3.0", "-1,2.0,3.0"])
@pytest.mark.parametrize("before", ["", "1,1.0,0.5\n"])
def test_a_row_of_a_table_that_is_none_is_named(tmp_path, row, before):
    (tmp_path / "summaries.csv").write_text(f"step,time,T\n{before}{row}\n")
    extent = read_extent(tmp_path, ("T",))
    assert len(extent.problems) == 1 and extent.problems[0].startswith("summaries.csv: ")
    assert extent.values == ({"T": [0.5]} if before else {})


@pytest.mark.parametrize("end", ["2", "2,2.0", "2,2.0,1.", "2,2.0,1.5"])
def test_a_row_of_a_table_that_is_being_written_is_left_out(tmp_path, end):
    (tmp_path / "summaries.csv").write_text(f"step,time,T\n1,1.0,0.5\n{end}")
    extent = read_extent(tmp_path, ("T",))
    assert (extent.step, extent.values, extent.problems) == (1, {"T": [0.5]}, [])


def test_a_file_of_zeros_is_no_curve(tmp_path):
    """A gigabyte of them takes no space in an archive; each 16 bytes had counted as an event."""
    (tmp_path / "Ball").mkdir()
    (tmp_path / "Ball" / "events.out.tfevents.1").write_bytes(bytes(1 << 20))
    for read in (read_curves(tmp_path / "Ball"), read_extent(tmp_path / "Ball", ())):
        assert read.problems == ["events.out.tfevents.1: what follows byte 0 of 1048576 is no record"]


def test_curves_of_many_gigabytes_are_not_read(tmp_path):
    (tmp_path / "Ball").mkdir()
    for name in ("events.out.tfevents.1", "summaries.csv"):
        with (tmp_path / "Ball" / name).open("wb") as file:
            file.truncate(1 << 40)
    found = read_curves(tmp_path / "Ball").problems
    assert [problem.partition(": ")[2] for problem in found] == ["it holds more than 1,024 MiB"] * 2
