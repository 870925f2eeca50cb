"""Named environments: found by their manifests, downloaded once, compared from then on, and played."""

import hashlib
import json
import logging
import subprocess
import sys
import zipfile
from contextlib import closing

import pytest
import yaml
from lanista.envs.registry import (
    NoBuildError,
    RegistryError,
    RemoteRegistryEntry,
    UnityEnvRegistry,
    UnknownEntryError,
    default_registry,
)
from lanista.envs.registry.entry import read_manifest
from lanista.envs.registry.registry import resolve_registered
from lanista.envs.scenes.registry import export
from lanista.envs.side_channels import EngineConfigurationChannel
from lanista.envs.unity.launch import resolve
from lanista.envs.utils.process_lock import ProcessLock
from mlagents_envs.exception import UnityException

linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="what is packed is a program of Linux"
)


def pack(path, scene="basic"):
    """A build as Unity's are packed: a folder with the program and more."""
    program = export(scene, path.parent / f"{path.stem}.x86_64")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.write(program, f"{path.stem}/{program.name}")
        zipped.writestr(f"{path.stem}/data/level0", "0123456789")
    program.unlink()
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def ball(server):
    """An entry whose build is on the server."""
    pack(server.files / "Ball.zip")
    return entry(server.url("Ball.zip"))


def entry(url, **options):
    return RemoteRegistryEntry("Ball", 0.9, "a walk", url, None, None, **options)


def manifest(path, **environments):
    listed = [{name: described} for name, described in environments.items()]
    path.write_text(yaml.safe_dump({"environments": listed}))
    return str(path)


@linux
def test_an_environment_is_downloaded_once_and_can_be_played(ball, server, cache):
    for _ in range(2):
        with closing(ball.make(side_channels=[EngineConfigurationChannel()], timeout_wait=60)) as env:
            env.reset()
            assert list(env.behavior_specs) == ["Basic?team=0"]
    assert server.asked == ["/Ball.zip"]
    kept = [path.name for path in (cache / "environments").iterdir()]
    assert len(kept) == 2 and not any("partial" in name for name in kept), "a folder, and what is known of it"


@linux
def test_arguments_of_the_entry_follow_those_of_the_caller(ball, server, tmp_path):
    (server.files / "Ball.zip").unlink()
    with zipfile.ZipFile(server.files / "Ball.zip", "w") as zipped:
        zipped.writestr("Ball.x86_64", f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\nexit 1\n')
    own = entry(server.url("Ball.zip"), additional_args=["--own", "2"])
    with pytest.raises(UnityException):
        own.make(additional_args=["--given", "1"])
    assert (tmp_path / "arguments").read_text().strip().endswith("--given 1 --own 2")


def test_a_file_name_is_refused(ball):
    with pytest.raises(TypeError, match="has its own program"):
        ball.make(file_name="x")


@linux
def test_the_first_download_is_recorded_and_another_file_refused(ball, server, cache, caplog):
    caplog.set_level(logging.INFO)
    ball.fetch()
    assert "The manifest gives no checksum for Ball. SHA-256" in caplog.text
    build = ball.build()
    assert build.remove()
    pack(server.files / "Ball.zip", "ball3d")
    changed = r"another file than at its first download.*envs remove Ball --forget"
    with pytest.raises(RegistryError, match=changed):
        ball.fetch()
    assert build.program is None and not build.folder.exists()
    build.remove_record()
    assert ball.fetch().is_file()


@linux
def test_the_manifests_checksum_decides(server):
    good = pack(server.files / "Ball.zip")
    assert entry(server.url("Ball.zip"), linux_sha256=good).fetch().is_file()
    with pytest.raises(RegistryError, match=f"is {good}, expected {'0' * 64}"):
        entry(server.url("Ball.zip"), linux_sha256="0" * 64).fetch()
    assert entry(server.url("Ball.zip")).fetch().is_file(), "the earlier download is still there"


@linux
@pytest.mark.parametrize("known", [True, False])
def test_an_unencrypted_download_without_a_checksum_is_a_warning(server, caplog, known):
    good = pack(server.files / "Ball.zip")
    entry(server.url("Ball.zip"), linux_sha256=good if known else None).fetch()
    assert ("unencrypted, and its manifest has no sha256" in caplog.text) is not known


def test_a_manifest_that_is_read_unencrypted_is_a_warning(server, caplog):
    """Whoever could put another archive there could put another checksum here."""
    manifest(server.files / "list.yaml", Ball={})
    read_manifest(server.url("list.yaml"))
    assert f"The manifest {server.url('list.yaml')} is read unencrypted" in caplog.text


@linux
@pytest.mark.parametrize(
    ("member", "message"),
    [
        ("../Ball.x86_64", r"The archive of Ball, http.*'\.\./Ball.x86_64' leads out"),
        ("Ball.exe", r"no program for this platform.*\.x86_64.*it contains Ball.exe"),
    ],
)
def test_an_archive_that_is_unsafe_or_has_no_program_is_refused(server, cache, member, message):
    with zipfile.ZipFile(server.files / "Ball.zip", "w") as zipped:
        zipped.writestr(member, "1")
    with pytest.raises(RegistryError, match=message):
        entry(server.url("Ball.zip")).fetch()
    assert not list((cache / "environments").iterdir())


@linux
def test_several_processes_download_it_once(ball, server, cache):
    code = (
        "from lanista.envs.registry import RemoteRegistryEntry\n"
        f"print(RemoteRegistryEntry('Ball', 0.9, '', {ball.build().url!r}, None, None).fetch())"
    )
    command = [sys.executable, "-c", code]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate(timeout=300)[0] for process in running}
    assert len(printed) == 1 and all(process.returncode == 0 for process in running)
    assert server.asked == ["/Ball.zip"]


