"""`lanista check`: validates configuration files, without an engine and without torch."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..settings.errors import Problem, TrainerConfigError
from ..settings.errors import logger as notes_logger
from ..settings.mlagents_differences import explain
from ..settings.options import RunOptions
from ..settings.validation import contradictions, unsupported
from ..settings.yaml_source import Source, compose, read_file, read_preset
from ..utils.logging import plain

WRONG = 1
"""The exit status when something is wrong with a file."""

NOT_YET = 3
"""The exit status when all files are valid, but one uses what this version cannot train."""


@dataclass
class Finding:
    """The result for one configuration."""

    name: str
    options: RunOptions | None = None
    """The settings; None if something is wrong."""
    wrong: list[Problem] = field(default_factory=list)
    not_yet: list[Problem] = field(default_factory=list)
    """What is valid, but not supported by this version."""
    instead: str | None = None
    """What to type if a file is not there."""
    warnings: list[str] = field(default_factory=list)
    differences: list[Problem] = field(default_factory=list)
    """Where ML-Agents differs, if requested."""

    @property
    def status(self) -> int:
        """0, `WRONG` or `NOT_YET`."""
        return WRONG if self.wrong else NOT_YET if self.not_yet else 0

    def lines(self) -> Iterator[str]:
        """The verdict, followed by everything that was found."""
        yield f"{self.name}: {self._verdict()}"
        for problem in (*self.wrong, *self.not_yet):
            yield from (f"  {line}" for line in str(problem).splitlines())
        if self.instead:
            yield f"  {self.instead}"
        for warning in self.warnings:
            yield f"  warning: {warning}"
        for difference in self.differences:
            yield f"  ML-Agents: {difference}"

    def _verdict(self) -> str:
        if self.wrong:
            problems = len(self.wrong) + len(self.not_yet)
            return f"{problems} problem{'s' if problems > 1 else ''}"
        if self.not_yet:
            return "valid, but not trainable yet"
        listed = self.options.behaviors if self.options else {}
        trainers = ", ".join(f"{name}: {settings.trainer_type}" for name, settings in listed.items())
        return f"ok ({trainers or 'default_settings'})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        "Exits with 0 if everything can be trained, 1 if something is wrong, 2 for a wrong command line,\n"
        "3 if everything is valid but something cannot be trained by this version yet."
    )
    parser.add_argument("config", nargs="*", metavar="CONFIG.yaml", help="checked one by one")
    parser.add_argument(
        "--preset",
        action="append",
        default=[],
        metavar="NAME",
        help="a configuration that comes with Lanista, such as ppo/ball3d: each file overrides it, as in "
        "lanista-learn; checked by itself if no file is given",
    )
    parser.add_argument(
        "--together",
        action="store_true",
        help="check the files as one configuration, as lanista-learn reads them: each overrides those "
        "before it",
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON schema with which editors complete and check a file, and do nothing else",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="also say where ML-Agents 1.1.0 treats such a file differently, and which of its quirks "
        "affect it",
    )
    parser.set_defaults(usage_error=parser.error)


def run(arguments: argparse.Namespace) -> int:
    """Check and report."""
    if arguments.schema:
        from ..settings.schema import json_schema

        print(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return 0
    if not (arguments.config or arguments.preset):
        arguments.usage_error("give a file to check, or --preset NAME")
    findings = []
    for files in _groups(arguments.config, together=arguments.together):
        findings.append(check(files, arguments.preset, explained=arguments.explain))
        print("\n".join(map(plain, findings[-1].lines())))
    statuses = {finding.status for finding in findings}
    return WRONG if WRONG in statuses else NOT_YET if NOT_YET in statuses else 0


def _groups(files: Sequence[str], *, together: bool) -> list[list[str]]:
    """The files that make one configuration each."""
    return [[file] for file in files] if files and not together else [list(files)]


def check(files: Sequence[str], presets: Sequence[str] = (), *, explained: bool = False) -> Finding:
    """Check the configuration of these presets and files, of which each overrides those before it.

    `explained`: also what differs from ML-Agents.
    """
    finding = Finding(" + ".join([*(f"preset {name}" for name in presets), *files]))
    source: Source | None = None
    with _collected_warnings(finding.warnings):
        try:
            sources: list[Source] = [*map(read_preset, presets), *map(read_file, files)]
            source = compose(sources)
            finding.options = RunOptions.from_source(source)
            finding.not_yet, finding.wrong = unsupported(finding.options), contradictions(finding.options)
        except TrainerConfigError as error:
            finding.wrong = error.problems
            finding.instead = next(filter(None, map(_instead, files)), None)
    if explained and source is not None:
        finding.differences = explain(source, finding.options)
    return finding


def _instead(file: str) -> str | None:
    """What to type in place of a file that is not there, but comes with Lanista."""
    if Path(file).exists():
        return None
    from ..settings.presets import preset_for  # loads numpy, which nothing else here needs

    preset = preset_for(file)
    return preset and f"Settings for {file} come with Lanista. Check them: lanista check --preset {preset}"


@contextmanager
def _collected_warnings(warnings: list[str]) -> Iterator[None]:
    """Collect the warnings about a configuration in `warnings` instead of logging them."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warnings.append(record.getMessage())

    listener, propagated = Listener(), notes_logger.propagate
    notes_logger.addHandler(listener)
    notes_logger.propagate = False
    try:
        yield
    finally:
        notes_logger.removeHandler(listener)
        notes_logger.propagate = propagated
