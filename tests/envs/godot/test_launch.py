"""From a name to a command line: what is found, and a sentence for everything that is missing."""

import os
import stat
import sys
from pathlib import Path

import pytest
from lanista.envs.engines.options import UNCHANGED, EngineOptions
from lanista.envs.godot import is_godot, is_godot_editor
from lanista.envs.godot.launch import GodotName, check_version, find_godot, resolve, start_game
from mlagents_envs.exception import UnityEnvironmentException

pytestmark = pytest.mark.posix("makes programs of shell scripts")


def program(path: Path, text: str = "echo 4.6.3.stable") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def engine(tmp_path, monkeypatch):
    found = program(tmp_path / "bin" / "godot")
    monkeypatch.setenv("LANISTA_GODOT", str(found))
    return str(found)


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "game"
    (folder / ".godot").mkdir(parents=True)
    (folder / ".godot" / "global_script_class_cache.cfg").touch()
    (folder / "project.godot").write_text('config_version=5\n\n[application]\nconfig/name="game"\n')
    (folder / "levels").mkdir()
    (folder / "levels" / "first.tscn").touch()
    return folder


def launched(name, **keys):
    """The arguments of the engine."""
    keys = {"seed": 7, "no_graphics": True, "additional_args": ("--level=2",), **keys}
    process, _ = start_game(EngineOptions(path=name, **keys), ["/bin/true"], 1234)
    process.wait(10.0)
    return process.command[1:]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("godot:", GodotName("")),
        (" godot:a/b ", GodotName("a/b")),
        ("godot:g?scene=res://x.tscn&speedup=2", GodotName("g", "res://x.tscn", 2.0)),
        ("godot:g?action_repeat=4&level=3", GodotName("g", None, 1.0, ("--action_repeat=4", "--level=3"))),
    ],
)
def test_names_are_taken_apart(name, expected):
    assert GodotName.parse(name) == expected
    assert is_godot(name) and is_godot_editor(name) == (not expected.path)


@pytest.mark.parametrize(
    "name", ["godot:g?", "godot:g?speedup=x", "godot:g?speedup=0", "godot:g?speedup=nan", "godot:g?a"]
)
def test_names_that_cannot_be_read_are_refused(name):
    if name == "godot:g?":
        assert GodotName.parse(name) == GodotName("g")
        return
    with pytest.raises(UnityEnvironmentException, match="environment 'godot:g"):
        GodotName.parse(name)


def test_the_frame_rate_is_fixed_by_two_arguments_and_grows_with_the_speedup():
    found = launched("godot:g?speedup=2&action_repeat=4")
    at = found.index("--fixed-fps")
    assert found[at + 1] == "120" and "--headless" in found
    assert found[-4:] == ["--env_seed=7", "--speedup=2", "--action_repeat=4", "--level=2"]
    assert "--port=1234" in found


def test_a_game_that_is_watched_keeps_to_the_clock():
    found = launched("godot:g", configuration=UNCHANGED._replace(time_scale=1.0), no_graphics=False)
    assert not {"--fixed-fps", "--headless", "--disable-vsync"} & set(found)


def test_a_game_with_a_window_is_not_slowed_by_the_screen():
    assert {"--fixed-fps", "--disable-vsync"} <= set(launched("godot:g", no_graphics=False))


def test_a_project_is_played_by_the_engine(engine, project):
    assert resolve(GodotName(str(project))) == [engine, "--path", str(project)]
    assert resolve(GodotName(str(project / "project.godot"))) == [engine, "--path", str(project)]
    scene = "res://levels/first.tscn"
    assert resolve(GodotName(str(project), scene)) == [engine, "--path", str(project), scene]


def test_an_exported_game_brings_its_engine(tmp_path, monkeypatch):
    monkeypatch.delenv("LANISTA_GODOT", raising=False)
    game = program(tmp_path / ("game.x86_64" if sys.platform == "linux" else "game"))
    assert resolve(GodotName(str(game)))[0] == str(game)


def test_what_is_not_there_is_told_with_what_may_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnityEnvironmentException, match=r"godot: takes a project's folder.*exported game\.$"):
        resolve(GodotName("nope"))


def test_a_package_is_played_by_the_engine(engine, tmp_path):
    (tmp_path / "game.pck").touch()
    assert resolve(GodotName(str(tmp_path / "game.pck"))) == [
        engine,
        "--main-pack",
        str(tmp_path / "game.pck"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("config_version=4\n", "a project of Godot 3 or older.*open the project there once"),
        ("", "has no config_version"),
    ],
)
def test_a_project_of_an_old_godot_is_refused(engine, project, content, message):
    (project / "project.godot").write_text(content)
    with pytest.raises(UnityEnvironmentException, match=message):
        resolve(GodotName(str(project)))


def test_a_folder_that_is_no_project_is_refused(tmp_path):
    with pytest.raises(UnityEnvironmentException, match=r"a folder without project\.godot"):
        resolve(GodotName(str(tmp_path)))


def test_a_project_that_was_never_imported_names_the_command(engine, project):
    (project / ".godot" / "global_script_class_cache.cfg").unlink()
    with pytest.raises(
        UnityEnvironmentException, match=rf"never imported.*run: {engine} --headless --path .* --import"
    ):
        resolve(GodotName(str(project)))


def test_a_scene_that_is_not_there_names_those_that_are(engine, project):
    with pytest.raises(
        UnityEnvironmentException, match=r"no scene 'res://first\.tscn'. There is res://levels/first"
    ):
        resolve(GodotName(str(project), "res://first.tscn"))


def test_an_engine_of_another_version_is_refused(tmp_path):
    old = program(tmp_path / "godot3", "echo 3.6.stable")
    with pytest.raises(UnityEnvironmentException, match=r"no Godot 4: it calls its version '3\.6\.stable'"):
        check_version(str(old))
    other = program(tmp_path / "other", "exit 1")
    with pytest.raises(UnityEnvironmentException, match="no Godot 4: it calls its version ''"):
        check_version(str(other))


def test_the_engine_is_looked_for_where_it_usually_is(tmp_path, monkeypatch):
    monkeypatch.delenv("LANISTA_GODOT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(UnityEnvironmentException, match=r"Godot was not found.*LANISTA_GODOT=PATH"):
        find_godot(tmp_path)
    beside = program(tmp_path / "project" / "Godot_v4.4.exe")
    assert find_godot(beside.parent, "win32") == str(beside)
    second = program(tmp_path / "bin" / "godot4")
    assert find_godot(tmp_path) == str(second)
    first = program(tmp_path / "bin" / "godot")
    assert find_godot(tmp_path) == str(first)
    monkeypatch.setenv("LANISTA_GODOT", str(second))
    assert find_godot(tmp_path) == str(second)
    monkeypatch.setenv("LANISTA_GODOT", os.devnull)
    with pytest.raises(UnityEnvironmentException, match=r"LANISTA_GODOT is .* no program"):
        find_godot(tmp_path)
