"""`lanista export`: writes the models of a run or a checkpoint, as ONNX or for Godot."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ...envs.utils.regular_files import read_bytes, require_within
from ..utils.errors import CommandError
from ..utils.logging import plain
from ..utils.trust import Trust
from .arguments import add_results_dir, add_trust_run

_ENDINGS = (".onnx", ".tres", ".safetensors", ".pt", ".yaml", ".yml", ".json", ".md", ".txt")
"""The endings of files that may be named by mistake; `policy-v1.2` is a name without an ending."""
_BRAINS = (".onnx", ".tres")
"""The endings of the brains that are exported."""
_FLAGS = {".tres": "--godot", ".safetensors": "--safetensors"}
"""The flags that write files with other endings than .onnx."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a checkpoint (.pt, .safetensors), or a run's ID or folder: each behavior's newest checkpoint",
    )
    parser.add_argument(
        "out",
        metavar="OUT",
        type=Path,
        nargs="?",
        help="the file to write, or the folder for the models of a run (default: next to the checkpoint, or "
        "in the run's folder; .onnx, .tres or .safetensors)",
    )
    add_results_dir(parser)
    add_trust_run(parser)
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--godot",
        action="store_true",
        help="write a resource that Lanista's addon plays in Godot, without .NET",
    )
    formats.add_argument(
        "--godot-rl",
        action="store_true",
        help="write ONNX as Godot's plugin godot_rl_agents reads it",
    )
    formats.add_argument(
        "--safetensors",
        action="store_true",
        help="write the weights alone, to share: lanista play and --initialize-from read them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read, rebuild, verify and write the models."""
    trust = Trust.of_command(arguments.trust_run)
    if arguments.safetensors:
        _write_each(arguments, ".safetensors", partial(_share, trust=trust))
        return 0
    from ..policies.godot.export import export_godot
    from ..policies.godot.godot_rl import export_godot_rl
    from ..policies.onnx.export import export_brain

    if arguments.godot:
        write, ending = export_godot, ".tres"
    elif arguments.godot_rl:
        write, ending = export_godot_rl, "-godot-rl.onnx"
    else:
        write, ending = export_brain, ".onnx"
    suffix = ending[ending.rindex(".") :]
    _write_each(arguments, ending, partial(_export, write=write, suffix=suffix, trust=trust))
    return 0


def _write_each(arguments: argparse.Namespace, ending: str, export: Callable[..., None]) -> None:
    """Call `export` with each checkpoint and the file to write of it."""
    checkpoints = _checkpoints(arguments.source, arguments.results_dir)
    out: Path | None = arguments.out
    into_folder = out is not None and (len(checkpoints) > 1 or out.is_dir())
    suffix = ending[ending.rindex(".") :]
    for source, default in checkpoints.items():
        target = default.with_name(f"{default.name}{ending}")
        if out is not None and into_folder:
            target = out / target.name
        elif out is not None:
            target = _with_ending(out, suffix)
        # Where models are written by default, a damaged one is replaced too.
        export(source, target, over_models_alone=out is not None)


def _with_ending(out: Path, suffix: str) -> Path:
    """The file to write for OUT.

    Raises:
        CommandError: its ending is that of another kind of file.
    """
    if out.suffix == suffix:
        return out
    if out.suffix.lower() in _ENDINGS:
        flag = _FLAGS.get(out.suffix)
        other = f" {flag} writes a file that ends in {out.suffix}." if flag else ""
        raise CommandError(f"{out}: expected the name of the file to write to end in {suffix}.{other}")
    return out.with_name(f"{out.name}{suffix}")


def _require_replaceable(file: Path) -> None:
    """Refuse to write a model over anything but a model.

    Raises:
        CommandError: something else is there.
    """
    if file.exists() and not (file.is_file() and _is_model(file)):
        raise CommandError(
            f"{file} is there and is not a {file.suffix} model. Give another OUT, or remove it."
        )


def _is_model(file: Path) -> bool:
    """Whether a file holds what its ending tells."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    from ..checkpoints.file import CheckpointError
    from ..checkpoints.shared_weights import load_shared
    from ..policies.onnx.runtime import MOST_BYTES

    if file.suffix == ".tres":
        return b'script_class="LanistaBrain"' in read_bytes(file).partition(b"\n")[0]
    try:
        if file.suffix == ".onnx":
            return bool(ModelProto.FromString(read_bytes(file, MOST_BYTES)).graph.node)
        load_shared(file)
    except (OSError, DecodeError, CheckpointError):
        return False
    return True


def _checkpoints(given: str, results: Path) -> dict[Path, Path]:
    """The checkpoints to export, each with the path of its model but for the ending."""
    from ..checkpoints.transfer import LATEST
    from ..policies.onnx.load import LoadError
    from .models import find_run

    path = Path(given)
    if path.suffix == ".pt" or path.is_file():
        if path.suffix in _BRAINS and _is_model(path):
            raise CommandError(
                f"{path} is a brain, which is exported already. Give a checkpoint (.pt, .safetensors), or a "
                "run's ID or folder."
            )
        return {path: path.with_suffix("")}
    try:
        folder = find_run(given, results)
    except LoadError as error:
        raise CommandError(str(error)) from error
    found = sorted(folder.glob(f"*/{LATEST}"))
    targets = {each: folder / each.parent.name for each in found}
    if (folder / LATEST).is_file():  # the folder of one behavior
        targets = {folder / LATEST: folder / folder.resolve().name}
    if not targets:
        raise CommandError(f"{folder} is not a run's folder: it holds no <behavior>/{LATEST}.")
    for each in targets:
        try:
            require_within(each, folder)
        except OSError as error:
            raise CommandError(
                f"{each} is not exported: {error.strerror}. Name the file that is meant."
            ) from error
    return targets


def _export(
    source: Path,
    target: Path,
    *,
    over_models_alone: bool,
    write: Callable[..., None],
    suffix: str,
    trust: Trust,
) -> None:
    """Write the model of a checkpoint, or one for each slot where these have models of their own."""
    from ..checkpoints.file import CheckpointError
    from ..checkpoints.metadata import build_network, step_of
    from ..checkpoints.shared_weights import load_weights
    from ..networks.multi_actor import exported_networks
    from ..policies.onnx.graph import BrainVerificationError

    state, out = None, target
    try:
        state = load_weights(source)
        behavior, network = build_network(state, trust, source)
        target.parent.mkdir(parents=True, exist_ok=True)
        brains = {
            target.with_name(f"{target.stem}{place}{suffix}"): brain
            for place, brain in exported_networks(network).items()
        }
        for out in brains if over_models_alone else ():
            _require_replaceable(out)
        for out, brain in brains.items():
            write(brain, out, behavior=behavior, step=step_of(state))
            print(plain(f"Exported {out} ({behavior}, step {step_of(state)}), verified against its network."))
    except CheckpointError as error:
        where = "" if state is None else f"{source} cannot be exported: "
        raise CommandError(f"{where}{error}") from error
    except BrainVerificationError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{out} could not be written: {error}.") from error


def _share(source: Path, target: Path, *, over_models_alone: bool, trust: Trust) -> None:
    """Write the weights of a checkpoint."""
    from ..checkpoints.file import CheckpointError
    from ..checkpoints.metadata import build_network, step_of
    from ..checkpoints.shared_weights import load_weights, save_shared

    try:
        state = load_weights(source)
        behavior, _ = build_network(state, trust, source)
        if over_models_alone:
            _require_replaceable(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        save_shared(target, state)
    except CheckpointError as error:
        raise CommandError(f"{source} cannot be exported: {error}") from error
    except OSError as error:
        raise CommandError(f"{target} could not be written: {error}.") from error
    print(plain(f"Exported {target} ({behavior}, step {step_of(state)})."))
