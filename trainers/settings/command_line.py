"""The command line of `lanista-learn`: configuration files, flags that override them, and `--set`."""

from __future__ import annotations

import argparse
import copy
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._version import __version__
from ..utils.argparse import OneLineParser
from ..utils.errors import did_you_mean
from . import base as values
from .base import Settings, found, value_type
from .errors import Path, Problem, TrainerConfigError, dotted, logger
from .models.run import CheckpointSettings, EngineSettings, EnvironmentSettings, TorchSettings
from .options import RunOptions
from .schema import key_description
from .yaml_source import Source, compose, drop_overridden, read_file, read_preset, read_value

SECTIONS: dict[str, tuple[type[Settings], str]] = {
    "env_settings": (EnvironmentSettings, "environments"),
    "engine_settings": (EngineSettings, "engine"),
    "checkpoint_settings": (CheckpointSettings, "runs and files"),
    "torch_settings": (TorchSettings, "device"),
}
"""The parts of the configuration that have flags."""

RENAMED = {"env_path": "--env", "device": "--torch-device", "load_model": "--load", "train_model": "--train"}
REPEATED = {"allow"}
"""Lists of which each flag gives one value; any other list takes the rest of the line."""
HIDDEN = {"load_model", "train_model"}
REMOVED = ("--torch", "--tensorflow")

EPILOG = """examples:
  lanista-learn config/ppo/ball3d.yaml --env scene:ball3d --run-id first
  lanista-learn ball.yaml --env Builds/3DBall.x86_64 --num-envs 4 --run-id ball
  lanista-learn ball.yaml --run-id editor          (then press Play in the Unity Editor)
  lanista-learn chase.yaml --env godot:my_project --run-id chase
  lanista-learn ball.yaml --run-id ball --resume --set behaviors.3DBall.max_steps=1e6
  lanista-learn base.yaml laptop.yaml --run-id ball
  lanista-learn --preset ppo/ball3d --env scene:ball3d --run-id first

A flag overrides the files, a file those before it, the files a preset, and all of them the defaults. --set
overrides everything."""


@dataclass
class CommandLine:
    """What was typed, before it is merged with the configuration files."""

    presets: list[str] = field(default_factory=list)
    """Configurations that come with Lanista; all files override them."""
    files: list[str] = field(default_factory=list)
    """The configuration files; each overrides those before it."""
    given: dict[Path, Any] = field(default_factory=dict)
    """The values of the flags that were given, by their paths in the configuration."""
    flags: dict[Path, str] = field(default_factory=dict)
    """The names of those flags."""
    assignments: list[tuple[str, Path, Any]] = field(default_factory=list)
    """Each `--set`, as typed, and as path and value."""
    deterministic: bool = False
    removed: list[str] = field(default_factory=list)
    """Flags that no longer have any effect."""


def parse_command_line(argv: Sequence[str] | None = None) -> RunOptions:
    """The options of a run, from the command line (sys.argv by default) and the files that it names.

    Raises:
        TrainerConfigError: a file, or something in it or in the flags, is wrong.
        SystemExit: with 0 after --help or --version, with 2 for a command line that cannot be read.
    """
    line = _read(argv)
    _require_files(line.files, sys.argv[1:] if argv is None else argv)
    source = compose([*map(read_preset, line.presets), *map(read_file, line.files)])
    for path, value in line.given.items():
        assign(source, path, value, f"command line, {line.flags[path]}")
    for text, path, value in line.assignments:
        warn_if_unlisted(source, path, "--set")
        assign(source, path, value, f"command line, --set {text}")
    options = RunOptions.from_source(source)
    if line.deterministic:
        options.act_deterministically()
    for flag in line.removed:
        logger.warning("The command line argument %s was removed.", flag)
    typed = set(line.given) | {path for _, path, _ in line.assignments}
    settle_start(options.checkpoint_settings, typed)
    return options


