"""Programs that are found by name come from the search path, never from a project's folder."""

from pathlib import Path

import pytest
from lanista.envs.utils.programs import find_program


def put(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o755)
    return str(path)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The current folder, which is somebody else's, and the only one of the search path."""
    installed, project = tmp_path / "installed", tmp_path / "project"
    put(project / "godot.EXE")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", str(installed))
    monkeypatch.setenv("PATHEXT", ".COM;.EXE")
    return installed, project


@pytest.mark.parametrize("name", ["godot", "godot.EXE"])
def test_the_current_folder_is_not_searched_on_windows(folders, name):
    installed, _ = folders
    assert find_program(name, "win32") is None
    found = put(installed / "godot.EXE")
    assert find_program(name, "win32") == found


def test_no_relative_folder_of_the_search_path_is_searched_on_windows(folders, monkeypatch):
    monkeypatch.setenv("PATH", ".")
    assert find_program("godot", "win32") is None


def test_only_programs_are_found_on_windows(folders):
    installed, _ = folders
    put(installed / "godot.txt")
    assert find_program("godot.txt", "win32") is None


@pytest.mark.parametrize("platform", ["win32", "linux"])
def test_a_path_is_taken_as_it_is(folders, platform):
    _, project = folders
    assert find_program(str(project / "godot.EXE"), platform) == str(project / "godot.EXE")
    assert find_program(str(project / "missing"), platform) is None
