"""`lanista doctor`: looks for what keeps this machine and this installation from training."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path

from ...utils.text import harmless, wrapped


class Level(Enum):
    """How bad it is; the values are what is printed."""

    OK = "ok"
    WARNING = "warning"
    """Some things do not work, or not well."""
    FAULT = "FAULT"
    """Training does not work."""


@dataclass(frozen=True)
class Diagnosis:
    """One line of the report."""

    subject: str
    text: str
    level: Level = Level.OK
    remedy: str = ""
    """What to do, as a sentence; empty if nothing has to be done."""


def warning(subject: str, text: str, remedy: str) -> Diagnosis:
    """Something that hinders some uses."""
    return Diagnosis(subject, text, Level.WARNING, remedy)


def fault(subject: str, text: str, remedy: str) -> Diagnosis:
    """Something that prevents training."""
    return Diagnosis(subject, text, Level.FAULT, remedy)


CHECKS = (
    ("Python", ".packages", "python"),
    ("packages", ".packages", "packages"),
    ("torch", ".packages", "torch"),
    ("plug-ins", ".packages", "registered"),
    ("memory", ".machine", "memory"),
    ("limits", ".machine", "limits"),
    ("disk", ".machine", "disk"),
    ("display", ".machine", "display"),
    ("proxies", ".machine", "proxies"),
    ("variables", ".machine", "variables"),
    ("localhost", ".machine", "localhost"),
    ("ports", ".machine", "ports"),
)
"""Subject, module and function of each check; their modules are loaded one by one, since any may fail."""
TRAINING = ("training", ".machine", "training")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.epilog = (
        "Exits with 0 if training works here, 1 if there is a fault. What is printed can go into a report "
        "of a "
        "fault as it is; the home folder is ~, and passwords of proxies and tokens are hidden."
    )
    parser.add_argument("--no-training", action="store_true", help="leave out the short training")


def run(arguments: argparse.Namespace) -> int:
    """Check, and report."""
    home = str(Path.home())
    found: list[Diagnosis] = []
    for check in CHECKS if arguments.no_training else (*CHECKS, TRAINING):
        for one in _diagnoses(*check):
            found.append(one)
            text = f"{one.text}. {one.remedy}" if one.remedy else one.text
            shown = harmless(text).replace(home, "~") if len(home) > 1 else harmless(text)
            head = f"{one.level.value:<7}  {one.subject:<10}  "
            print(wrapped(head + shown, " " * len(head)), flush=True)
    faults, warnings = (sum(each.level is level for each in found) for level in (Level.FAULT, Level.WARNING))
    print(f"{_counted(faults, 'fault')}, {_counted(warnings, 'warning')}.")
    return 1 if faults else 0


def _diagnoses(subject: str, module: str, name: str) -> Iterator[Diagnosis]:
    """What a check says; that it cannot be made is a diagnosis too, and no reason to leave out the others."""
    try:
        check: Callable[[], Iterator[Diagnosis]] = getattr(import_module(module, __package__), name)
        yield from check()
    except Exception as error:
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        yield fault(
            subject, f"this could not be checked: {cause}", "If nothing above explains it, report it."
        )


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'s' * (number != 1)}"