def _require_files(files: Sequence[str], argv: Sequence[str]) -> None:
    """Refuse names that are known for something else than a configuration.

    Raises:
        TrainerConfigError: one is that of a scene, a preset or an environment; says what to type.
    """
    from .presets import is_environment, what_was_meant

    for file in files:
        rest = [word for word in argv if word != file]
        missing = is_environment(file) or not os.path.lexists(file)
        if missing and (meant := what_was_meant(file, rest)):
            raise TrainerConfigError(meant)


def settle_start(settings: CheckpointSettings, given: set[Path]) -> None:
    """Decide how the run starts where force, resume and initialize_from contradict each other.

    Args:
        settings: Changed in place.
        given: The paths of values that were given beside the configuration files: they win.

    Raises:
        TrainerConfigError: Two of them contradict each other.
    """
    _settle_force(settings, given)
    _settle_beginning(settings, given)


def _settle_force(settings: CheckpointSettings, given: set[Path]) -> None:
    """Refuse --resume with --force; --force wins over the `resume` of a file: a resumed run records it."""
    section = "checkpoint_settings"
    both = settings.force and (settings.resume or settings.load_model)
    if not (both and (section, "force") in given):
        return
    if given & {(section, "resume"), (section, "load_model")}:
        message = "--resume goes on with the old run and --force sets it aside: leave one of them out"
        raise TrainerConfigError([Problem((), message, "command line")])
    logger.warning(
        "--force is given: the 'resume' of the yaml file is ignored, and %s starts anew.", settings.run_id
    )
    settings.resume = settings.load_model = False


def warn_if_unlisted(source: Source, path: Path, given_by: str) -> None:
    """Warn when a value that `given_by` sets adds a behavior to those of a file: its name may be mistyped."""
    listed = source.data.get("behaviors")
    adds = path[0] == "behaviors" and len(path) > 1
    if adds and isinstance(listed, dict) and listed and path[1] not in listed:
        names = list(map(str, listed))
        hint = did_you_mean(str(path[1]), names)
        logger.warning("%s adds the behavior %s to %s.%s", given_by, path[1], ", ".join(names), hint)


def _settle_beginning(settings: CheckpointSettings, given: set[Path]) -> None:
    """Decide between old flags, resume and initialize_from."""
    if settings.load_model:
        logger.warning("The --load option has been deprecated. Please use the --resume option instead.")
        settings.resume = True
    if settings.train_model:
        logger.warning(
            "The --train option has been deprecated. Train mode is now the default. Use --inference to run "
            "in inference mode."
        )
    if not (settings.resume and settings.initialize_from is not None):
        return
    both = f"Both 'resume' and 'initialize_from={settings.initialize_from}' are set"
    section = "checkpoint_settings"
    resume_typed = bool(given & {(section, "resume"), (section, "load_model")})
    start_typed = (section, "initialize_from") in given
    if start_typed and not resume_typed:
        logger.warning(
            "%s! %s is initialized_from %s and resume will be ignored.",
            both,
            settings.run_id,
            settings.initialize_from,
        )
        settings.resume = False
        return
    where = "" if resume_typed else " in yaml file"
    logger.warning("%s%s! Current run will be resumed ignoring initialization.", both, where)
    settings.initialize_from = None


def _read(argv: Sequence[str] | None) -> CommandLine:
    parser, flags = _parser()
    typed = vars(parser.parse_args(argv))
    line = CommandLine(
        typed.get("preset", []),
        typed["trainer_config_path"],
        deterministic=typed.get("deterministic", False),
    )
    for path, flag in flags.items():
        if ".".join(map(str, path)) in typed:
            line.given[path] = typed[".".join(map(str, path))]
            line.flags[path] = flag
    line.removed = [flag for flag in REMOVED if flag in typed]
    line.assignments = [(text, *assignment) for text, assignment in typed.get("set", [])]
    return line


