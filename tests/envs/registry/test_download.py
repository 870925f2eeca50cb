"""Downloads are complete and checked, or they are not there."""

from types import SimpleNamespace

import pytest
from lanista.envs.registry import RegistryError
from lanista.envs.registry.download import ATTEMPTS, _check_redirection, download, read


def test_a_file_comes_with_its_checksum(server, tmp_path):
    (server.files / "a").write_bytes(b"x" * 3_000_000)
    download(server.url("a"), tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == b"x" * 3_000_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["files", "got"], "and nothing else"


def test_temporary_failures_are_tried_again(server, tmp_path):
    (server.files / "a").write_text("1")
    server.failing, server.cut = 2, 1
    download(server.url("a"), tmp_path / "got")
    assert (tmp_path / "got").read_text() == "1" and len(server.asked) == 4


@pytest.mark.parametrize(
    ("cut", "message", "attempts"),
    [
        (0, "the server says 404", 1),
        (99, "after 5 attempts: the connection ended early: 1000 bytes", ATTEMPTS),
    ],
)
def test_lasting_failures_are_errors(server, tmp_path, cut, message, attempts):
    server.cut = cut
    with pytest.raises(RegistryError, match=message):
        download(server.url("a"), tmp_path / "got")
    assert len(server.asked) == attempts and not (tmp_path / "got").exists()


def test_a_server_that_cannot_be_reached_is_an_error(server, tmp_path):
    server.http.server_close()
    with pytest.raises(RegistryError, match=r"could not be downloaded after 5 attempts: .*refused"):
        download(server.url("a"), tmp_path / "got")


def test_redirections_lead_to_the_web_alone(server, tmp_path):
    (server.files / "there.txt").write_text("1")
    download(server.url("to-there"), tmp_path / "got")
    assert (tmp_path / "got").read_text() == "1"
    with pytest.raises(RegistryError, match="not a web address"):
        download(server.url("to-file"), tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/x", "/etc/passwd", ""])
def test_other_addresses_are_refused(tmp_path, url):
    with pytest.raises(RegistryError, match="not a web address"):
        download(url, tmp_path / "got")


def test_the_size_of_a_manifest_is_limited(server):
    (server.files / "a").write_text("x" * 100)
    assert read(server.url("a"), 100) == b"x" * 100
    with pytest.raises(RegistryError, match="larger than 99 bytes"):
        read(server.url("a"), 99)


def test_a_full_disk_is_reported_before_it_is_full(server, tmp_path, monkeypatch):
    (server.files / "a").write_text("x" * 100)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=99))
    with pytest.raises(RegistryError, match=r"takes 100 bytes, and .* has 99 bytes left"):
        download(server.url("a"), tmp_path / "got")


def test_no_redirection_leaves_an_encrypted_connection():
    for location in ("http://a/x", "//b:x]"):
        with pytest.raises(RegistryError, match=r"not encrypted|not an address"):
            _check_redirection("https://a/x", location)
    _check_redirection("https://a/x", "/y")
