"""An exported Godot game of the tests, by the engine that tests/godot/install.sh has put aside."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from results import ROOT

PRESET = """[preset.0]
name="Linux"
platform="Linux"
runnable=true
export_filter="all_resources"

[preset.0.options]
binary_format/architecture="x86_64"
"""


def exported_game(folder: Path) -> Path:
    """Export tests/godot/upstream_project: its pack, and the engine's release template, which plays it.

    That template, of a newer system, is started by its own loader, and a Godot game looks for its pack beside
    the program that runs, with the program's name: so a copy of the loader gets the game's name.

    Raises:
        SystemExit: There is no such engine; the message says what to do.
    """
    from godot_engine import find_engine, imported_project  # where `results` finds it

    engine = find_engine() or ""
    root = Path(engine).parent / "root" / "usr"
    template, loader = root / "bin" / "godot-template-release", next(root.glob("lib/*/ld-linux-*.so.*"), None)
    if loader is None or not template.exists():
        raise SystemExit(
            "No release template beside the engine: bash tests/godot/install.sh .cache/godot puts both "
            f"aside. Or export {ROOT / 'tests' / 'godot' / 'upstream_project'} in Godot's editor, and give "
            "--game FILE."
        )
    project = folder / "project"
    shutil.copytree(imported_project(engine, "upstream_project"), project)
    (project / "export_presets.cfg").write_text(PRESET, encoding="utf-8")
    command = [engine, "--headless", "--path", project, "--export-pack", "Linux", folder / "chase.pck"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not (folder / "chase.pck").exists():
        raise SystemExit(f"The export failed:\n{done.stdout}{done.stderr}")
    shutil.copy(loader, folder / "chase")
    libraries = os.pathsep.join([str(loader.parent), str(loader.parent / "pulseaudio")])
    game = folder / "chase.x86_64"
    game.write_text(
        f'#!/bin/sh\nHOME={folder} exec {folder / "chase"} --library-path {libraries} {template} "$@"\n',
        encoding="utf-8",
    )
    game.chmod(0o755)
    return game
