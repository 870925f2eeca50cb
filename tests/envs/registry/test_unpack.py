"""Untrusted archives: unpacked files stay in their folder, and what would not is refused by name."""

import io
import shutil
import stat
import struct
import tempfile
import unicodedata
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanista.envs.registry import RegistryError, UnsafeArchiveError
from lanista.envs.registry import unpack as members
from lanista.envs.registry.unpack import check_members, unpack

posix = pytest.mark.posix("rights and symbolic links")


def archive(path, *entries):
    """A zip of (name, data) or (name, data, mode)."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, data, *mode in entries:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (mode[0] if mode else 0) << 16
            zipped.writestr(info, data)
    return path


def link(name, target):
    return name, target, stat.S_IFLNK | 0o777


def tree(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_files_and_folders(tmp_path):
    entries = ("Game/", ""), ("Game/data/x", "1"), ("Game\\data\\y", "2"), ("./z", "3")
    packed = archive(tmp_path / "a.zip", *entries)
    unpack(packed, tmp_path / "out")
    assert tree(tmp_path / "out") == ["Game", "Game/data", "Game/data/x", "Game/data/y", "z"]
    assert (tmp_path / "out/Game/data/y").read_text() == "2"


@pytest.mark.parametrize(
    "name, why",
    [
        ("/etc/cron.d/x", "absolute path"),
        ("\\\\server\\share\\x", "absolute path"),
        ("C:/Windows/x", "absolute path"),
        ("c:x", "absolute path"),
        ("../x", "leads out"),
        ("a/../../x", "leads out"),
        ("a\\..\\..\\x", "leads out"),
        ("a/..", "leads out"),
        ("", "no proper name"),
        ("a\nb", "no proper name"),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path, name, why):
    packed = archive(tmp_path / "a.zip", ("good", "1"), (name, "2"))
    with pytest.raises(UnsafeArchiveError, match=why) as refused:
        unpack(packed, tmp_path / "out")
    assert repr(name) in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip"], "and nothing stays"


@pytest.mark.parametrize("name", ["ab:c", "dir./x", "x ", "NUL", "con.txt", "a?b"])
def test_names_that_windows_does_not_accept(name):
    info = zipfile.ZipInfo("x")
    info.orig_filename = name
    assert check_members([info], 100, "linux")
    with pytest.raises(UnsafeArchiveError, match="Windows"):
        check_members([info], 100, "win32")


@pytest.mark.parametrize(
    "entries, names",
    [
        ([("a", "1"), ("A", "2")], ("'a'", "'A'")),
        ([("data/x", "1"), ("Data/y", "2")], ("'data/x'", "'Data/y'")),
        ([("stra\u00dfe", "1"), ("strasse", "2")], ("stra\u00dfe", "strasse")),
        ([("\u00e9", "1"), ("e\u0301", "2")], ("differ",)),
        ([("a", "1"), ("a", "2")], ("'a' is there twice",)),
        ([("a", "1"), ("a/b", "2")], ("'a/b' would lie in 'a'",)),
        ([("a/b", "2"), ("a", "1")], ("'a/b' would lie in 'a'",)),
        ([("a", "1"), ("a/", "")], ("'a' would lie in 'a', which is a file",)),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_members_that_would_be_one_file_are_refused(tmp_path, entries, names):
    with pytest.raises(UnsafeArchiveError) as refused:
        unpack(archive(tmp_path / "a.zip", *entries), tmp_path / "out")
    assert all(name in str(refused.value) for name in names)
    assert not (tmp_path / "out").exists()


@posix
def test_links_within_the_folder_are_kept_as_in_frameworks_of_macos(tmp_path):
    links = link("F/Versions/Current", "A"), link("F/lib", "Versions/Current/lib")
    packed = archive(tmp_path / "a.zip", ("F/Versions/A/lib", "1"), *links)
    unpack(packed, tmp_path / "out")
    assert (tmp_path / "out/F/lib").read_text() == "1"


@posix
@pytest.mark.parametrize(
    "entries",
    [
        [link("out", "..")],
        [link("out", "/etc/passwd")],
        [link("a/out", "../../x")],
        [link("a/b/up", "../.."), link("out", "a/b/up/../x")],  # seems to stay in a/b, and does not
        [link("out", "")],
        [link("out", "x" * 5000)],
        [link("a", "."), ("a/b", "through it")],
        [("a/b", "through it"), link("a", "/tmp")],
        [link("A", "."), ("a/b", "by other letters")],
    ],
)
def test_links_that_lead_out_or_are_written_through_are_refused(tmp_path, entries):
    (tmp_path / "inner").mkdir()
    packed = archive(tmp_path / "a.zip", *entries)
    with pytest.raises(UnsafeArchiveError):
        unpack(packed, tmp_path / "inner" / "out")
    assert tree(tmp_path) == ["a.zip", "inner"]


def test_links_are_refused_where_the_system_has_none():
    info = zipfile.ZipInfo("x")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(UnsafeArchiveError, match="Windows"):
        check_members([info], 100, "win32")


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_special_files_are_refused(tmp_path, kind):
    packed = archive(tmp_path / "a.zip", ("pipe", "", kind | 0o777))
    with pytest.raises(UnsafeArchiveError, match="neither a file nor a folder"):
        unpack(packed, tmp_path / "out")


@posix
def test_only_programs_become_executable_and_no_file_gets_more_rights(tmp_path):
    packed = archive(
        tmp_path / "a.zip",
        ("Game.x86_64", b"\x7fELF...", stat.S_IFREG | 0o644),
        ("start", b"#!/bin/sh\n"),
        ("Player.so", b"\x7fELF...", stat.S_IFREG | 0o4777),
        ("data", b"12", stat.S_IFREG | 0o6777),
    )
    unpack(packed, tmp_path / "out")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()}
    assert modes == {"Game.x86_64": 0o755, "start": 0o755, "Player.so": 0o644, "data": 0o644}


def test_a_bomb_that_states_its_size_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(members, "ALWAYS_ALLOWED", 1000)
    packed = archive(tmp_path / "a.zip", ("zeros", b"\0" * 1_000_000))
    with pytest.raises(UnsafeArchiveError, match="1000000 bytes unpacked"):
        unpack(packed, tmp_path / "out")


def test_a_bomb_that_lies_about_its_size_is_stopped(tmp_path):
    packed = archive(tmp_path / "a.zip", ("zeros", b"\0" * 1_000_000))
    data = packed.read_bytes()
    size = struct.pack("<I", 1_000_000)
    assert data.count(size) == 2  # in the member's own header and in the directory
    packed.write_bytes(data.replace(size, struct.pack("<I", 10)))
    with pytest.raises(UnsafeArchiveError):
        unpack(packed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_many_members_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(members, "MAX_MEMBERS", 2)
    packed = archive(tmp_path / "a.zip", *((str(k), "") for k in range(3)))
    with pytest.raises(UnsafeArchiveError, match="3 members"):
        unpack(packed, tmp_path / "out")


def test_a_full_disk_is_reported_before_anything_is_written(tmp_path, monkeypatch):
    packed = archive(tmp_path / "a.zip", ("file", b"12345"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=4))
    with pytest.raises(RegistryError, match=r"5 bytes, and .* has 4 bytes left"):
        unpack(packed, tmp_path / "out")


@pytest.mark.parametrize(
    "damage", [lambda d: b"no zip", lambda d: d[:-30], lambda d: d.replace(b"12345", b"12346")]
)
def test_damage_is_reported(tmp_path, damage):
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w") as zipped:
        zipped.writestr("file", "12345")
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(UnsafeArchiveError, match="damaged"):
        unpack(packed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_not_in_the_letters_it_announces_is_damage(tmp_path):
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w") as zipped:
        zipped.writestr("fÉ", "12345")
    packed.write_bytes(packed.read_bytes().replace("É".encode(), b"\xff\xff"))
    with pytest.raises(UnsafeArchiveError, match="damaged"):
        unpack(packed, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
)
def test_a_flipped_bit_is_refused_or_without_effect_on_the_contents(tmp_path, method):
    packed = tmp_path / "a.zip"
    with zipfile.ZipFile(packed, "w", method) as zipped:
        zipped.writestr("a", b"12345" * 9)
        zipped.writestr("b", bytes(range(90)))
    data = packed.read_bytes()
    contents, refused = {b"12345" * 9, bytes(range(90))}, 0
    for at in range(len(data)):
        for bit in (0, 3, 7):
            damaged = bytearray(data)
            damaged[at] ^= 1 << bit
            packed.write_bytes(damaged)
            try:
                unpack(packed, tmp_path / "out")
            except UnsafeArchiveError:
                refused += 1
                continue
            found = [path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()]
            assert set(found) <= contents, f"byte {at}, bit {bit}"  # the list of members has no checksum
            shutil.rmtree(tmp_path / "out")
    assert refused > len(data)


PART = st.text(st.sampled_from("aA.\\:/\0 ~ßſé\u0301\u202e") | st.characters(codec="utf-8"), max_size=5)
NAMES = st.lists(
    st.builds("/".join, st.lists(st.sampled_from(["..", ".", "", "a", "A", "C:"]) | PART, max_size=4)),
    max_size=5,
)


@given(NAMES)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_with_random_names_nothing_is_written_elsewhere(names):
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        (home / "inner").mkdir()
        packed = home / "a.zip"
        try:
            archive(packed, *((name, b"x") for name in names))
        except (UnicodeEncodeError, ValueError, IndexError):
            return  # the packer itself does not take them
        try:
            unpack(packed, home / "inner" / "out")
        except (UnsafeArchiveError, OSError):
            assert tree(home) == ["a.zip", "inner"]
        else:
            written = tree(home / "inner" / "out")
            assert sorted(path.name for path in home.iterdir()) == ["a.zip", "inner"]
            assert [path.name for path in (home / "inner").iterdir()] == ["out"]
            folded = {unicodedata.normalize("NFC", path).casefold() for path in written}
            assert len(folded) == len(written), "and no two that some system takes for one"


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data):
    with tempfile.TemporaryDirectory() as temporary:
        packed = Path(temporary) / "a.zip"
        packed.write_bytes(data)
        with pytest.raises(UnsafeArchiveError):
            unpack(packed, Path(temporary) / "out")


@given(st.integers(0, 300), st.integers(0, 255))
def test_a_flipped_byte_of_an_archive_is_refused_or_harmless(position, value):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("folder/file", "12345" * 20)
        zipped.writestr("other", "678")
    data = bytearray(whole.getvalue())
    data[position % len(data)] = value
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        (home / "inner").mkdir()
        (home / "a.zip").write_bytes(bytes(data))
        try:
            unpack(home / "a.zip", home / "inner" / "out")
        except (UnsafeArchiveError, OSError):
            assert tree(home) == ["a.zip", "inner"]
        assert sorted(path.name for path in home.iterdir()) == ["a.zip", "inner"]
