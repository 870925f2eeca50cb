"""The rules of the house (docs/architecture.md): layers, core and tools, sizes. `tests/house.py` counts."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from house import LAYERS, House, cycle
from lanista._tools import COMMANDS, ENTRIES, TOOLS, load
from lanista.envs.errors import RegistryError
from lanista.trainers.runner.environments import check_environment
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.options import RunOptions

ROOT = Path(__file__).parents[1]
HOUSE = House(ROOT)


def test_no_circular_imports_between_files():
    assert HOUSE.file_cycle() == ""


@pytest.mark.parametrize("layer", LAYERS)
def test_no_circular_imports_between_the_folders_of_a_layer(layer):
    assert cycle(HOUSE.folders(layer)) == ""


def test_no_layer_imports_from_above():
    assert HOUSE.upward() == []


def test_the_core_imports_no_tool():
    assert HOUSE.core_to_tools() == []


def test_a_file_of_tools_belongs_to_one_of_them_or_to_all():
    shared = {HOUSE.module(path) for path, tool in HOUSE.tools.items() if not tool}
    assert shared == {"trainers.tools", "trainers.tools.run_process"}


@pytest.mark.parametrize("name", TOOLS)
def test_the_places_of_a_tool_are_there(name):
    assert [place for place in TOOLS[name].places if not (ROOT / place).exists()] == []


def test_what_the_table_names_can_be_loaded():
    for entry in ENTRIES:
        for place in entry.provides.values():
            load(place)
    for command in COMMANDS.values():
        module = load(command.command)
        assert callable(module.add_arguments) and callable(module.run)


COPIED = [
    *LAYERS,
    "config",
    "docs",
    "_lazy.py",
    "_shadows.py",
    "_tools.py",
    "_version.py",
    "__init__.py",
    "py.typed",
]
CORE_TESTS = ["agent_processor/test_processor.py", "trainers/settings/test_validation.py"]
MORE_CORE_TESTS = ["agent_processor", "envs/manager", "trainers/algorithms/ppo", "trainers/buffers"]
"""Of parts of the core whose tests use no tool, such as a scene."""
WITHOUT = """
import importlib, sys
from lanista.trainers.cli.main import run
modules, commands = sys.argv[1].split(), sys.argv[2].split()
for module in modules:
    importlib.import_module(f"lanista.{module}")
for name in commands:
    try:
        run([name, "--help"])
    except SystemExit as end:
        assert not end.code, name
"""
"""Imports all of the core, and asks its commands for their help."""


def copy_without(names, folder):
    """A copy of the package without these tools: their places and their entries in the table are deleted."""
    package = folder / "lanista"
    package.mkdir()
    for entry in COPIED:
        if (source := ROOT / entry).is_dir():
            shutil.copytree(source, package / entry, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, package / entry)
    for place in (package / place for name in names for place in TOOLS[name].places):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    table = package / "_tools.py"
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    (entries,) = (
        node.value.elts
        for node in ast.parse("".join(lines)).body
        if isinstance(node, ast.Assign) and node.targets[0].id == "ENTRIES"
    )
    for entry in entries:
        if entry.args[0].value in names:
            lines[entry.lineno - 1 : entry.end_lineno] = [""] * (entry.end_lineno - entry.lineno + 1)
    table.write_text("".join(lines), encoding="utf-8")
    return package


def run_in(package, *arguments):
    """Run Python with the copy in the place of this package."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        cwd=package.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("names", [[name] for name in TOOLS] + [list(TOOLS)], ids=[*TOOLS, "all"])
def test_the_core_works_without_a_tool(names, tmp_path):
    package = copy_without(names, tmp_path)
    modules = [HOUSE.module(path) for path in HOUSE.files if path not in HOUSE.tools]
    modules = [module for module in modules if not module.endswith("__main__")]
    commands = [name for name, entry in COMMANDS.items() if not entry.places]
    done = run_in(package, "-c", WITHOUT, " ".join(modules), " ".join(commands))
    assert done.returncode == 0, done.stdout
    tests = [ROOT / "tests" / place for place in CORE_TESTS + MORE_CORE_TESTS * (len(names) > 1)]
    done = run_in(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", *tests)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "settings",
    [{"env_path": "registry:Game"}, {"listen": "localhost:0"}, {"env_path": "scene:basic", "ray": "local"}],
)
def test_a_run_that_needs_a_tool_which_is_not_there_says_so(settings, monkeypatch):
    monkeypatch.setattr("lanista._tools._PROVIDED", {})
    with pytest.raises((RegistryError, TrainerConfigError), match="this installation lacks the tool for"):
        check_environment(RunOptions.from_dict({"env_settings": settings}))


def test_inside_the_package_imports_are_relative():
    assert HOUSE.absolute_imports() == []


def test_public_class_names_are_unique():
    assert HOUSE.repeated_classes() == []


def test_functions_fit_a_screen():
    assert HOUSE.long_functions() == []


def test_a_file_has_one_subject():
    assert HOUSE.long_files() == []


def test_engine_options_are_passed_whole():
    """Two public constructors spell them out; everything else takes the one value."""
    assert len(HOUSE.doors()) <= 2


def test_arguments_are_not_unpacked_from_literals():
    assert HOUSE.star_calls() == []
