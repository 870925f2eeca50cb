"""The ready configurations: which environment each is for, and the command that trains with it."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...envs.python import in_process
from ...envs.scenes.registry import SCENES
from ..utils.errors import did_you_mean, nearest
from ..utils.text import typed
from .yaml_source import FOLDER, SUFFIX, preset_names

SCENE = "scene:"
FLAG = "--preset"
_ENVIRONMENT = re.compile(r"`--env (?:\"([^\"]+)\"|([^\s`]+))(?: --num-areas (\d+))?`")
_TRAINERS = ("poca", "ppo")
"""The first of them that has a preset for a scene is the one to begin with."""
_BEST = {"pyramids": "ppo/pyramids-small-rnd"}
"""Scenes that need more than their trainer's own preset."""
_ENGINES = (SCENE, "godot:", "unreal:", "registry:")
_PROGRAMS = (".x86_64", ".x86", ".exe", ".app", ".pck")


@dataclass(frozen=True)
class Preset:
    """A ready configuration and what it was made for."""

    name: str
    """As `--preset` takes it, such as ppo/ball3d."""
    env: str
    """As `--env` takes it."""
    areas: int | None
    """The number of areas that it is meant for, if that is not the environment's own."""

    @classmethod
    def read(cls, name: str) -> Preset:
        """The preset of this name, from the comment at its top."""
        text = (FOLDER / (name + SUFFIX)).read_text(encoding="utf-8")
        found = _ENVIRONMENT.search(text)
        assert found is not None, f"{name} does not say which environment it is for"
        return cls(name, found[1] or found[2], int(found[3]) if found[3] else None)

    def arguments(self) -> list[str]:
        """Those of `lanista-learn` for the environment."""
        return ["--env", self.env, *(["--num-areas", str(self.areas)] if self.areas else [])]

    def command(self) -> str:
        """What to type to train with it."""
        run_id = self.name.rpartition("/")[2]
        return typed(["lanista-learn", FLAG, self.name, *self.arguments(), "--run-id", run_id])


def scene_preset(scene: str) -> Preset:
    """The preset to begin with in a scene: of its small size, which is learned in minutes, if it has one."""
    known = preset_names()
    names = [f"{trainer}/{scene}{size}" for size in ("-small", "") for trainer in _TRAINERS]
    return Preset.read(_BEST.get(scene) or next(name for name in names if name in known))


def preset_for(word: str) -> str | None:
    """The name of the preset that a word means: its own name or path, or a scene; None if it is neither."""
    path = word.replace("\\", "/").removesuffix(SUFFIX)
    name = "/".join(path.split("/")[-2:])
    if name in preset_names():
        return name
    scene = path.removeprefix(SCENE).partition("?")[0]
    return scene_preset(scene).name if scene in SCENES else None


def is_environment(word: str) -> bool:
    """Whether a name is that of an environment, by its beginning or its end."""
    return in_process(word) or word.startswith(_ENGINES) or pathlib.Path(word).suffix in _PROGRAMS


def what_was_meant(word: str, rest: Sequence[str]) -> str | None:
    """What to type in place of a name that is no configuration file; None if that cannot be told.

    Args:
        word: The name that was given for a configuration file.
        rest: The other arguments of the command.
    """
    given = {one.partition("=")[0] for one in rest}
    configured = FLAG in given or any(one.endswith((SUFFIX, ".yml")) for one in given)
    if configured and "--env" not in given and is_environment(word):
        return f"{word} is an environment. Type: {typed(['lanista-learn', '--env', word, *rest])}"
    known = preset_names()
    path = word.replace("\\", "/").removesuffix(SUFFIX)
    preset = "/".join(path.split("/")[-2:])
    if preset in known:
        return f"{word} is not here, but it comes with Lanista. Type: {_completed(Preset.read(preset), rest)}"
    if path.startswith(FOLDER.name + "/") and (near := nearest(preset, known)):
        return f"{word} is not here. Did you mean: {_completed(Preset.read(near), rest)}"
    if word.startswith(SCENE) or path in SCENES:
        return _scene(word, rest)
    if is_environment(word):
        return (
            f"{word} is an environment, and a configuration is needed too. "
            f"{typed(['lanista', 'init', '--env', word])} "
            "writes one and prints the command that trains with it."
        )
    close = did_you_mean(path, SCENES)
    return f"There is no file {word}.{close} lanista scenes lists all scenes." if close else None


def _scene(word: str, rest: Sequence[str]) -> str:
    """For a scene, which was typed with or without `scene:` and its options."""
    env = word if word.startswith(SCENE) else SCENE + word.removesuffix(SUFFIX)
    name = env.removeprefix(SCENE).partition("?")[0]
    if name not in SCENES:
        return f"There is no scene {name}.{did_you_mean(name, SCENES)} lanista scenes lists all."
    presets = map(Preset.read, (one for one in preset_names() if one.startswith(_TRAINERS)))
    exact = next((one for one in presets if one.env == word), None)
    preset = exact or scene_preset(name)
    return f"{word} is a scene, and a configuration is needed too. Type: {_completed(preset, rest)}"


def _completed(preset: Preset, rest: Sequence[str]) -> str:
    """The command for a preset, with the arguments that were given, and with those that were not."""
    given = {word.partition("=")[0] for word in rest}
    words = ["lanista-learn", FLAG, preset.name]
    if "--env" not in given:
        words += preset.arguments()
    if "--run-id" not in given:
        words += ["--run-id", preset.name.rpartition("/")[2]]
    return typed([*words, *rest])
