"""The name of an environment becomes the right command on each platform, or a helpful error."""

import os
import sys
from pathlib import Path

import pytest
from lanista.envs.engines.own_program import own_program
from lanista.envs.unity.executables import check_executable, find_executable
from lanista.envs.unity.launch import resolve
from lanista.envs.unity.plugin import unity_arguments
from mlagents_envs.exception import UnityEnvironmentException


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("platform", "name", "there", "expected"),
    [
        ("linux", "Game", ["Game.x86_64", "Game.x86", "Game"], "Game.x86_64"),
        ("linux", "Game", ["Game.x86", "Game"], "Game.x86"),
        ("linux", "Game", ["Game"], "Game"),
        ("linux", "Game.x86_64", ["Game.x86_64"], "Game.x86_64"),
        ("linux", "Game.x86", ["Game.x86_64", "Game.x86"], "Game.x86"),
        ("linux", "Game.exe", ["Game.x86_64", "Game.exe"], "Game.x86_64"),
        ("linux", "Game.v2", ["Game.v2.x86_64"], "Game.v2.x86_64"),
        ("linux", "my.application/Game", ["my.application/Game.x86_64"], "my.application/Game.x86_64"),
        ("linux", "  Game ", ["Game.x86_64"], "Game.x86_64"),
        ("linux", "engine.sh", ["engine.sh"], "engine.sh"),
        ("darwin", "Game", ["Game.app/Contents/MacOS/Game"], "Game.app/Contents/MacOS/Game"),
        ("darwin", "Game.app", ["Game.app/Contents/MacOS/Game"], "Game.app/Contents/MacOS/Game"),
        ("darwin", "New", ["New.app/Contents/MacOS/Old"], "New.app/Contents/MacOS/Old"),
        ("darwin", "engine", ["engine"], "engine"),
        ("darwin", "engine.sh", ["engine.sh"], "engine.sh"),
        ("darwin", "Game", ["Game", "Game.app/Contents/MacOS/Game"], "Game.app/Contents/MacOS/Game"),
        ("win32", "Game", ["Game.exe"], "Game.exe"),
        ("win32", "Game.exe", ["Game.exe"], "Game.exe"),
        ("win32", "Build", ["Build/UnityCrashHandler64.exe", "Build/ZGame.exe"], "Build/ZGame.exe"),
        (
            "linux",
            "Build",
            ["Build/Game.x86_64", "Build/UnityPlayer.so", "Build/run.sh"],
            "Build/Game.x86_64",
        ),
        ("linux", "Build/", ["Build/Game.x86"], "Build/Game.x86"),
        ("linux", "Build", ["Build/Game", "Build/UnityPlayer.so"], "Build/Game"),
        ("linux", "Build", ["Build.x86_64", "Build/Game.x86_64"], "Build.x86_64"),
        ("darwin", "Build", ["Build/Game.app/Contents/MacOS/Game"], "Build/Game.app/Contents/MacOS/Game"),
        ("darwin", "Build", ["Build/New.app/Contents/MacOS/Old"], "Build/New.app/Contents/MacOS/Old"),
    ],
)
@pytest.mark.parametrize("absolute", [True, False])
def test_finds_the_executable(tmp_path, monkeypatch, platform, name, there, expected, absolute):
    for path in there:
        touch(tmp_path / path)
    monkeypatch.chdir(tmp_path)
    named = f"{tmp_path}/{name.strip()}" if absolute else name
    assert resolve(named, platform) == [str(tmp_path / expected)]


@pytest.mark.parametrize(
    ("name", "there", "told"),
    [
        ("Gmae", ["Game.x86_64"], "There is Game.x86_64"),
        ("Game.exe", ["Game.exe"], "a build for Windows; make one for Linux"),
        ("Build", ["Build/B.x86_64", "Build/A.x86_64"], "it holds A.x86_64, B.x86_64: name one of them"),
        ("Build", ["Build/Game.zip"], "There is Game.zip, an archive: unpack it"),
        ("Game.x86_64", ["Game.tar.gz"], "There is Game.tar.gz, an archive: unpack it"),
        ("nowhere/Game", [], "There is no folder nowhere"),
        ("Game", [], "No Linux build is in the current folder. Looked for Game.x86_64, Game.x86, Game in "),
        ("b/Game.x86_64", ["b/c"], "Looked for b/Game.x86_64, b/Game.x86, b/Game in "),
        ("gym:CartPole-v1", [], "Did you mean --env gymnasium:CartPole-v1?"),
        ("Gymnasium/CartPole-v1", [], "Did you mean --env gymnasium:CartPole-v1?"),
        ("CartPole-v1", [], "named --env gymnasium:CartPole-v1"),
        ("petingzoo:mpe2.simple_v3", [], "Did you mean --env pettingzoo:mpe2.simple_v3?"),
        ("mygame:make", [], "A function that makes an environment is named --env python:mygame:make."),
    ],
)
def test_a_missing_executable_names_what_is_there(tmp_path, monkeypatch, name, there, told):
    for path in there:
        touch(tmp_path / path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnityEnvironmentException) as error:
        find_executable(name, "linux")
    assert "Provided filename does not match any environments" in str(error.value)
    assert told.replace("b/", f"b{os.sep}") in str(error.value)


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("suffix", [".zip", ".tar.gz", ".7z", ".rar", ".dmg", ".ZIP"])
def test_an_archive_is_to_be_unpacked(tmp_path, suffix, platform):
    """It was found as a program, which may not be executed."""
    archive = touch(tmp_path / f"Game{suffix}")
    with pytest.raises(UnityEnvironmentException, match=r"it is an archive.*Unpack it"):
        resolve(str(archive), platform)


