"""Fixtures of the tests of Lanista's addon: the real engine, and a project with the addon."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from godot_trainer import GodotGame
from lanista.trainers.cli.main import run

PROJECT = Path(__file__).parents[2] / "godot" / "lanista_project"
WARNINGS = [
    "assert_always_false",
    "assert_always_true",
    "confusable_capture_reassignment",
    "confusable_identifier",
    "confusable_local_declaration",
    "confusable_local_usage",
    "deprecated_keyword",
    "empty_file",
    "enum_variable_without_default",
    "get_node_default_without_onready",
    "incompatible_ternary",
    "inference_on_variant",
    "int_as_enum_without_cast",
    "int_as_enum_without_match",
    "integer_division",
    "missing_tool",
    "narrowing_conversion",
    "native_method_override",
    "onready_with_export",
    "redundant_await",
    "redundant_static_unload",
    "shadowed_global_identifier",
    "shadowed_variable",
    "shadowed_variable_base_class",
    "standalone_expression",
    "standalone_ternary",
    "static_called_on_instance",
    "unassigned_variable",
    "unassigned_variable_op_assign",
    "unreachable_code",
    "unreachable_pattern",
    "unsafe_void_return",
    "unused_local_constant",
    "unused_parameter",
    "unused_private_class_variable",
    "unused_signal",
    "unused_variable",
]
"""The warnings that the engine has on by default; in the tests' project each is an error, in add-ons too."""
STRICT = 'exclude_addons=false\ngdscript/warnings/directory_rules={"res://addons": 1, "res://moved": 0}'


@pytest.fixture(scope="session")
def project(godot_engine, tmp_path_factory):
    """The tests' project with the addon installed, imported with all of the engine's warnings as errors."""
    folder = tmp_path_factory.mktemp("godot") / "project"
    shutil.copytree(PROJECT, folder)
    assert run(["godot", "install", str(folder)]) == 0
    with (folder / "project.godot").open("a") as settings:
        settings.write(f"\n[debug]\n\ngdscript/warnings/{STRICT}\n")
        settings.writelines(f"gdscript/warnings/{warning}=2\n" for warning in WARNINGS)
    command = [godot_engine, "--headless", "--path", folder, "--import"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == 0 and not re.search("ERROR|WARNING", printed), printed
    return folder


@pytest.fixture
def play(godot_engine, project):
    """Start a scene; it ends with the test."""
    games = []

    def start(scene, *arguments):
        games.append(GodotGame(godot_engine, project, scene, *arguments))
        return games[-1]

    yield start
    for game in games:
        game.__exit__()
