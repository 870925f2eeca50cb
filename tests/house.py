"""Counts of the house, and what its rules are checked by: python tests/house.py [FOLDER] [--list]

Files are read as text. An import counts wherever it stands: at the top of a file, for types only, or within a
function. `--list` also prints what is behind each count that should be zero, and the largest files.
"""

import argparse
import ast
import runpy
import statistics
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

LAYERS = ("envs", "agent_processor", "trainers")
"""The layers, from bottom to top."""
LONGEST_FILE, LONGEST_FUNCTION = 450, 75
ENGINE_OPTIONS = frozenset(
    {"additional_args", "allow", "base_port", "connect", "env_args", "images", "listen", "log_folder"}
    | {"no_graphics", "no_graphics_monitor", "non_finite", "num_areas", "seed", "time_scale"}
    | {"timeout_wait", "transport", "worker_id"}
)
"""What one value of options carries; a signature that spells out four of them opens a door of its own."""
MOST_OPTIONS = 3


class House:
    """The package below a folder, as its files are written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = [path for layer in LAYERS for path in sorted((root / layer).rglob("*.py"))]
        self.trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in self.files}
        self.modules = {self.module(path): path for path in self.files}
        self.lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in self.files}

    def module(self, path: Path) -> str:
        """The dotted name of a file, without the package's."""
        parts = path.relative_to(self.root).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @cached_property
    def imports(self) -> dict[Path, set[Path]]:
        """For each file the files of the package that it imports."""
        return {path: set(self._imported(path)) for path in self.files}

    def _imported(self, path: Path) -> Iterator[Path]:
        package = path.relative_to(self.root).parts[:-1]
        for node in ast.walk(self.trees[path]):
            if not isinstance(node, ast.ImportFrom) or not node.level:
                continue
            base = [*package[: len(package) - node.level + 1], *filter(None, [node.module])]
            for alias in node.names:
                found = self.modules.get(".".join([*base, alias.name])) or self.modules.get(".".join(base))
                if found is not None and found != path:
                    yield found

    def folders(self, layer: str) -> dict[str, set[str]]:
        """The folders and files at the top of a layer, each with those that it imports from."""
        top = self.root / layer
        graph: dict[str, set[str]] = {}
        for path, targets in self.imports.items():
            if path.is_relative_to(top) and path.parent != top.parent and path.name != "__init__.py":
                folder = path.relative_to(top).parts[0]
                inside = (t for t in targets if t.is_relative_to(top) and t.name != "__init__.py")
                graph.setdefault(folder, set()).update(t.relative_to(top).parts[0] for t in inside)
        return {folder: targets - {folder} for folder, targets in graph.items()}

    def upward(self) -> list[str]:
        """Imports of a higher layer by a lower one."""
        return [
            self._arrow(path, target)
            for path, targets in self.imports.items()
            for target in targets
            if self._layer(target) > self._layer(path)
        ]

    def _layer(self, path: Path) -> int:
        return LAYERS.index(path.relative_to(self.root).parts[0])

    def _arrow(self, path: Path, target: Path) -> str:
        return f"{self.module(path)} -> {self.module(target)}"

    @cached_property
    def tools(self) -> dict[Path, str]:
        """The files of tools, each with the tool's name, as the folder's `_tools.py` places them."""
        tools = runpy.run_path(str(self.root / "_tools.py"))["TOOLS"].values()
        places = [(self.root / place, tool.name) for tool in tools for place in tool.places]
        own = {p: name for p in self.files for place, name in places if p == place or p.is_relative_to(place)}
        shared = {path: "" for path in self.files if path.is_relative_to(self.root / "trainers" / "tools")}
        return shared | own

    def core_to_tools(self) -> list[str]:
        """Imports of tools by the core."""
        return [
            self._arrow(path, target)
            for path, targets in self.imports.items()
            for target in targets
            if path not in self.tools and target in self.tools
        ]

    def functions(self) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
        """All functions and methods, each with its file."""
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield path, node

    def long_functions(self) -> list[str]:
        """Functions that do not fit a screen."""
        return [f"{self.module(p)}.{f.name}" for p, f in self.functions() if _length(f) > LONGEST_FUNCTION]

    def long_files(self) -> list[str]:
        """Files that are longer than one subject should be."""
        return [f"{self.module(path)} {n}" for path, n in self.lines.items() if n > LONGEST_FILE]

    def doors(self) -> list[str]:
        """Signatures that spell out four engine options or more."""
        return [
            f"{self.module(path)}:{node.lineno} {node.name}"
            for path, node in self.functions()
            if len({a.arg for a in (*node.args.args, *node.args.kwonlyargs)} & ENGINE_OPTIONS) > MOST_OPTIONS
        ]

    def star_calls(self) -> list[str]:
        """Calls with arguments in a literal tuple or list that is unpacked at once."""
        return [
            f"{self.module(path)}:{node.lineno}"
            for path, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and any(
                isinstance(a, ast.Starred) and isinstance(a.value, (ast.Tuple, ast.List)) for a in node.args
            )
        ]

    def absolute_imports(self) -> list[str]:
        """Imports of the package by its own name, from inside it."""

        def own(name: str | None) -> bool:
            return (name or "").split(".")[0] == "lanista"

        return [
            f"{self.module(path)}:{node.lineno}"
            for path, tree in self.trees.items()
            for node in ast.walk(tree)
            if (isinstance(node, ast.ImportFrom) and not node.level and own(node.module))
            or (isinstance(node, ast.Import) and any(own(alias.name) for alias in node.names))
        ]

    def repeated_classes(self) -> list[str]:
        """Names of public classes that several files define."""
        names = Counter(
            node.name
            for tree in self.trees.values()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        )
        return [name for name, count in names.items() if count > 1]

    def file_cycle(self) -> str:
        """A circle of imports between files; empty if there is none."""
        return cycle(
            {self.module(p): {self.module(t) for t in targets} for p, targets in self.imports.items()}
        )


