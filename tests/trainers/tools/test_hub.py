"""`lanista hub`, against a stub of the functions of huggingface_hub that it calls: no network is used.

The stub has their names and the arguments that we give; what the real ones do with a hub is not tested here.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from lanista.envs.utils.installation import install_command
from lanista.trainers.cli.main import run


@pytest.fixture
def hub(monkeypatch):
    """The stub, which records what was created and uploaded."""
    calls = SimpleNamespace(created=[], uploaded=None, error=None)

    def create_repo(*, repo_id, exist_ok):
        if calls.error:
            raise calls.error
        calls.created.append((repo_id, exist_ok))

    def upload_folder(*, repo_id, folder_path, commit_message):
        files = {
            str(path.relative_to(folder_path)): path.read_bytes()
            for path in Path(folder_path).rglob("*")
            if path.is_file()
        }
        calls.uploaded = SimpleNamespace(
            repo_id=repo_id, message=commit_message, files=files, path=folder_path
        )

    def snapshot_download(*, repo_id, local_dir):
        if calls.error:
            raise calls.error
        Path(local_dir).mkdir(parents=True, exist_ok=True)
        (Path(local_dir) / "Ball.onnx").write_text(repo_id)

    stub = SimpleNamespace(
        create_repo=create_repo, upload_folder=upload_folder, snapshot_download=snapshot_download
    )
    monkeypatch.setitem(sys.modules, "huggingface_hub", stub)
    return calls


@pytest.fixture
def folder(tmp_path):
    """A run's folder."""
    path = tmp_path / "results" / "first"
    (path / "Ball").mkdir(parents=True)
    settings = {"behaviors": {"Ball": {"trainer_type": "poca"}, "Goal": {}}}
    (path / "configuration.yaml").write_text(yaml.safe_dump(settings))
    (path / "Ball.onnx").write_text("brain")
    (path / "Ball" / "checkpoint.pt").write_text("weights")
    return path


def push(folder, *more):
    arguments = ["--run-id", "first", "--local-dir", str(folder), "--repo-id", "me/balls", *more]
    return run(["hub", "push", *arguments])


def test_the_whole_folder_is_pushed_with_settings_and_card(hub, folder):
    before = sorted(folder.rglob("*"))
    assert push(folder) == 0
    assert hub.created == [("me/balls", True)]
    assert (hub.uploaded.repo_id, hub.uploaded.message) == ("me/balls", "Push to Hub")
    files = hub.uploaded.files
    assert files["Ball.onnx"] == b"brain" and files[str(Path("Ball", "checkpoint.pt"))] == b"weights"
    assert list(json.loads(files["config.json"])["behaviors"]) == ["Ball", "Goal"]
    front = yaml.safe_load(files["README.md"].decode().split("---")[1])
    assert front["library_name"] == "ml-agents"
    assert {"Ball", "ML-Agents-Ball", "reinforcement-learning"} <= set(front["tags"])
    assert "poca" in files["README.md"].decode() and "me/balls" in files["README.md"].decode()
    assert hashlib.sha256(b"brain").hexdigest() in files["README.md"].decode()
    assert sorted(folder.rglob("*")) == before


def test_what_engines_have_printed_is_not_uploaded(hub, folder):
    (folder / "run_logs").mkdir()
    for name in ("Player-0.log", "warnings.log", "engine_errors.json", "engine_errors-1.json", "timers.json"):
        (folder / "run_logs" / name).write_text("{}")
    assert push(folder) == 0
    uploaded = {Path(name).name for name in hub.uploaded.files if "run_logs" in name}
    assert uploaded == {"timers.json"} and (folder / "run_logs" / "Player-0.log").exists()
    assert not Path(hub.uploaded.path).exists()


def test_other_names_and_messages(hub, folder):
    (folder / "configuration.yaml").rename(folder / "mine.yaml")
    (folder / "README.md").write_text("my own card")
    assert push(folder, "--configfile-name", "mine.yaml", "--commit-message", "better") == 0
    assert hub.uploaded.message == "better"
    assert hub.uploaded.files["README.md"] == b"my own card"


