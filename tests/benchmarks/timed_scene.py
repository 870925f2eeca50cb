"""A scene of Lanista's, or of light_scenes.py, as an engine that notes when it was first stepped.

    timed_scene.py NAME --mlagents-port N [--mark FILE] [--burn MS] [options of the scene]

Benchmarks start trainers with `executable` in place of the exported scene: the same world and the same wire,
and FILE then holds the time (of the system's clock, seconds) of the first environment step. Each step
computes for MS milliseconds of processor time more, as a game's own work does.
"""

import argparse
import shlex
import sys
import time
from pathlib import Path

from lanista.envs.scenes.client import main
from lanista.envs.scenes.registry import find
from lanista.envs.scenes.world import World
from light_scenes import Duel, Teams


def timed(world: type[World], mark: str, burn: float = 0.0) -> type[World]:
    """The same world with the same options, which notes its first step in the file `mark`.

    `burn`: milliseconds that each step costs more.
    """

    class Timed(world):
        def step(self, actions):
            nonlocal mark
            if mark:
                Path(mark).write_text(repr(time.time()))
                mark = ""
            end = time.thread_time() + burn / 1000  # of this thread's own, however busy the machine is
            while burn and time.thread_time() < end:
                pass
            return super().step(actions)

    return Timed


def executable(folder: Path, scene: str = "ball3d") -> Path:
    """Writes a file that any trainer can start as its environment."""
    path = folder / f"timed_{scene}.x86_64"
    command = shlex.join([sys.executable, str(Path(__file__).resolve()), scene])
    path.write_text(f'#!/bin/sh\nunset PYTHONPATH PYTHONHOME\nexec {command} "$@"\n')
    path.chmod(0o755)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--mark", default="")
    parser.add_argument("--burn", type=float, default=0.0)
    given, others = parser.parse_known_args(sys.argv[2:])
    light = {"team": Teams, "duel": Duel}
    scene = light.get(sys.argv[1]) or find(sys.argv[1]).load()
    sys.exit(main(timed(scene, given.mark, given.burn), others, sys.argv[1]))
