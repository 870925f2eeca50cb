"""`lanista godot install`: the addon in a project, and what the command refuses."""

import hashlib
import json
import re

import pytest
from lanista.trainers.cli.main import run
from lanista.trainers.tools.godot import ADDON

FILES = sorted(path.relative_to(ADDON).as_posix() for path in ADDON.rglob("*") if path.is_file())


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project.godot").write_text("; Engine configuration file.\nconfig_version=5\n")
    return tmp_path


def installed(project):
    folder = project / "addons" / "lanista"
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.name.startswith("."))


def install(project, *options):
    return run(["godot", "install", str(project), *options])


def test_the_addon_is_copied_and_the_next_steps_are_named(project, capsys):
    assert install(project / "project.godot") == 0
    printed = capsys.readouterr().out
    assert set(FILES) <= set(installed(project)) and "sync.gd" in FILES
    assert f"{len(FILES)} files written" in printed and all(f"  {path}\n" in printed for path in FILES)
    assert f"--env godot:{project}" in printed and "1. " in printed and "3. " in printed
    assert (project / "addons" / "lanista" / "sync.gd").read_bytes() == (ADDON / "sync.gd").read_bytes()
    assert install(project) == 0
    assert "all were up to date" in capsys.readouterr().out


def test_a_changed_file_is_kept_unless_asked(project, capsys):
    install(project)
    changed = project / "addons" / "lanista" / "sync.gd"
    changed.write_text("extends Node\n")
    (project / "addons" / "lanista" / "group.gd").unlink()
    assert install(project) == 1
    assert "has changed files: sync.gd. Nothing was written" in capsys.readouterr().err
    assert changed.read_text() == "extends Node\n" and "group.gd" not in installed(project)
    assert install(project, "--force") == 0
    assert changed.read_bytes() == (ADDON / "sync.gd").read_bytes() and "group.gd" in installed(project)


def test_files_of_an_earlier_version_are_replaced_and_removed(project):
    """As that version left them: its record tells them from files that someone has changed."""
    install(project)
    folder = project / "addons" / "lanista"
    record = json.loads((folder / ".installed.json").read_text())
    for name, text in (
        ("sync.gd", "extends Node # 0.9\r\n"),
        ("old.gd", "extends Node\n"),
        ("mine.gd", "# mine\n"),
    ):
        (folder / name).write_text(text, newline="")
    (folder / "old.gd.uid").write_text("uid://x")
    kept = (project / "project.godot").read_bytes()
    earlier = {"sync.gd": b"extends Node # 0.9\n", "old.gd": b"extends Node\n", "../../project.godot": kept}
    record["files"] |= {path: hashlib.sha256(data).hexdigest() for path, data in earlier.items()}
    (folder / ".installed.json").write_text(json.dumps(record))
    assert install(project) == 0
    assert (folder / "sync.gd").read_bytes() == (ADDON / "sync.gd").read_bytes()
    assert "old.gd" not in installed(project) and "old.gd.uid" not in installed(project)
    assert "mine.gd" in installed(project) and (project / "project.godot").exists()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (None, "has no file project.godot. Expected: the folder of a Godot 4 project."),
        ("config_version=4\n", "has config_version=4: it is of Godot 3 or earlier"),
        ("[application]\n", "has no config_version: it is of Godot 3 or earlier"),
    ],
)
def test_what_is_no_project_of_godot_4_is_refused(tmp_path, capsys, settings, told):
    if settings is not None:
        (tmp_path / "project.godot").write_text(settings)
    assert install(tmp_path) == 1
    assert told in capsys.readouterr().err and not (tmp_path / "addons").exists()


def test_a_folder_that_is_not_there_is_refused(tmp_path, capsys):
    assert install(tmp_path / "nowhere") == 1
    assert "nowhere is no folder" in capsys.readouterr().err


def test_a_damaged_record_is_named(project, capsys):
    install(project)
    (project / "addons" / "lanista" / ".installed.json").write_text("{")
    assert install(project) == 1
    assert ".installed.json is damaged" in capsys.readouterr().err


def test_agents_of_both_dimensions_are_one_text():
    in_2d = (ADDON / "agent_2d.gd").read_text()
    assert (ADDON / "agent_3d.gd").read_text() == in_2d.replace("2D", "3D")


def test_the_addon_has_what_godots_asset_library_asks_for():
    """A description, a license with its holder, a drawing, and one version."""
    settings = (ADDON / "plugin.cfg").read_text()
    version = re.search(r'^const VERSION := "(.*)"', (ADDON / "sync.gd").read_text(), re.MULTILINE)[1]
    assert f'version="{version}"' in settings and 'script="plugin.gd"' in settings
    assert "Copyright 2026 The Lanista developers" in (ADDON / "LICENSE").read_text()
    assert {"README.md", "icon.svg", "plugin.gd"} <= set(FILES)
    for key in ("name", "description", "author"):
        assert re.search(rf'^{key}=".+"$', settings, re.MULTILINE)