def test_a_folder_without_a_run_is_reported(hub, folder, capsys):
    (folder / "configuration.yaml").unlink()
    assert push(folder) == 1
    assert "--local-dir is the folder of a run" in capsys.readouterr().err and hub.uploaded is None
    (folder / "configuration.yaml").write_text("env_settings: {}")
    assert push(folder) == 1
    assert "defines no behavior" in capsys.readouterr().err and hub.uploaded is None


def test_a_folder_of_the_repositorys_name_is_loaded(hub, tmp_path):
    assert run(["hub", "load", "--repo-id", "you/goals", "--local-dir", str(tmp_path)]) == 0
    assert (tmp_path / "goals" / "Ball.onnx").read_text() == "you/goals"


def test_a_folder_is_overwritten_only_with_force(hub, tmp_path, capsys):
    (tmp_path / "goals").mkdir()
    (tmp_path / "goals" / "Ball.onnx").write_text("mine")
    arguments = ["hub", "load", "--repo-id", "you/goals", "--local-dir", str(tmp_path)]
    assert run(arguments) == 1
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "goals" / "Ball.onnx").read_text() == "mine"
    assert run([*arguments, "--force"]) == 0
    assert (tmp_path / "goals" / "Ball.onnx").read_text() == "you/goals"


@pytest.mark.parametrize("name", ["Ball.onnx", "run_logs"])
def test_nothing_is_downloaded_through_a_link(hub, tmp_path, capsys, name):
    """A folder that came from somebody else may hold some, and the hub's package follows them."""
    victim = tmp_path / "mine"
    (victim / "run_logs").mkdir(parents=True)
    (victim / "Ball.onnx").write_text("precious")
    (tmp_path / "goals").mkdir()
    (tmp_path / "goals" / name).symlink_to(victim / name)
    arguments = ["hub", "load", "--repo-id", "you/goals", "--local-dir", str(tmp_path), "--force"]
    assert run(arguments) == 1
    assert str(victim / name) in capsys.readouterr().err
    assert (victim / "Ball.onnx").read_text() == "precious"
    (tmp_path / "goals" / name).unlink()
    assert run(arguments) == 0


@pytest.mark.parametrize("name", ["goals", "a/b/c", "/goals", "you/", "you/..", "you/a\\b"])
def test_a_repository_has_a_user_and_a_name(hub, name, capsys):
    with pytest.raises(SystemExit) as end:
        run(["hub", "load", "--repo-id", name])
    assert end.value.code == 2 and "expected USER/NAME" in capsys.readouterr().err


def test_a_refusal_by_the_hub_is_one_sentence(hub, folder, capsys):
    hub.error = ConnectionError("401 Client Error\nmore")
    assert push(folder) == 1
    said = capsys.readouterr().err
    assert "me/balls: ConnectionError: 401 Client Error" in said and "more" not in said
    assert run(["hub", "load", "--repo-id", "you/goals", "--local-dir", str(folder)]) == 1


def test_a_missing_huggingface_package_is_named(monkeypatch, folder, capsys):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert push(folder) == 1
    assert install_command("hub") in capsys.readouterr().err


@pytest.mark.posix("links need a right there")
@pytest.mark.parametrize("name", ["notes.txt", "Ball/videos", "configuration.yaml", "pipe"])
def test_what_leads_out_of_the_run_is_not_uploaded(hub, folder, tmp_path, capsys, name):
    victim = tmp_path / "mine"
    (victim / "videos").mkdir(parents=True)
    (victim / "notes.txt").write_text("precious")
    (victim / "configuration.yaml").write_text("behaviors: {precious: {}}")
    path = folder / name
    path.unlink(missing_ok=True)
    os.mkfifo(path) if name == "pipe" else path.symlink_to(victim / path.name)
    assert push(folder) == 1
    said = capsys.readouterr().err
    assert str(path) in said and ("a pipe or a device" if name == "pipe" else str(victim / path.name)) in said
    assert hub.uploaded is None


def test_settings_that_json_cannot_hold_are_named(hub, folder, capsys):
    (folder / "configuration.yaml").write_text("behaviors: {2001-01-01: {}}")
    assert push(folder) == 1
    assert "configuration.yaml has a name that is no text" in capsys.readouterr().err
