"""Finding scenes and writing them as executables."""

import os
import subprocess
from contextlib import closing

import pytest
from lanista.envs.scenes.registry import UnknownSceneError, export, find
from lanista.envs.unity import UnityEnvironment


def test_an_unknown_scene_is_named_with_the_nearest():
    with pytest.raises(UnknownSceneError, match=r"no scene 'Basics'\. Did you mean 'basic'"):
        find("Basics")


@pytest.mark.parametrize(
    ("given", "written"),
    [("Balls", "Balls"), ("Balls.x86_64", "Balls"), ("deep/Balls", "deep/Balls"), ("", "ball3d")],
)
def test_an_export_is_an_executable_with_unitys_suffix(given, written, tmp_path):
    path = export("ball3d", tmp_path / given)
    assert path == tmp_path / f"{written}.x86_64"
    assert os.access(path, os.X_OK)


def test_an_exported_scene_runs_wherever_it_is_started_from(tmp_path, monkeypatch):
    path = export("ball3d", tmp_path / "a folder" / "Ball's")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    done = subprocess.run([path, "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--areas" in done.stdout


def test_an_exported_scene_is_an_environment(tmp_path):
    with closing(UnityEnvironment(str(export("basic", tmp_path / "Basic")), seed=1)) as env:
        env.reset()
        assert list(env.behavior_specs) == ["Basic?team=0"]
