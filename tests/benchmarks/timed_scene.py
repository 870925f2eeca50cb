"""The ball3d scene, run as an engine that notes when it was first told to step.

    timed_scene.py --mlagents-port N [--areas N] [--mark FILE]

Benchmarks start trainers with `executable` in place of the exported scene: the same world and the same wire,
and FILE then holds the time (of the system's clock, seconds) of the first environment step.
"""

import shlex
import sys
import time
from pathlib import Path

from lanista.envs.scenes.ball3d import Ball3D
from lanista.envs.scenes.client import main


class TimedBall3D(Ball3D):
    def __init__(self, areas: int = 12, mark: str = "") -> None:
        super().__init__(areas)
        self._mark = mark

    def step(self, actions):
        if self._mark:
            Path(self._mark).write_text(repr(time.time()))
            self._mark = ""
        return super().step(actions)


def executable(folder: Path) -> Path:
    """Writes a file that any trainer can start as its environment."""
    path = folder / "timed_ball3d.x86_64"
    command = shlex.join([sys.executable, str(Path(__file__).resolve())])
    path.write_text(f'#!/bin/sh\nunset PYTHONPATH PYTHONHOME\nexec {command} "$@"\n')
    path.chmod(0o755)
    return path


if __name__ == "__main__":
    sys.exit(main(TimedBall3D))