def make_parser() -> OneLineParser:
    """The parser of the command line; arguments that are not given do not appear in its result."""
    return _parser()[0]


class _Parser(OneLineParser):
    """Reads what the settings' flags mean when it is asked for help, not at every start."""

    def format_help(self) -> str:
        """The usage, the flags and what they mean."""
        for action in self._actions:
            section, _, key = action.dest.partition(".")
            if section in SECTIONS and action.help is not argparse.SUPPRESS:
                action.help = _help(SECTIONS[section][0], key)
        return super().format_help()


def _help(model: type[Settings], key: str) -> str:
    info = model.model_fields[key]
    text = key_description(model, key).replace("%", "%%")
    if value_type(info.annotation).name != "boolean" and info.default is not None:
        return f"{text} (default: {info.default})"
    return text


def _parser() -> tuple[OneLineParser, dict[Path, str]]:
    parser = _Parser(
        more_of="trainer_config_path",
        prog="lanista-learn",
        description="Trains the agents of a game engine by reinforcement learning.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    parser.add_argument(
        "trainer_config_path",
        nargs="*",
        default=[],
        metavar="CONFIG.yaml",
        help="how each behavior is trained (all keys: docs/configuration.md); of several files, each "
        "overrides those before it",
    )
    parser.add_argument(
        "--preset",
        action="append",
        metavar="NAME",
        help="a configuration that comes with Lanista, such as ppo/ball3d; files override it",
    )
    parser.add_argument("--version", action="version", version=f"lanista {__version__}")
    flags: dict[Path, str] = {("debug",): "--debug", ("quiet",): "--quiet"}
    for section, (model, title) in SECTIONS.items():
        group = parser.add_argument_group(title, f"also in the file, under {section}")
        for key in model.written():
            flags[section, key] = RENAMED.get(key, "--" + key.replace("_", "-"))
            _add_flag(group, flags[section, key], f"{section}.{key}", model, key)
    _add_others(parser.add_argument_group("other"))
    # Scripts may use abbreviations that mlagents-learn, which uses argparse too, understands.
    for section, (model, _) in SECTIONS.items():
        parser.give_way |= {flags[section, key] for key in model.written() if model.is_own(key)}
    parser.give_way |= {"--quiet", "--preset", "--version", "--set"}
    return parser, flags


def _add_flag(group: Any, flag: str, dest: str, model: type[Settings], key: str) -> None:
    info = model.model_fields[key]
    kind = value_type(info.annotation)
    shared: dict[str, Any] = {"dest": dest, "help": argparse.SUPPRESS if key in HIDDEN else ""}
    if kind.name == "boolean":
        group.add_argument(flag, action="store_true", **shared)
    elif key in REPEATED:
        group.add_argument(flag, action="append", metavar="TEXT", **shared)
    elif kind.name == "array":
        group.add_argument(flag, nargs=argparse.REMAINDER, metavar="...", **shared)
    elif kind.choices:
        group.add_argument(flag, choices=kind.choices, **shared)
    else:
        convert, metavar = _CONVERTERS[kind.name]
        group.add_argument(flag, type=_converter(convert), metavar=metavar, **shared)


def _add_others(group: Any) -> None:
    group.add_argument("--debug", action="store_true", help="log more")
    group.add_argument("--quiet", action="store_true", help="say only what is wrong")
    group.add_argument(
        "--deterministic",
        action="store_true",
        help="every behavior takes its most likely action, and environments are answered in order, so that "
        "a run with --seed can be repeated exactly",
    )
    group.add_argument(
        "--set",
        action="append",
        type=_converter(lambda text: (text, split_assignment(text))),
        metavar="PATH=VALUE",
        help="set any key of the configuration, as in --set behaviors.Ball.hyperparameters.batch_size=64; "
        "may be given several times",
    )
    for flag in REMOVED:
        group.add_argument(flag, action="store_true", dest=flag, help=argparse.SUPPRESS)


_CONVERTERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "integer": (values.integer, "N"),
    "number": (values.number, "X"),
    "string": (str, "TEXT"),
}


def read_flag(section: str, key: str, text: str) -> Any:
    """The value of a flag that takes one, for other commands with flags of this one.

    Raises:
        ArgumentTypeError: It is no such value, or no run could have it.
    """
    kind = value_type(SECTIONS[section][0].model_fields[key].annotation)
    if kind.choices and text not in kind.choices:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected one of {', '.join(kind.choices)}")
    if kind.name == "string":  # which of the flags go together is seen when all are known
        return text
    try:
        return getattr(getattr(RunOptions.from_dict({section: {key: text}}), section), key)
    except TrainerConfigError as error:
        raise argparse.ArgumentTypeError("; ".join(each.message for each in error.problems)) from None


def _converter(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """`convert` with its refusals as argparse shows them."""

    def call(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return call


_PART = re.compile(r'"(?P<quoted>[^"]*)"|(?P<plain>[^."]+)')


def split_path(text: str) -> Path:
    """`behaviors.Ball.max_steps` as its parts; a part that contains a dot is in double quotes.

    Raises:
        ValueError: it is no such path.
    """
    parts: list[str] = []
    position = 0
    while True:
        match = _PART.match(text, position)
        if match is None:
            raise ValueError(
                f"{text!r} is no path: expected keys with dots between, such as behaviors.Ball.max_steps; "
                'a name that holds a dot stands in double quotes, as in behaviors."My.Ball".max_steps'
            )
        parts.append(match["plain"] if match["quoted"] is None else match["quoted"])
        position = match.end()
        if position == len(text):
            return tuple(parts)
        if text[position] != ".":
            raise ValueError(f"{text!r} is no path: expected a dot after {text[:position]!r}")
        position += 1


def split_assignment(text: str) -> tuple[Path, Any]:
    """`path=value` as the path and the value, which is read as YAML.

    Raises:
        ValueError: it is no such assignment.
    """
    path, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} has no '=': expected PATH=VALUE, such as behaviors.Ball.max_steps=100000")
    parts = split_path(path.strip())
    try:
        return parts, read_value(value)
    except ValueError as error:
        raise ValueError(f"the value of {found(text)} cannot be read: {error}") from None


def assign(source: Source, path: Path, value: Any, place: str) -> None:
    """Set the value at `path`, making the mappings that lead to it; `place` says where that was written.

    Raises:
        TrainerConfigError: the path leads through something other than a mapping or a long enough list.
    """
    parent: Any = source.data
    for depth, part in enumerate(path[:-1]):
        child = parent.get(part) if isinstance(parent, dict) else _item(parent, path[: depth + 1], place)
        if child is None:
            source.places[path[: depth + 1]] = place
        # A mapping that YAML aliases share is written to once, not wherever it is shared.
        child = copy.copy(child) if child is not None else {}
        if not isinstance(child, (dict, list)):
            message = f"found {found(child)}, which holds no keys, so {dotted(path)} cannot be set"
            raise TrainerConfigError([Problem(path[: depth + 1], message, place)])
        _put(parent, part, child)
        parent = child
    if isinstance(parent, list):
        _item(parent, path, place)
    elif path[-1] == "hidden_units":
        drop_overridden(parent, value)
    _put(parent, path[-1], value)
    for known in [known for known in source.places if known[: len(path)] == path]:
        del source.places[known]
    source.places[path] = place


def _put(parent: Any, part: str | int, value: Any) -> None:
    parent[int(part) if isinstance(parent, list) else part] = value


def _item(items: list[Any], path: Path, place: str) -> Any:
    part = str(path[-1])
    if not part.isdecimal() or int(part) >= len(items):
        message = f"expected one of its {len(items)} entries, numbered from 0"
        raise TrainerConfigError([Problem(path, message, place)])
    return items[int(part)]