@linux
def test_a_build_that_is_removed_at_once_has_been_fetched_all_the_same(ball, monkeypatch):
    """By another process, between the end of the download and the launch, which says that it is not there."""
    build = ball.build()
    release = ProcessLock.release

    def remove(lock: ProcessLock) -> None:
        build.remove()
        release(lock)

    monkeypatch.setattr(ProcessLock, "release", remove)
    assert build.fetch().is_relative_to(build.folder)


def test_remains_of_a_killed_process_are_removed(ball, cache):
    build = ball.build()
    build._partial().mkdir(parents=True)
    build.folder.mkdir()  # renamed, and killed before its record was written
    ball.fetch()
    assert not list((cache / "environments").glob("*.partial")) and build.program is not None


@pytest.mark.parametrize("platform, says", [("win32", "win_url is missing"), ("aix", "a build for aix")])
def test_a_platform_without_a_build_is_an_error_that_lists_the_builds(platform, says):
    with pytest.raises(NoBuildError, match=rf"{says}.*\(there is linux_url\)"):
        entry("https://x/y.zip").build(platform)
    assert issubclass(NoBuildError, FileNotFoundError)


@pytest.mark.parametrize("name", ["../../x", "/etc", "", "..", "a/b\\c", "é" * 300, "CON"])
def test_no_name_leads_out_of_the_cache(name, cache):
    build = RemoteRegistryEntry(name, None, None, "https://x/y.zip", None, None).build("linux")
    assert build.folder.parent == cache / "environments" and len(build.folder.name) < 90


def test_a_registry_is_a_mapping_whose_last_entry_counts(tmp_path):
    registry = UnityEnvRegistry()
    first, second = entry("https://x/1.zip"), entry("https://x/2.zip")
    registry.register(first)
    registry.register_from_yaml(manifest(tmp_path / "m.yaml", Wall={"linux_url": "https://x/w.zip"}))
    registry.register(second)
    assert sorted(registry) == ["Ball", "Wall"] and len(registry) == 2
    assert registry["Ball"] is second and "Wall" in registry and "Tennis" not in registry
    registry.clear()
    assert len(registry) == 0


def test_an_unknown_name_is_a_key_error_with_the_nearest(tmp_path):
    registry = UnityEnvRegistry()
    registry.register(entry("https://x/1.zip"))
    with pytest.raises(KeyError) as wrong:
        registry["bal"]
    text = "The entry bal is not present in the registry. Did you mean Ball? There are: Ball."
    assert str(wrong.value) == text
    assert isinstance(wrong.value, UnknownEntryError)


def test_a_manifest_is_read_when_an_entry_is_requested(server):
    registry = UnityEnvRegistry()
    registry.register_from_yaml(server.url("m.yaml"))
    assert not server.asked
    manifest(server.files / "m.yaml", Ball={"expected_reward": 100, "linux_url": server.url("x.zip")})
    assert registry["Ball"].expected_reward == 100.0
    registry["Ball"]
    assert server.asked == ["/m.yaml"]


