"""Packages with entry points, as pip would have installed them, without pip."""

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path, entry_points: Mapping[str, Mapping[str, str]], modules: Mapping[str, str] | None = None
) -> Path:
    """Put a package `sample` 1.2 into `folder`: entry points by group and name, modules by name."""
    info = folder / "sample-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample\nVersion: 1.2\n")
    lines = []
    for group, entries in entry_points.items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for name, text in (modules or {}).items():
        (folder / f"{name}.py").write_text(text)
    return folder
