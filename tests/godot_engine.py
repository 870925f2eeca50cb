"""A real Godot for tests, and projects that it has imported.

The engine is the one that LANISTA_GODOT names, or the one that `bash tests/godot/install.sh .cache/godot` has
put aside. Tests that ask for it are skipped where there is neither.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[1]
PROJECTS = ROOT / "tests" / "godot"
INSTALLED = ROOT / ".cache" / "godot" / "godot"
IMPORT_SECONDS = 300


def find_engine() -> str | None:
    """The engine's program, if there is one."""
    named = os.environ.get("LANISTA_GODOT")
    if named:
        return named
    return str(INSTALLED) if INSTALLED.exists() else None


@pytest.fixture(scope="session")
def godot_engine() -> Iterator[str]:
    """The engine's program, which what the tests run finds as well."""
    pytest.importorskip("torch", reason="real games are played where torch is, on one Python")
    engine = find_engine()
    if engine is None:
        pytest.skip("there is no Godot: bash tests/godot/install.sh .cache/godot puts one aside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANISTA_GODOT", engine)
        yield engine


def imported_project(engine: str, name: str, extra: dict[str, Path] | None = None) -> Path:
    """A copy of tests/godot/NAME that the engine has imported, made once and shared by all tests.

    `extra`: folders that are copied into it, by their places in it.
    """
    sources = {"": PROJECTS / name, **(extra or {})}
    digest = hashlib.sha256(engine.encode())
    for place, source in sorted(sources.items()):
        for path in sorted(source.rglob("*")):
            if path.is_file():
                digest.update(f"{place}/{path.relative_to(source)}".encode() + path.read_bytes())
    folder = ROOT / ".cache" / "godot_projects" / f"{name}-{digest.hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / ".godot" / "global_script_class_cache.cfg").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for place, source in sources.items():
                shutil.copytree(source, folder / place, dirs_exist_ok=True)
            done = subprocess.run(
                [engine, "--headless", "--path", str(folder), "--import"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=IMPORT_SECONDS,
                text=True,
                errors="replace",
            )
            assert (folder / ".godot" / "global_script_class_cache.cfg").exists(), done.stdout
    return folder


@pytest.fixture
def upstream_project(godot_engine: str) -> Path:
    """The project with the plugin godot_rl_agents: chase.tscn, two_policies.tscn and camera.tscn."""
    return imported_project(godot_engine, "upstream_project")
