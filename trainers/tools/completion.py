"""`lanista completion SHELL`: prints what lets a shell complete commands, and answers when the shell asks.

The shell calls the program itself with variables of argcomplete's protocol, once for every press of TAB.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..utils.errors import CommandError

PROGRAMS = ["lanista", "lanista-learn"]
SHELLS = {
    "bash": 'eval "$(lanista completion bash)"  in ~/.bashrc',
    "zsh": 'eval "$(lanista completion zsh)"  in ~/.zshrc, after compinit',
    "fish": "lanista completion fish | source  in ~/.config/fish/config.fish",
    "powershell": "lanista completion powershell | Out-String | Invoke-Expression  in the file $PROFILE",
}
"""Each shell, and how it loads what is printed."""
_RUNS = frozenset({"RUN", "MODEL", "SOURCE"})
"""What the help calls arguments that take runs of the results folder."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = "\n".join(f"  {shell:<12}{how}" for shell, how in SHELLS.items())
    parser.epilog = f"Commands, flags, presets, scenes and runs are then completed by TAB:\n{lines}"
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    print(_argcomplete().shellcode(PROGRAMS, shell=arguments.shell))
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what may follow on the line that it has given, and end the process."""
    _add_completers(parser)
    _argcomplete().autocomplete(parser, always_complete_options="long")


def replace_command(parser: argparse.ArgumentParser, name: str, other: argparse.ArgumentParser) -> None:
    """Let the subcommand `name` be parsed by another parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            action.choices[name] = other


def words_before() -> list[str]:
    """The words of the line that stand before the cursor, without the program's name."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT") or 0)]
    return line.split()[1:]


def _argcomplete() -> Any:
    try:
        import argcomplete
    except ImportError as error:
        raise CommandError("argcomplete is not installed for this Python: pip install argcomplete") from error
    return argcomplete


def _add_completers(parser: argparse.ArgumentParser) -> None:
    """Let arguments that take known names complete these; all others complete files."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                _add_completers(sub)
        elif "--preset" in action.option_strings:
            _set(action, _presets)
        elif "--pretrained" in action.option_strings:
            _set(action, _pretrained)
        elif "--env" in action.option_strings:
            _set(action, _scenes, files=True)
        elif {"--run-id", "--initialize-from"} & {*action.option_strings}:
            _set(action, _runs)
        elif action.dest == "name" and parser.prog.endswith("scenes export"):
            _set(action, _scenes)
        elif action.metavar in _RUNS:
            _set(action, _runs, files=True)


def _set(action: argparse.Action, names: Callable[[], Iterable[str]], *, files: bool = False) -> None:
    others = _argcomplete().completers.FilesCompleter() if files else lambda **_: ()

    def complete(prefix: str, **known: Any) -> list[str]:
        return [*(name for name in names() if name.startswith(prefix)), *others(prefix=prefix, **known)]

    action.completer = complete  # type: ignore[attr-defined]


def _presets() -> list[str]:
    from ..settings.yaml_source import preset_names

    return preset_names()


def _pretrained() -> list[str]:
    from .pretrained import pretrained_names

    return pretrained_names()


def _scenes() -> Iterator[str]:
    from ...envs.scenes.registry import SCENES

    return (f"scene:{name}" for name in SCENES)


def _runs() -> Iterator[str]:
    """The runs of the folder results, with those in its folders."""
    from ..cli.runs.record import find_runs

    folder = Path("results")
    return (run.relative_to(folder).as_posix() for run in find_runs(folder)) if folder.is_dir() else iter(())
