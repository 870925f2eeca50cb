"""The one table by which the core reaches the tools around it: subcommands, and names that the core asks for.

The core (what training needs) imports no tool, neither at import time nor lazily. A tool is removed by
deleting its places and its entry here; the core then works as before, without what the tool did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

COMPLETION_VARIABLE = "_ARGCOMPLETE"
"""The environment variable by which a shell asks one of our programs what may follow on its line."""


@dataclass(frozen=True)
class Entry:
    """A subcommand of the core, or a tool with or without one."""

    name: str
    places: tuple[str, ...] = ()
    """A tool's folders and files, relative to the package; none for a subcommand of the core."""
    command: str = ""
    """The subcommand's module, which has `add_arguments(parser)` and `run(arguments) -> exit status`."""
    summary: str = ""
    """What the subcommand does, for the help."""
    subcommand: str = ""
    """The subcommand's name, if it is not the tool's."""
    provides: Mapping[str, str] = field(default_factory=dict)
    """What the core asks for by name: a module, or "module:attribute"."""


ENTRIES = (
    Entry(
        "init",
        command="trainers.cli.init.command",
        summary="write a configuration for what an environment shows",
    ),
    Entry("check", command="trainers.cli.check", summary="validate configuration files, without an engine"),
    Entry(
        "scenes",
        ("trainers/tools/scenes.py", "envs/scenes/worlds", "envs/scenes/parts", "envs/scenes/drawing"),
        "trainers.tools.scenes",
        "list the scenes that come with Lanista, or write one as an executable",
    ),
    Entry(
        "play",
        command="trainers.cli.play.command",
        summary="let a run or a model act in an environment and report its rewards",
    ),
    Entry(
        "tournament",
        ("trainers/tools/tournament",),
        "trainers.tools.tournament.command",
        "let brains play against each other and rate them",
    ),
    Entry(
        "clone",
        ("trainers/tools/clone",),
        "trainers.tools.clone.command",
        "learn from demonstrations alone, without an engine",
    ),
    Entry(
        "demo",
        ("trainers/tools/demo.py", "envs/godot/demonstrations.py"),
        "trainers.tools.demo",
        "show demonstrations (.demo files), and make them of recordings",
    ),
    Entry(
        "registry",
        ("envs/registry", "trainers/tools/envs.py"),
        "trainers.tools.envs",
        "list, download or remove the environments of a registry",
        subcommand="envs",
        provides={"resolve_registered": "envs.registry.registry:resolve_registered"},
    ),
    Entry(
        "export",
        command="trainers.cli.export",
        summary="write the models of a run or a checkpoint as ONNX, or for Godot",
    ),
    Entry(
        "experiment",
        ("trainers/tools/experiment.py",),
        "trainers.tools.experiment",
        "train several configurations, one run after the other",
    ),
    Entry(
        "sweep",
        ("trainers/tools/sweep",),
        "trainers.tools.sweep.command",
        "search for good settings with many runs",
    ),
    Entry(
        "godot",
        ("trainers/tools/godot.py",),
        "trainers.tools.godot",
        "install the addon for games made with Godot",
    ),
    Entry(
        "remote",
        ("envs/remote", "trainers/tools/attach.py", "trainers/tools/relay.py"),
        "trainers.tools.relay",
        "connect the engines of this machine to a trainer on another one",
        subcommand="relay",
        provides={"listen": "trainers.tools.attach"},
    ),
    Entry(
        "migrate",
        ("trainers/tools/migrate.py",),
        "trainers.tools.migrate",
        "convert a configuration for ML-Agents 0.18 or earlier",
        subcommand="upgrade",
    ),
    Entry(
        "runs",
        command="trainers.cli.runs.command",
        summary="list the runs of a results folder: how far they are, how well they do",
    ),
    Entry(
        "report",
        ("trainers/tools/report",),
        "trainers.tools.report.command",
        "show runs beside each other on one HTML page",
    ),
    Entry(
        "card",
        ("trainers/tools/card",),
        "trainers.tools.card.command",
        "write a model card: what it is, what made it, how well it plays",
    ),
    Entry(
        "hub",
        ("trainers/tools/hub.py",),
        "trainers.tools.hub",
        "push a run to the Hugging Face Hub, or load one from there",
    ),
    Entry(
        "completion",
        ("trainers/tools/completion.py",),
        "trainers.tools.completion",
        "print the script with which a shell completes these commands",
        provides={"completion": "trainers.tools.completion"},
    ),
    Entry(
        "doctor",
        ("trainers/tools/doctor",),
        "trainers.tools.doctor.command",
        "look for what keeps this machine from training",
    ),
    Entry(
        "seeds",
        ("trainers/tools/seeds",),
        provides={"seeds": "trainers.tools.seeds.command"},
    ),
    Entry(
        "pretrained",
        ("trainers/tools/pretrained.py",),
        provides={"pretrained": "trainers.tools.pretrained"},
    ),
    Entry("ray", ("envs/ray", "trainers/tools/ray.py"), provides={"ray": "trainers.tools.ray"}),
    Entry("wrappers", ("envs/wrappers",)),
)
TOOLS = {entry.name: entry for entry in ENTRIES if entry.places}
COMMANDS = {entry.subcommand or entry.name: entry for entry in ENTRIES if entry.command}
"""The subcommands of `lanista`, in the order of its help."""
_PROVIDED = {name: place for entry in ENTRIES for name, place in entry.provides.items()}


def load(place: str) -> Any:
    """A module of the package, or with "module:attribute" something that it defines."""
    module, _, attribute = place.partition(":")
    loaded = import_module(f".{module}", __package__)
    return getattr(loaded, attribute) if attribute else loaded


def provided(name: str) -> Any:
    """What a tool provides under this name; None if this installation was made without the tool."""
    return load(_PROVIDED[name]) if name in _PROVIDED else None


def is_provided(name: str) -> bool:
    """Whether there is a tool that provides this name."""
    return name in _PROVIDED
