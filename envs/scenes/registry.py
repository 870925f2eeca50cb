"""The scenes that Lanista brings, and their export as executables."""

import shlex
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from .world import World


@dataclass(frozen=True, slots=True)
class SceneInfo:
    """One scene."""

    name: str
    summary: str
    load: Callable[[], type[World]]
    """Imports the scene and gives its class, whose keyword parameters are the scene's options."""


def _ball3d() -> type[World]:
    from .worlds.ball3d.scene import Ball3D

    return Ball3D


def _basic() -> type[World]:
    from .worlds.basic.scene import Basic

    return Basic


def _baton_pass() -> type[World]:
    from .worlds.baton_pass.scene import BatonPass

    return BatonPass


def _coop_push() -> type[World]:
    from .worlds.push_block.scene import CoopPush

    return CoopPush


def _dungeon_escape() -> type[World]:
    from .worlds.dungeon_escape.scene import DungeonEscape

    return DungeonEscape


def _grid() -> type[World]:
    from .worlds.grid_world.scene import GridWorld

    return GridWorld


def _hallway() -> type[World]:
    from .worlds.hallway.scene import Hallway

    return Hallway


def _sorter() -> type[World]:
    from .worlds.sorter.scene import Sorter

    return Sorter


def _wall_jump() -> type[World]:
    from .worlds.wall_jump.scene import WallJump

    return WallJump


def _food() -> type[World]:
    from .worlds.food_collector.scene import Food

    return Food


def _pyramids() -> type[World]:
    from .worlds.pyramids.scene import Pyramids

    return Pyramids


def _soccer_twos() -> type[World]:
    from .worlds.soccer.scene import SoccerTwos

    return SoccerTwos


def _tennis() -> type[World]:
    from .worlds.tennis.scene import Tennis

    return Tennis


SCENES = {
    scene.name: scene
    for scene in (
        SceneInfo(
            "ball3d", "Unity's 3DBall: balance a ball on a box (continuous actions, 12 agents)", _ball3d
        ),
        SceneInfo("basic", "Unity's Basic: find the better of two goals (discrete actions, 1 agent)", _basic),
        SceneInfo(
            "baton-pass",
            "fetch a ball, press the button, and the next runner carries the baton on (teams of 1 to 20)",
            _baton_pass,
        ),
        SceneInfo(
            "coop-push",
            "Unity's Cooperative PushBlock: push blocks into a goal, the heaviest together (groups of 3)",
            _coop_push,
        ),
        SceneInfo(
            "dungeon-escape",
            "Unity's DungeonEscape: kill the dragon, carry the key to the door (groups of 3, one dies)",
            _dungeon_escape,
        ),
        SceneInfo(
            "grid",
            "Unity's GridWorld: walk to the goal that is wanted, seen from above (pictures, goal signal)",
            _grid,
        ),
        SceneInfo(
            "hallway", "Unity's Hallway: remember a symbol and choose the goal that has it (memory)", _hallway
        ),
        SceneInfo(
            "sorter",
            "Unity's Sorter: touch numbered tiles in ascending order (up to 20 tiles as entities)",
            _sorter,
        ),
        SceneInfo(
            "wall-jump",
            "Unity's WallJump: over a wall, from a block where it is high (one agent, two behaviours)",
            _wall_jump,
        ),
        SceneInfo(
            "food",
            "Unity's FoodCollector: gather food, freeze rivals (5 agents, a grid, hybrid actions)",
            _food,
        ),
        SceneInfo(
            "pyramids",
            "Unity's Pyramids: find a switch, then the gold that it brings (one rare reward: curiosity)",
            _pyramids,
        ),
        SceneInfo(
            "soccer-twos",
            "Unity's SoccerTwos: two against two, one goal decides (two teams of two, self-play)",
            _soccer_twos,
        ),
        SceneInfo(
            "tennis",
            "one against one over a net, seen from the side (continuous actions, self-play)",
            _tennis,
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


def export(name: str, path: str | Path) -> Path:
    """Write an executable that starts the scene, for any tool that starts Unity builds.

    The file calls the Python that runs now, wherever it is called from and whatever environment is
    active then; it is worthless on another machine.

    Args:
        name: The scene.
        path: The file; `.x86_64` is added where it is missing, as tools for Unity's Linux builds ask for it.

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
    if path.suffix != ".x86_64":
        path = path.with_name(path.name + ".x86_64")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        _LAUNCHER.format(summary=scene.summary, python=shlex.quote(sys.executable), name=scene.name),
        encoding="utf-8",
    )
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