def test_several_programs_of_a_platform_are_listed(tmp_path):
    for program in ("A.exe", "B.exe", "UnityCrashHandler64.exe"):
        touch(tmp_path / "Build" / program)
    with pytest.raises(UnityEnvironmentException, match=r"it holds A\.exe, B\.exe: name one of them"):
        find_executable(str(tmp_path / "Build"), "win32")


def test_an_absolute_path_is_looked_for_in_no_other_folder(tmp_path):
    with pytest.raises(UnityEnvironmentException) as error:
        find_executable(f"{tmp_path}/Game", "linux")
    assert str(error.value).endswith(f", {tmp_path / 'Game'}.")


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_a_game_in_python_is_run_by_this_python(tmp_path, monkeypatch, platform):
    game = touch(tmp_path / "walk.py")
    game.chmod(0o644)
    monkeypatch.chdir(tmp_path)
    assert resolve("walk.py", platform) == resolve(str(game), platform) == [sys.executable, str(game)]


def test_a_game_in_python_that_is_not_there_is_missing(tmp_path, monkeypatch):
    touch(tmp_path / "walk.py")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnityEnvironmentException, match=r"There is walk\.py"):
        resolve("wakl.py")


def test_an_unknown_platform_is_named():
    with pytest.raises(UnityEnvironmentException, match="'sunos5'"):
        find_executable("Game", "sunos5")


def test_scenes_are_run_by_this_python():
    start = own_program("lanista.envs.scenes", "ball3d")
    assert resolve("scene:ball3d") == start
    assert resolve("scene:soccer-twos?max_steps=9&size=small")[-4:] == ["--max-steps", "9", "--size", "small"]
    assert resolve("scene:ball3d?areas=4&mass=2.5") == [*start, "--areas", "4", "--mass", "2.5"]


@pytest.mark.parametrize("name", ["scene:", "scene:ball3d?areas", "scene:?areas=4", "scene:ball3d?=4"])
def test_a_scene_that_cannot_be_read_is_refused(name):
    with pytest.raises(UnityEnvironmentException, match=r"scene:NAME\?key=value"):
        resolve(name)


def test_arguments_come_in_the_documented_order(tmp_path):
    log = tmp_path / "Player-0.log"
    given = ["-screen-width", "100"]
    assert unity_arguments(5005, True, log, given) == (
        ["-nographics", "-batchmode", "--mlagents-port", "5005", "-logFile", str(log), *given],
        log,
    )
    assert unity_arguments(5006, False, None, []) == (["--mlagents-port", "5006"], None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(["my.log"], Path("my.log")), (["-"], None), ([], None), (["/dev/stdout"], None), (["/dev/fd/2"], None)],
)
def test_the_users_own_log_file_wins(value, expected):
    command, log = unity_arguments(5005, False, Path("Player-0.log"), ["-logfile", *value])
    assert command == ["--mlagents-port", "5005", "-logfile", *value]
    assert log == expected


@pytest.mark.parametrize(
    ("content", "platform", "told"),
    [
        (b"", "linux", "the file is empty"),
        (b"", "win32", "the file is empty"),
        (
            b"a page that was downloaded in its place",
            "win32",
            r"no program for Windows.*Unity.s build settings",
        ),
        (b"\x7fELF" + bytes(20), "win32", "no program for Windows"),
        (b"MZ" + bytes(20), "win32", None),
        (b"#!/no/such/shell -e\n", "linux", "names /no/such/shell, which does not exist"),
        (b"#!/bin/sh\r\nexit\r\n", "linux", "lines end as on Windows"),
        (bytes.fromhex("cffaedfe") + bytes(20), "linux", "a program for macOS"),
        (bytes.fromhex("cffaedfe") + bytes(20), "darwin", None),
        (b"#!/usr/bin/env python3\n", "linux", None),
        (b"\x7fELF" + bytes(20), "linux", None),
    ],
)
def test_a_program_that_shows_that_it_cannot_be_started_is_refused(tmp_path, content, platform, told):
    program = touch(tmp_path / ("Game.exe" if platform == "win32" else "Game"))
    program.write_bytes(content)
    if told is None:
        check_executable(str(program), platform)
    else:
        with pytest.raises(UnityEnvironmentException, match=told):
            check_executable(str(program), platform)


@pytest.mark.posix("named pipes and links")
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda path: os.mkfifo(path), "a named pipe"),
        (lambda path: path.symlink_to(path), "a link that leads to itself"),
        (lambda path: path.symlink_to("nowhere"), "a link that leads nowhere"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
    ],
)
def test_what_is_no_file_is_named(tmp_path, make, what):
    make(tmp_path / "Game.x86_64")
    with pytest.raises(UnityEnvironmentException, match=f"it is {what}, and no program"):
        find_executable(str(tmp_path / "Game.x86_64"), "linux")