def test_without_the_network_the_last_manifest_is_used(server, caplog):
    manifest(server.files / "m.yaml", Ball={"linux_url": server.url("x.zip")})

    def read():
        registry = UnityEnvRegistry()
        registry.register_from_yaml(server.url("m.yaml"))
        return list(registry)

    assert read() == ["Ball"]
    (server.files / "m.yaml").write_text("<html>log in to this network</html>")
    assert read() == ["Ball"] and "An earlier copy is used" in caplog.text
    server.http.server_close()
    server.http.shutdown()
    assert read() == ["Ball"]


@pytest.mark.parametrize(
    "text, says",
    [
        ("a: [", "line 1: it is not valid YAML"),
        ("\xff", "it is not valid YAML"),
        ("[]", "expected a list under `environments`"),
        ("environments: [3]", "item 0 of `environments`"),
        ("environments: [{A: 3}]", "A: expected a mapping"),
        ("environments: [{A: {linux_ulr: x}}]", "linux_ulr: unknown key. Did you mean linux_url?"),
        ("environments: [{A: {expected_reward: much}}]", "expected_reward: found 'much', expected a number"),
        *(
            (f"environments: [{{A: {{expected_reward: {value}}}}}]", "line 1: it is not valid YAML: ")
            for value in ("!!int ''", "!!float ''", "!!bool x", "!!timestamp x")
        ),
        (f"environments: [{{A: {{expected_reward: 1{'0' * 400}}}}}]", "expected_reward: found 1000"),
        (f"environments: [{{A: {{description: [{'x' * 3000}]}}}}]", "description: found ['xxx"),
        ("environments: [{A: {linux_url: 'ftp://x'}}]", "linux_url: found 'ftp://x'"),
        ("environments: [{A: {linux_url: 3}}]", "linux_url: found 3, expected text"),
        ("environments: [{A: {linux_sha256: abc}}]", "64 hexadecimal digits"),
        ("environments: [{A: {additional_args: --x}}]", "expected a list such as"),
        ("environments: [{'a\\tb': {}}]", "found the name"),
    ],
)
def test_a_wrong_manifest_is_explained(tmp_path, text, says):
    path = tmp_path / "m.yaml"
    path.write_text(text.replace("\\t", "\t") if "\\t" not in text else text.replace("'a\\tb'", '"a\\tb"'))
    path.write_bytes(b"\xff") if text == "\xff" else None
    registry = UnityEnvRegistry()
    registry.register_from_yaml(str(path))
    with pytest.raises(RegistryError) as wrong:
        len(registry)
    assert says in str(wrong.value) and "m.yaml" in str(wrong.value)


def test_a_manifest_that_is_not_there():
    registry = UnityEnvRegistry()
    registry.register_from_yaml("nowhere.yaml")
    with pytest.raises(RegistryError, match=r"nowhere\.yaml could not be read: No such file"):
        len(registry)


@linux
def test_a_local_manifest_may_name_archives_next_to_it(tmp_path, monkeypatch):
    pack(tmp_path / "Ball.zip")
    monkeypatch.setenv("LANISTA_REGISTRY", manifest(tmp_path / "m.yaml", Ball={"linux_url": "Ball.zip"}))
    registry = type(default_registry)()
    assert registry["Ball"].fetch().is_file()


@linux
def test_a_name_of_the_command_line(tmp_path, server):
    pack(server.files / "Ball.zip")
    path = manifest(tmp_path / "m.yaml", Ball={"linux_url": server.url("Ball.zip")})
    (program,) = resolve(resolve_registered(f"registry:Ball?manifest={path}", ())[0])
    assert program.endswith("Ball/Ball.x86_64")
    (server.files / "Ball.zip").unlink()
    assert resolve_registered(f"registry:Ball?manifest={path}", ())[0] == program
    with pytest.raises(UnknownEntryError, match=r"Did you mean Ball\?"):
        resolve_registered(f"registry:Balk?manifest={path}", ())
    for name in ("registry:", "registry:?manifest=x", "registry:Ball?manifest="):
        with pytest.raises(RegistryError, match="is not an environment's name"):
            resolve_registered(name, ())


def test_importing_the_package_does_not_use_the_network():
    code = (
        "import socket\n"
        "def refuse(*_, **__): raise AssertionError('the network was asked')\n"
        "socket.socket.connect = socket.create_connection = refuse\n"
        "from lanista.envs.registry import default_registry\n"
        "import sys; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_damaged_record_is_ignored(ball):
    build = ball.build("linux")
    build.folder.parent.mkdir(parents=True)
    build.folder.with_name(f"{build.folder.name}.json").write_text(json.dumps({"url": 3}))
    assert build.record is None and build.program is None
