"""The tutorials run from their first cell to their last, in a folder of their own, with few steps."""

import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

jupytext = pytest.importorskip("jupytext")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

TUTORIALS = sorted(Path(__file__).parents[1].glob("docs/tutorials/*.md"))
MADE = {
    "from-sb3": ["results/pole/CartPole-v1.onnx"],
    "own-game": ["results/catch/Catch.onnx", "catch.gif", "catch.html"],
    "teams": ["results/team-coma/DungeonEscape.onnx", "teams.gif", "teams.html", "results/rally/Tennis.onnx"],
    "unity": ["game.yaml", "results/game/3DBall.onnx"],
}
"""What each tutorial promises to leave."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a tutorial runs, with this environment's commands; its kernel leaves nothing at home."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STEPS", "2500")
    for variable in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / "jupyter"))
    return tmp_path


def test_every_tutorial_is_run():
    assert {page.stem for page in TUTORIALS} - {"README"} == set(MADE)


@pytest.mark.posix("its cells are for bash")
@pytest.mark.parametrize("name", sorted(MADE))
def test_a_tutorial_runs(name, folder):
    (page,) = [path for path in TUTORIALS if path.stem == name]
    notebook = jupytext.read(page)
    assert any(cell.cell_type == "code" for cell in notebook.cells)
    client = nbclient.NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    assert [made for made in MADE[name] if not (folder / made).exists()] == []
