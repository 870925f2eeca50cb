"""The table of imports in docs/from-ml-agents.md: what it says of Lanista can be imported."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "from-ml-agents.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `from mlagents")
]
IMPORT = re.compile(r"`(from [\w.]+ import [^`]+)`")


def ours():
    return [IMPORT.search(row[1])[1] for row in ROWS]


def test_every_row_names_its_module():
    assert len(ROWS) > 20
    assert all(len(row) == 2 and IMPORT.fullmatch(row[0]) and IMPORT.search(row[1]) for row in ROWS)


@pytest.mark.parametrize("statement", ours())
def test_our_names_can_be_imported(statement):
    exec(statement, {})


@pytest.mark.slow
def test_settings_and_environments_load_no_torch():
    wanted = [s for s in ours() if "envs" in s or ".settings" in s or "stats" in s or "learn" in s]
    code = "; ".join([*wanted, "import sys", "assert 'torch' not in sys.modules"])
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:60])
def test_names_in_both_packages_are_equal(row):
    theirs, here = (IMPORT.search(cell)[1].partition(" import ")[2] for cell in row)
    changed = {"run_cli"}
    assert theirs == here or theirs in changed
