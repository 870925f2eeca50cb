"""What a check of the doctor says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
