"""The first and the last lines of a run: versions, and what to do with the results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from ..._version import __version__
from ...envs.engines.address import split_address
from ...envs.protocol.handshake import API_VERSION, PACKAGE_VERSION
from ..settings.options import RunOptions
from ..utils.text import typed
from .engine_options import terms_of_run

PASSED_ENV = "lanista_env_"
"""The prefix of modules that hold environments passed to `lanista.train` as objects."""


def version_block() -> str:
    """Name and versions. The lower lines are ML-Agents', with the release that Lanista replaces."""
    return (
        f"\n  L A N I S T A   {__version__}   in place of ML-Agents {PACKAGE_VERSION}\n\n"
        " Version information:\n"
        f"  lanista: {__version__},\n"
        f"  ml-agents: {PACKAGE_VERSION},\n"
        f"  ml-agents-envs: {PACKAGE_VERSION},\n"
        f"  Communicator API: {API_VERSION},\n"
        f"  PyTorch: {version('torch')}\n"
    )


def next_steps(
    options: RunOptions, folder: Path, behaviors: Iterable[str], *, unfinished: bool
) -> Iterator[str]:
    """Where the ONNX files are, how to see them act, and how to continue a run that has steps left.

    Args:
        options: of the run.
        folder: the run's.
        behaviors: names of those that were trained.
        unfinished: some behavior has steps left.
    """
    brains = {name: brain for name in behaviors if (brain := _brain(folder, name)) is not None}
    passed = (options.env_settings.env_path or "").startswith(f"python:{PASSED_ENV}")
    one_file = len(brains) == 1 and all(brain.exists() for brain in brains.values())
    for name, brain in brains.items():
        act = ""
        if passed and brain.exists():
            act = f" Let it act: lanista.load({str(brain)!r})"
        elif one_file:
            act = f" See it act: {_play(options, brain)}"
        yield f"The brain of {name} is {brain}.{act}"
    if brains and not passed and not one_file:
        yield f"See them act: {_play(options, folder)}"
    if unfinished:
        yield "To go on with this run, give the same command with --resume (and without --force)."


def _brain(folder: Path, behavior: str) -> Path | None:
    """The behavior's ONNX file; a pattern where each slot of the agents has one; None if there is none."""
    if (folder / f"{behavior}-place0.onnx").exists():
        return folder / f"{behavior}-place*.onnx"
    brain = folder / f"{behavior}.onnx"
    return brain if brain.exists() else None


def _play(options: RunOptions, model: Path) -> str:
    """The command that plays a brain, or a run's folder, which tells the environment itself."""
    env = options.env_settings
    words = ["lanista", "play", str(model)]
    then = f"  (then {terms_of_run(options).play})"
    if env.attaches:
        words += [
            "--listen",
            env.listen,
            *(word for network in env.allow or () for word in ("--allow", network)),
        ]
        port = split_address(env.listen)[1]
        where = f"port {port}" if port else "the port that is then logged"
        return f"{typed(words)}  (then start an engine that calls {where})"
    of_run = model.is_dir()
    words += [] if of_run or env.env_path is None else ["--env", env.env_path]
    if env.editor:
        return f"{typed(words)}{then}"
    if options.engine_settings.no_graphics:
        words.append("--no-graphics")
    if env.env_args and not of_run:
        words += ["--env-args", *env.env_args]
    return typed(words)
