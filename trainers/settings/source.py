"""YAML text as plain data, with the line of every value, so that errors can point at it."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import Any

import yaml

from .errors import Problem, TrainerConfigError

Path = tuple[str | int, ...]


@dataclass
class Source:
    """Where a configuration comes from, and what it says."""

    data: dict[str, Any] = field(default_factory=dict)
    """What was written, as plain values."""
    name: str = ""
    """The file's name; empty without a file."""
    places: dict[Path, str] = field(default_factory=dict)
    """Where each value was written, by its path in the tree."""
    repeated: list[str] = field(default_factory=list)
    """A sentence about each key that is given twice in one mapping."""

    def place(self, path: Path) -> str:
        """Where the value at `path`, or what contains it, was written."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return self.name


def read_file(path: str | pathlib.Path) -> Source:
    """Read a YAML file.

    Raises:
        TrainerConfigError: it does not exist, is no UTF-8 text or no YAML.
    """
    file = pathlib.Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TrainerConfigError(
            [
                Problem(
                    "",
                    f"byte {error.start} is not UTF-8 text; save the file with the encoding UTF-8",
                    str(path),
                )
            ]
        ) from error
    except FileNotFoundError:
        raise TrainerConfigError(f"Config file could not be found at {file.absolute()}.") from None
    except OSError as error:
        raise TrainerConfigError(
            f"Config file {file.absolute()} could not be read: {error.strerror}."
        ) from error
    return read_text(text, str(path))


def read_text(text: str, name: str) -> Source:
    """Read YAML text; `name` stands for it in messages.

    Raises:
        TrainerConfigError: it is no YAML mapping.
    """
    source = Source(name=name)
    try:
        data = _parse(text, source)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}, line {mark.line + 1}, column {mark.column + 1}" if mark else name
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise TrainerConfigError(
            [Problem("", f"error parsing yaml: {what}. Look at this line and the one before it.", place)]
        ) from error
    except (ValueError, OverflowError, RecursionError) as error:  # impossible dates, nesting without end
        raise TrainerConfigError([Problem("", f"error parsing yaml: {error}", name)]) from error
    if data is None:
        return source
    if not isinstance(data, dict):
        raise TrainerConfigError(
            [
                Problem(
                    "",
                    f"found a {type(data).__name__}, expected a mapping that begins like `behaviors:`",
                    name,
                )
            ]
        )
    source.data = data
    return source


def _parse(text: str, source: Source) -> Any:
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _Walk(source).visit(node, (), ())
        return loader.construct_document(node)
    finally:
        loader.dispose()


class _Walk:
    """Notes the line of every value of a YAML tree, and makes every key the text that was written."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def visit(self, node: yaml.Node, path: Path, above: tuple[int, ...]) -> None:
        if id(node) in above:
            raise yaml.constructor.ConstructorError(
                None, None, "an alias that contains itself", node.start_mark
            )
        self.source.places[path] = f"{self.source.name}, line {node.start_mark.line + 1}"
        above = (*above, id(node))
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self.visit(item, (*path, number), above)
        elif isinstance(node, yaml.MappingNode):
            self._mapping(node, path, above)

    def _mapping(self, node: yaml.MappingNode, path: Path, above: tuple[int, ...]) -> None:
        seen: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    self.visit(merged, path, above)
                continue
            if isinstance(key, yaml.ScalarNode):
                key.tag = "tag:yaml.org,2002:str"  # a behaviour called `No` or `007` keeps its name
            self.visit(value, (*path, str(key.value)), above)
            line = key.start_mark.line + 1
            self.source.places[(*path, str(key.value))] = f"{self.source.name}, line {line}"
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                dotted = ".".join(map(str, (*path, key.value)))
                self.source.repeated.append(
                    f"{self.source.name}: {dotted} is given on line {seen[key.value]} and again on line "
                    f"{line}; the later one counts."
                )
            seen[str(key.value)] = line
