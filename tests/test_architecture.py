"""The layers: trainers may import agent_processor and envs, these nothing above them; no import is circular.

Every import counts: at the top of a file, for types only, and within functions.
"""

import ast
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("envs", "agent_processor", "trainers")
"""The layers, from bottom to top."""
LONGEST_FUNCTION = 75

FILES = [path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.py"))]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def module(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(path): path for path in FILES}


def imported(path):
    """The files of the package that a file imports from."""
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(TREES[path]):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = [*package[: len(package) - node.level + 1], *filter(None, [node.module])]
        for alias in node.names:
            target = ".".join([*base, alias.name])
            found = MODULES.get(target) or MODULES.get(".".join(base))
            if found is not None and found != path:
                yield found


IMPORTS = {path: set(imported(path)) for path in FILES}


def top_folders(layer):
    """The folders and files at the top of a layer, each with those that it imports from."""
    top = ROOT / layer
    graph = {}
    for path, targets in IMPORTS.items():
        if path.is_relative_to(top) and path.parent != top.parent and path.name != "__init__.py":
            folder = path.relative_to(top).parts[0]
            inside = (t for t in targets if t.is_relative_to(top) and t.name != "__init__.py")
            graph.setdefault(folder, set()).update(t.relative_to(top).parts[0] for t in inside)
    return {folder: targets - {folder} for folder, targets in graph.items()}


def cycle(graph):
    """A cycle of the graph as a readable chain; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(str(node) for node in error.args[1])
    return ""


def test_no_circular_imports_between_files():
    assert cycle({module(path): {module(t) for t in targets} for path, targets in IMPORTS.items()}) == ""


@pytest.mark.parametrize("layer", LAYERS)
def test_no_circular_imports_between_the_folders_of_a_layer(layer):
    assert cycle(top_folders(layer)) == ""


def test_no_layer_imports_from_above():
    rank = {layer: k for k, layer in enumerate(LAYERS)}
    upward = [
        f"{module(path)} -> {module(target)}"
        for path, targets in IMPORTS.items()
        for target in targets
        if rank[module(target).split(".")[0]] > rank[module(path).split(".")[0]]
    ]
    assert upward == []


def test_inside_the_package_imports_are_relative():
    absolute = [
        f"{module(path)}:{node.lineno}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").split(".")[0] == "lanista"
        )
        or (isinstance(node, ast.Import) and any(a.name.split(".")[0] == "lanista" for a in node.names))
    ]
    assert absolute == []


def test_public_class_names_are_unique():
    classes = Counter(
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_functions_fit_a_screen():
    long = [
        f"{module(path)}.{node.name}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []
