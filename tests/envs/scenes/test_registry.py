"""Finding scenes and writing them as executables."""

import os
import subprocess

import pytest
from lanista.envs.scenes.registry import SCENES, UnknownSceneError, export, find
from lanista.envs.unity import UnityEnvironment


def test_every_scene_loads_and_describes_itself():
    for name, scene in SCENES.items():
        assert scene.name == name
        assert scene.summary
        assert scene.load()().specs()


def test_an_unknown_scene_is_named_with_the_nearest():
    with pytest.raises(UnknownSceneError, match=r"no scene 'Basics'\. Did you mean 'basic'"):
        find("Basics")


@pytest.mark.parametrize("given", ["Balls", "Balls.x86_64", "deep/Balls"])
def test_an_export_is_an_executable_with_unitys_suffix(given, tmp_path):
    path = export("ball3d", tmp_path / given)
    assert path == (tmp_path / given).with_suffix(".x86_64")
    assert os.access(path, os.X_OK)


def test_an_export_into_a_folder_has_the_scenes_name(tmp_path):
    assert export("basic", tmp_path) == tmp_path / "basic.x86_64"


def test_an_exported_scene_runs_wherever_it_is_started_from(tmp_path, monkeypatch):
    path = export("ball3d", tmp_path / "a folder" / "Ball's")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = subprocess.run([path, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--areas" in done.stdout


def test_an_exported_scene_is_an_environment(tmp_path):
    env = UnityEnvironment(str(export("basic", tmp_path / "Basic")), seed=1)
    try:
        env.reset()
        assert list(env.behavior_specs) == ["Basic?team=0"]
    finally:
        env.close()
