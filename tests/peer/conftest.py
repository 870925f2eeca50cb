"""Finds a separate installation of ML-Agents 1.1.0."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lanista.envs.scenes.registry import export
from mlagentscheckpoints import run_python
from scripted_engine import free_port

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
MISSING = (
    "ML-Agents 1.1.0 is not installed aside. `tests/peer/install.sh --fast .cache/peer` does that; "
    "another place is named by the variable LANISTA_PEER (its Python)."
)


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.peer)
            item.add_marker(pytest.mark.slow)


class Peer:
    """ML-Agents' Python."""

    def __init__(self, python: Path) -> None:
        self.python = python

    def require_unreal(self) -> None:
        """Skip the test if it does not have the package of UnrealMLAgents."""
        found = subprocess.run([self.python, "-c", "import ueagents_envs"], capture_output=True, check=False)
        if found.returncode:
            pytest.skip(
                "ueagents-envs 1.0.0 is not installed beside ML-Agents: that was installed before. Delete "
                "it, and run `tests/peer/install.sh --fast .cache/peer`."
            )

    def run(self, script: str, *arguments: object, timeout: float = 300.0) -> str:
        """Run a script of this folder, or code after "-c"; what it printed. Fails with all of that."""
        return run_python(
            self.python, script if script == "-c" else HERE / script, *arguments, timeout=timeout
        )


@pytest.fixture(scope="session")
def peer() -> Peer:
    python = Path(os.environ.get("LANISTA_PEER") or ROOT / ".cache" / "peer" / "bin" / "python")
    if not python.exists():
        pytest.skip(MISSING)
    return Peer(python)


@pytest.fixture
def port() -> int:
    """A free port: ML-Agents does not search for one, and its default may be taken."""
    return free_port()


@pytest.fixture(params=["ball3d", "basic", "dungeon-escape"])
def scene(request, tmp_path) -> tuple[str, Path]:
    """A scene's name and the executable that starts it."""
    return request.param, export(request.param, tmp_path / request.param)


@pytest.fixture
def lanista_learn(tmp_path):
    """Trains by Lanista's console script; the folder of the run."""

    def learn(config: Path, *arguments: str) -> Path:
        subprocess.run(
            [
                *(sys.executable, "-m", "lanista.trainers.cli.main", "learn", str(config)),
                *("--run-id", "ours", "--results-dir", str(tmp_path / "results"), *arguments),
            ],
            check=True,
            timeout=300.0,
        )
        return tmp_path / "results" / "ours"

    return learn
