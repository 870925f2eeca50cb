"""The configurations that come with Lanista, by their names."""

from __future__ import annotations

from pathlib import Path

from .errors import TrainerConfigError
from .nearest import nearest
from .source import Source, read_text

FOLDER = Path(__file__).resolve().parents[2] / "config"
SUFFIX = ".yaml"


def preset_names() -> list[str]:
    """What `--preset` takes: the trainer and the scene, such as ppo/ball3d."""
    files = FOLDER.glob(f"*/*{SUFFIX}")
    return sorted(file.relative_to(FOLDER).as_posix().removesuffix(SUFFIX) for file in files)


def read_preset(name: str) -> Source:
    """The preset of this name.

    Raises:
        TrainerConfigError: there is none; names those that there are.
    """
    wanted = name.replace("\\", "/").removesuffix(SUFFIX)
    known = preset_names()
    if wanted not in known:
        alike = [preset for preset in known if preset.rpartition("/")[2] == wanted]
        close = " or ".join(alike) or nearest(wanted, known)
        hint = f" Did you mean {close}?" if close else ""
        raise TrainerConfigError(f"There is no preset {name!r}.{hint} There are: {', '.join(known)}.")
    return read_text((FOLDER / (wanted + SUFFIX)).read_text(encoding="utf-8"), f"preset {wanted}")
