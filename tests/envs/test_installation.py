"""Messages name a line that installs an extra: in a clone, beside it, and without one."""

import ast
import runpy
from pathlib import Path

import pytest
from lanista.envs.utils import installation
from lanista.envs.utils.installation import install_command

PACKAGE = Path(installation.__file__).resolve().parents[2]
LAYERS = ("envs", "agent_processor", "trainers")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    folder = tmp_path / "my clone"
    folder.mkdir()
    (folder / "setup.py").touch()
    monkeypatch.setattr(installation, "_PACKAGE", folder)
    return folder


def test_in_a_clone_the_clone_is_installed(clone, monkeypatch):
    monkeypatch.chdir(clone)
    assert install_command("relay") == 'pip install -e ".[relay]"'
    assert install_command() == 'pip install -e "."'


def test_elsewhere_the_clone_is_named(clone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert install_command("relay") == f'pip install -e "{clone}[relay]"'


def test_without_a_clone_pip_finds_what_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(installation, "_PACKAGE", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert install_command("relay") == 'pip install "lanista[relay]"'


@pytest.mark.posix("a folder that a process is in can be removed")
def test_a_removed_current_folder_is_no_clone(clone, tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert install_command("relay") == f'pip install -e "{clone}[relay]"'
    monkeypatch.chdir(tmp_path)


def asked():
    """The extras for which the product's messages ask for the line."""
    for path in (path for layer in LAYERS for path in sorted((PACKAGE / layer).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install_command":
                yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def test_messages_name_extras_that_there_are(monkeypatch):
    if not (PACKAGE / "setup.py").exists():
        pytest.skip("an installed package has no setup.py")
    described = {}
    monkeypatch.setattr("setuptools.setup", described.update)
    runpy.run_path(str(PACKAGE / "setup.py"))
    named = set(asked())
    assert len(named) > 5 and named <= set(described["extras_require"])


def test_messages_take_the_line_from_one_place_and_quote_for_every_shell():
    """cmd takes no single quotes: of 'torch>=2.4' it would write a file."""
    wrong = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.glob("*/**/*.py"))
        if path.relative_to(PACKAGE).parts[0] in LAYERS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if "pip install '" in line or ("lanista[" in line and path != Path(installation.__file__).resolve())
    ]
    assert wrong == []