def cycle(graph: dict[str, set[str]]) -> str:
    """A cycle of the graph as a readable chain; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return " -> ".join(str(node) for node in error.args[1])
    return ""


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--list", action="store_true", help="print what is behind the counts, too")
    arguments = parser.parse_args()
    house = House(arguments.folder.resolve())
    of_tools = sum(n for path, n in house.lines.items() if path in house.tools)
    lengths = [_length(node) for _, node in house.functions()]
    counts = {
        "files": len(house.files),
        "lines": sum(house.lines.values()),
        "lines of the core": sum(house.lines.values()) - of_tools,
        "lines of tools": of_tools,
        "lines of tests": sum(
            len(p.read_text(encoding="utf-8").splitlines()) for p in (house.root / "tests").rglob("*.py")
        ),
        "depth": max(len(path.relative_to(house.root).parts) for path in house.files),
        **{
            f"entries of {layer}": sum(p.name not in ("__init__.py", "__pycache__") for p in top.iterdir())
            for layer in LAYERS
            if (top := house.root / layer)
        },
        "median file": statistics.median(house.lines.values()),
        "longest file": max(house.lines.values()),
        "median function": statistics.median(lengths),
        "longest function": max(lengths),
    }
    zeros = {
        f"files over {LONGEST_FILE} lines": house.long_files(),
        f"functions over {LONGEST_FUNCTION} lines": house.long_functions(),
        "imports from below to above": house.upward(),
        "imports from core to tools": house.core_to_tools(),
        "circles of files": [found] if (found := house.file_cycle()) else [],
        "circles of folders": [found for layer in LAYERS if (found := cycle(house.folders(layer)))],
        "public class names used twice": house.repeated_classes(),
        "signatures with four engine options": house.doors(),
        "calls with unpacked literal arguments": house.star_calls(),
    }
    for name, count in (counts | {name: len(found) for name, found in zeros.items()}).items():
        print(f"{name}: {count:,}")
    if arguments.list:
        for name, found in zeros.items():
            print(f"\n{name}:", *found, sep="\n  ")
        largest = sorted(house.lines.items(), key=lambda item: -item[1])[:10]
        print("\nlargest files:", *(f"{house.module(path)} {n}" for path, n in largest), sep="\n  ")


if __name__ == "__main__":
    main()
