"""The scenes that come with Lanista, and their export as executables."""

import shlex
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.programs import windows_program
from .world import World

Renderer = Callable[[tuple[int, int], Any], NDArray[np.uint8]]
"""Draws a world as it is now: (width, height) in pixels and the world to an image [height, width, 3]."""


@dataclass(frozen=True, slots=True)
class SceneInfo:
    """One scene, loaded on demand: starting a scene loads neither the imaging library nor other scenes."""

    name: str
    summary: str
    world: str
    """The class of the scene, as "module:Class" in `worlds`."""
    renderer: str
    """The function that draws it (a `Renderer`), as "module:function" in `drawing`."""

    def load(self) -> type[World]:
        """Import the scene's class."""
        world: type[World] = _load("worlds", self.world)
        return world

    def draw(self, size: tuple[int, int], world: World) -> NDArray[np.uint8]:
        """Draw a world of this scene: a `Renderer`, whose module is imported by the first call."""
        image: NDArray[np.uint8] = _load("drawing", self.renderer)(size, world)
        return image


def _load(folder: str, place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f".{folder}.{module}", __package__), name)


SCENES = {
    name: SceneInfo(name, summary, world, renderer)
    for name, summary, world, renderer in (
        (
            "ball3d",
            "Unity's 3DBall: balance a ball on a box (continuous actions, 12 agents)",
            "ball3d:Ball3D",
            "ball3d_and_basic:draw_ball3d",
        ),
        (
            "basic",
            "Unity's Basic: find the better of two goals (discrete actions, 1 agent)",
            "basic:Basic",
            "ball3d_and_basic:draw_basic",
        ),
        (
            "baton-pass",
            "fetch a ball, press the button, and the next runner carries the baton on (teams of 1 to 20)",
            "baton_pass:BatonPass",
            "baton_pass:draw_baton_pass",
        ),
        (
            "coop-push",
            "Unity's Cooperative PushBlock: push blocks into a goal, the heaviest together (groups of 3)",
            "push_block:CoopPush",
            "push_block:draw_coop_push",
        ),
        (
            "dungeon-escape",
            "Unity's DungeonEscape: kill the dragon, carry the key to the door (groups of 3, one dies)",
            "dungeon_escape:DungeonEscape",
            "dungeon_escape:draw_dungeons",
        ),
        (
            "grid",
            "Unity's GridWorld: walk to the goal that is wanted, seen from above (images, goal signal)",
            "grid_world:GridWorld",
            "grid_world:draw_grids",
        ),
        (
            "hallway",
            "Unity's Hallway: remember a symbol and choose the goal that has it (memory)",
            "hallway:Hallway",
            "hallway:draw_halls",
        ),
        (
            "sorter",
            "Unity's Sorter: touch numbered tiles in ascending order (up to 20 tiles as entities)",
            "sorter:Sorter",
            "sorter:draw_sorter",
        ),
        (
            "wall-jump",
            "Unity's WallJump: over a wall, from a block where it is high (one agent, two behaviors)",
            "wall_jump:WallJump",
            "wall_jump:draw_wall_jump",
        ),
        (
            "food",
            "Unity's FoodCollector: gather food, freeze rivals (5 agents, a grid, hybrid actions)",
            "food_collector:Food",
            "food_collector:draw_food",
        ),
        (
            "pyramids",
            "Unity's Pyramids: find a switch, then the gold that it brings (one rare reward: curiosity)",
            "pyramids:Pyramids",
            "pyramids:draw_pyramids",
        ),
        (
            "soccer-twos",
            "Unity's SoccerTwos: two against two, one goal decides (two teams of two, self-play)",
            "soccer:SoccerTwos",
            "soccer:draw_soccer",
        ),
        (
            "tennis",
            "one against one over a net, seen from the side (continuous actions, self-play)",
            "tennis:Tennis",
            "tennis:draw_tennis",
        ),
    )
}


class UnknownSceneError(ValueError):
    """There is no scene of that name."""


def find(name: str) -> SceneInfo:
    """The scene `name`.

    Raises:
        UnknownSceneError: There is none; the message names the nearest and all.
    """
    if name in SCENES:
        return SCENES[name]
    near = get_close_matches(name.lower(), SCENES, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownSceneError(f"There is no scene {name!r}.{hint} Scenes: {', '.join(SCENES)}.")


def export(name: str, path: str | Path, platform: str = sys.platform) -> Path:
    """Write an executable that starts the scene, for any tool that starts Unity builds.

    The file calls the Python that runs now, wherever it is called from and whatever environment is
    active then; it is worthless on another machine.

    Args:
        name: The scene.
        path: The file; the suffix that tools for Unity's builds expect is added if missing: `.x86_64`, on
            Windows `.exe`.
        platform: The system that the executable is for, whose Python this has to be.

    Returns:
        The file that was written.

    Raises:
        UnknownSceneError: There is no such scene.
        OSError: The file cannot be written.
    """
    scene = find(name)
    path = Path(path)
    if path.is_dir():
        path = path / scene.name
    suffix = ".exe" if platform == "win32" else ".x86_64"
    if path.suffix != suffix:
        path = path.with_name(path.name + suffix)
    path.parent.mkdir(parents=True, exist_ok=True)
    if platform == "win32":
        path.write_bytes(windows_program(_SCRIPT.format(name=scene.name)))
        return path
    launcher = _LAUNCHER.format(summary=scene.summary, python=shlex.quote(sys.executable), name=scene.name)
    path.write_text(launcher, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


# Variables that were set for another Python, by the tool that starts the file, must not lead this one astray.
_LAUNCHER = """\
#!/bin/sh
# {summary}
# Started as a Unity build would be, with --mlagents-port N. Written by `lanista scenes export`.
unset PYTHONPATH PYTHONHOME
exec {python} -m lanista.envs.scenes {name} "$@"
"""
_SCRIPT = """\
import sys
from runpy import run_module

sys.argv.insert(1, "{name}")
run_module("lanista.envs.scenes", run_name="__main__", alter_sys=True)
"""
