"""Files appear whole or not at all."""

import os

import pytest
from lanista.trainers.utils import atomic_files as atomic


@pytest.mark.posix("modes of files")
def test_a_new_file_is_readable_by_others_as_the_umask_says(tmp_path):
    old = os.umask(0o022)
    try:
        atomic.atomic_write_bytes(tmp_path / "file", b"abc")
    finally:
        os.umask(old)
    assert (tmp_path / "file").read_bytes() == b"abc"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def refuse(*args):
    raise OSError(95, "Operation not supported")


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_a_file_that_is_to_be_new_replaces_none(tmp_path, monkeypatch, links):
    if not links:
        monkeypatch.setattr(atomic.os, "link", refuse)
    atomic.atomic_write_text(tmp_path / "file", "first", replace=False)
    with pytest.raises(FileExistsError):
        atomic.atomic_write_text(tmp_path / "file", "second", replace=False)
    assert (tmp_path / "file").read_text() == "first"
    assert os.listdir(tmp_path) == ["file"]


def test_a_new_file_that_cannot_be_placed_leaves_none(tmp_path, monkeypatch):
    for function in ("link", "replace"):
        monkeypatch.setattr(atomic.os, function, refuse)
    with pytest.raises(OSError, match="Operation not supported"):
        atomic.atomic_write_text(tmp_path / "file", "first", replace=False)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("x")]
)
def test_a_failing_writer_leaves_only_the_old_file(tmp_path, error):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def write(file):
        file.write(b"half of the n")
        raise error

    with pytest.raises(type(error)):
        atomic.atomic_write(path, write)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_file_system_error_leaves_only_the_old_file(tmp_path, monkeypatch, call):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(atomic.os, call, fail)
    with pytest.raises(OSError, match="Input/output"):
        atomic.atomic_write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_leaves_only_the_old_file(tmp_path, file_size_limit):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with file_size_limit(1000), pytest.raises(OSError):
        atomic.atomic_write_bytes(path, b"n" * 5000)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_leftovers_of_killed_processes_go_and_other_files_stay(tmp_path):
    (tmp_path / ".checkpoint.pt.0123456789ab-7.partial").write_bytes(b"half")
    (tmp_path / "notes.partial").write_bytes(b"mine")
    (tmp_path / f".own.{atomic._session.mark}-0.partial").write_bytes(b"being written by this process")
    atomic.remove_partials(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(["notes.partial", f".own.{atomic._session.mark}-0.partial"])


def test_leftovers_are_recognised_by_the_names_that_are_really_used(tmp_path, monkeypatch):
    names = []
    monkeypatch.setattr(atomic._session, "mark", "0123456789ab")
    atomic.atomic_write(tmp_path / "file.pt", lambda file: names.append(os.path.basename(file.name)))
    (tmp_path / names[0]).write_bytes(b"half")
    monkeypatch.undo()
    atomic.remove_partials(tmp_path)
    assert os.listdir(tmp_path) == ["file.pt"]
