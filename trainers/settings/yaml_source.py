"""YAML text as plain data with the line of every value, merged configurations, and presets."""

from __future__ import annotations

import copy
import os
import pathlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from ...envs.utils.bounded_yaml import ImpossibleValueError, load_yaml
from ...envs.utils.regular_files import MOST_BYTES, read_bytes
from ..utils.errors import nearest
from .errors import Path, Problem, TrainerConfigError

UNREADABLE_YAML = (
    yaml.YAMLError,
    ValueError,
    AttributeError,
    IndexError,
    KeyError,
    TypeError,
    RecursionError,
)
"""What reading a file that was altered raises, where keys are missing or values are of other types too."""


@dataclass
class Source:
    """A configuration, and where it comes from."""

    data: dict[str, Any] = field(default_factory=dict)
    """What was written, as plain values."""
    name: str = ""
    """The file's name; empty without a file."""
    places: dict[Path, str] = field(default_factory=dict)
    """Where each value was written, by its path in the tree."""

    def place(self, path: Path) -> str:
        """Where the value at `path`, or what contains it, was written."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return self.name


def read_file(path: str | os.PathLike[str], within: pathlib.Path | None = None) -> Source:
    """Read a YAML file; of a run, `within` its folder.

    Raises:
        TrainerConfigError: it does not exist, is larger than MOST_BYTES, or is not UTF-8 text or not YAML.
    """
    file = pathlib.Path(path)
    try:
        text = read_bytes(file, MOST_BYTES, within).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TrainerConfigError(
            [
                Problem(
                    (),
                    f"byte {error.start} is not UTF-8 text; save the file with the encoding UTF-8",
                    str(path),
                )
            ]
        ) from error
    except FileNotFoundError:
        message = f"Config file could not be found at {file.absolute()}. {_there(file)}"
        raise TrainerConfigError(message) from None
    except OSError as error:
        if file.is_dir():  # what the system then says differs: on Windows that permission is denied
            raise TrainerConfigError(f"{file.absolute()} is a folder. {_there(file / 'any.yaml')}") from None
        raise TrainerConfigError(
            f"Config file {file.absolute()} could not be read: {error.strerror}. See to it that "
            "you may read it, or name another file."
        ) from error
    return read_text(text, str(path))


def _there(file: pathlib.Path) -> str:
    """The YAML files in the folder of `file`."""
    folder = file.parent
    if not folder.is_dir():
        return f"There is no folder {folder}."
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix in (".yaml", ".yml"))
    names = [near] if (near := nearest(file.name, names)) else names[:5]
    return f"There is {', '.join(names)}." if names else f"No YAML file is in {folder.absolute()}."


def read_text(text: str, name: str) -> Source:
    """Read YAML text; `name` stands for it in messages.

    Raises:
        TrainerConfigError: it is not a YAML mapping, or a mapping has a key twice.
    """
    source = Source(name=name)
    repeated: list[Problem] = []
    try:
        data = _parse(text, source, repeated)
    except yaml.YAMLError as error:
        raise TrainerConfigError([_syntax_problem(error, text, name)]) from error
    except RecursionError as error:
        raise TrainerConfigError(
            [Problem((), "error parsing yaml: it is nested too deeply", name)]
        ) from error
    if repeated:
        raise TrainerConfigError(repeated)
    if data is None:
        return source
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "text" if isinstance(data, str) else "a single value"
        message = f"found {kind}, expected a mapping that begins like `behaviors:`"
        raise TrainerConfigError([Problem((), message, name)])
    source.data = data
    return source


def read_value(text: str) -> Any:
    """The value that YAML text holds; its mappings are read like those of a file.

    Raises:
        ValueError: it is not YAML, or a mapping has a key twice.
    """
    repeated: list[Problem] = []
    try:
        value = _parse(text, Source(), repeated)
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", None) or str(error).partition("\n")[0]) from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if repeated:
        raise ValueError(f"{repeated[0].key} stands twice in it")
    return value


def _syntax_problem(error: yaml.YAMLError, text: str, name: str) -> Problem:
    """Where the text is not YAML, and what to do."""
    mark = getattr(error, "problem_mark", None)
    if isinstance(error, ImpossibleValueError) and mark is not None:
        return Problem((), f"error parsing yaml: {error.problem}", f"{name}, line {mark.line + 1}")
    if isinstance(error, yaml.reader.ReaderError):
        place = f"{name}, line {text.count(chr(10), 0, error.position) + 1}"
        what = f"the character #x{error.character:04x} is not allowed in YAML"
        return Problem(
            (), f"error parsing yaml: {what}; save the file as text with the encoding UTF-8", place
        )
    if mark is None:
        return Problem((), f"error parsing yaml: {str(error).partition(chr(10))[0]}", name)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    place = f"{name}, line {mark.line + 1}, column {mark.column + 1}"
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return Problem((), "error parsing yaml: a tab indents this line; YAML wants spaces", place)
    what = getattr(error, "problem", None) or str(error).partition("\n")[0]
    if r"'\t'" in what:
        return Problem((), "error parsing yaml: a tab stands here; YAML wants spaces", place)
    if "escape character" in what:
        what += "; in double quotes a backslash begins one: write paths of Windows in single quotes"
    if "<stream end>" in what:
        what = "the text ends too early: a bracket or a quotation mark is still open"
    return Problem((), f"error parsing yaml: {what}. Look at this line and the one before it.", place)


def _parse(text: str, source: Source, repeated: list[Problem]) -> Any:
    return load_yaml(text, visit=lambda node: _Walk(source, repeated).visit(node, ()))


class _Walk:
    """Records the line of every value of a YAML tree and duplicate keys, and makes every key text."""

    def __init__(self, source: Source, repeated: list[Problem]) -> None:
        self.source = source
        self.repeated = repeated

    def visit(self, node: yaml.Node, path: Path) -> None:
        self.source.places[path] = f"{self.source.name}, line {node.start_mark.line + 1}"
        if isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self.visit(item, (*path, number))
        elif isinstance(node, yaml.MappingNode):
            self._mapping(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> None:
        seen: dict[str, int] = {}
        for key, value in sorted(node.value, key=lambda pair: not _merges(pair[0])):
            if _merges(key):  # first of all, since what is written here lies over it, wherever it stands
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    self.visit(merged, path)
                continue
            if isinstance(key, yaml.ScalarNode):
                key.tag = "tag:yaml.org,2002:str"  # a behavior called `No` or `007` keeps its name
            self.visit(value, (*path, str(key.value)))
            line = key.start_mark.line + 1
            self.source.places[(*path, str(key.value))] = f"{self.source.name}, line {line}"
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                message = f"it stands on line {seen[key.value]} already: keep one of them, or rename one"
                self.repeated.append(Problem((*path, key.value), message, f"{self.source.name}, line {line}"))
            seen[str(key.value)] = line


def _merges(key: yaml.Node) -> bool:
    """Whether the key is `<<`."""
    return bool(key.tag == "tag:yaml.org,2002:merge")


def under(defaults: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """`defaults` overridden by `own`: mappings are merged, the rest is replaced. Neither is changed."""
    merged = copy.deepcopy(defaults)
    drop_overridden(merged, own.get("hidden_units"))
    for key, value in own.items():
        below = merged.get(key)
        merged[key] = under(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def drop_overridden(mapping: dict[str, Any], hidden_units: Any) -> None:
    """Remove the number of layers, which later `hidden_units` have too if they are a list."""
    if isinstance(hidden_units, list):
        mapping.pop("num_layers", None)


def compose(sources: Iterable[Source]) -> Source:
    """All sources as one, in which later ones override earlier ones and every value has its place."""
    composed = Source()
    for source in sources:
        composed = _over(composed, source)
    return composed


def _over(base: Source, over: Source) -> Source:
    # A place below something that `over` replaces is not in the result any more, so it is never asked for;
    # only what `over` repeats has to be its own.
    return Source(
        under(base.data, over.data),
        ", ".join(name for name in (base.name, over.name) if name),
        {**base.places, **over.places},
    )


FOLDER = pathlib.Path(__file__).resolve().parents[2] / "config"
SUFFIX = ".yaml"


def preset_names() -> list[str]:
    """What `--preset` takes: the trainer and the scene, such as ppo/ball3d."""
    files = FOLDER.glob(f"*/*{SUFFIX}")
    return sorted(file.relative_to(FOLDER).as_posix().removesuffix(SUFFIX) for file in files)


def read_preset(name: str) -> Source:
    """The preset of this name.

    Raises:
        TrainerConfigError: there is none; names those that there are.
    """
    wanted = name.replace("\\", "/").removeprefix(f"{FOLDER.name}/").removesuffix(SUFFIX)
    known = preset_names()
    if wanted not in known:
        alike = [preset for preset in known if preset.rpartition("/")[2] == wanted.removeprefix("scene:")]
        close = " or ".join(alike) or nearest(wanted, known)
        hint = f"Did you mean {close}?" if close else f"There are: {', '.join(known)}."
        raise TrainerConfigError(f"There is no preset {name!r}. {hint}")
    return read_text((FOLDER / (wanted + SUFFIX)).read_text(encoding="utf-8"), f"preset {wanted}")
