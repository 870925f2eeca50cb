"""`lanista export`: writes the brain of a checkpoint, as ONNX or for Godot."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ..utils.errors import CommandError
from ..utils.logging import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "checkpoint", metavar="CHECKPOINT", type=Path, help="a .pt file of a run, such as checkpoint.pt"
    )
    parser.add_argument(
        "out",
        metavar="OUT",
        type=Path,
        nargs="?",
        help="the file to write (default: next to the checkpoint, .onnx or .tres)",
    )
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


def run(arguments: argparse.Namespace) -> int:
    """Read, rebuild, verify, write."""
    from ..checkpoints.file import CheckpointError, load_checkpoint
    from ..checkpoints.metadata import build_network, step_of
    from ..networks.multi_actor import exported_networks
    from ..policies.godot.export import export_godot
    from ..policies.godot.godot_rl import export_godot_rl
    from ..policies.onnx.export import export_brain
    from ..policies.onnx.graph import BrainVerificationError

    source: Path = arguments.checkpoint
    write: Callable[..., None] = export_brain
    default = source.with_suffix(".onnx")
    if arguments.godot:
        write, default = export_godot, source.with_suffix(".tres")
    elif arguments.godot_rl:
        write, default = export_godot_rl, source.with_name(f"{source.stem}-godot-rl.onnx")
    out = path = arguments.out or default
    state = None
    try:
        state = load_checkpoint(source)
        behavior, network = build_network(state)
        for place, brain in exported_networks(network).items():
            out = path.with_name(f"{path.stem}{place}{default.suffix}")
            write(brain, out, behavior=behavior, step=step_of(state))
            print(plain(f"Exported {out} ({behavior}, step {step_of(state)}), verified against its network."))
    except CheckpointError as error:
        where = "" if state is None else f"{source} cannot be exported: "
        raise CommandError(f"{where}{error}") from error
    except BrainVerificationError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{out} could not be written: {error}.") from error
    return 0
