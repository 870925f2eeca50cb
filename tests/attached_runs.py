"""Runs of `lanista-learn` that wait for engines, and scenes that connect to them by themselves."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from console_runs import YAML, Ended, end, start, until

BASIC = YAML.replace("Ball:", "Basic:")
"""For `scene:basic`."""
PATIENCE = 60.0
"""Seconds for a scene to end."""


class AttachedRun:
    """A run that listens for engines."""

    def __init__(self, folder: Path, port: int, *arguments: str, max_steps: int = 600) -> None:
        self.folder = folder
        self.port = port
        self._output = folder / "output.txt"
        with self._output.open("w") as output:
            self.process = start(
                folder,
                *("--listen", f"127.0.0.1:{port}", *arguments),
                yaml=BASIC.replace("400", str(max_steps)),
                stdout=output,
            )
        assert self.says("Waiting for")

    @property
    def said(self) -> str:
        """Its console so far."""
        return self._output.read_text()

    def says(self, text: str) -> bool:
        """Wait until it says this."""
        return until(lambda: text in self.said)

    def end(self) -> Ended:
        """Wait until it has ended well."""
        ended = end(self.process, self.folder)
        ended.out = self.said
        assert ended.status == 0, ended.err
        assert "Traceback" not in ended.out + ended.err
        return ended


@contextmanager
def scenes() -> Iterator["Scenes"]:
    """Starts scenes, and kills those that are left."""
    made = Scenes()
    try:
        yield made
    finally:
        for process in made.processes:
            process.kill()
            process.wait(PATIENCE)


class Scenes:
    def __init__(self) -> None:
        self.processes: list[subprocess.Popen] = []

    def __call__(self, port: int, name: str = "basic", *, unreal: bool = False) -> subprocess.Popen:
        """Start a scene that connects to this port, as an engine of Unity or of Unreal."""
        argument = "-mlAgentPort" if unreal else "--mlagents-port"
        command = [sys.executable, "-m", "lanista.envs.scenes", name, argument, str(port)]
        self.processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return self.processes[-1]
