"""`lanista.load`: finds the policy that a path refers to, which then acts without an environment."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from ....envs.utils.bounded_yaml import load_json
from ....envs.utils.regular_files import read_text, require_within
from ...utils.trust import Trust
from .loaded_policy import LoadedPolicy, LoadError, PlayablePolicy
from .runtime import Brain, BrainError

__all__ = ["LoadError", "LoadedPolicy", "load"]


def load(
    path: str | os.PathLike[str],
    *,
    behavior: str | None = None,
    place: int | None = None,
    seed: int | None = None,
    trust_run: bool = False,
) -> LoadedPolicy:
    """A trained policy that acts on arrays.

    Args:
        path: a brain (.onnx; Lanista's, ML-Agents' or Unity's), a checkpoint of Lanista (.pt) or its
            weights (.safetensors), the folder of a behavior in a run, or the folder of a run. Of a folder the
            newest brain is loaded, or the checkpoint where there is no brain. A brain needs no torch.
        behavior: which one, if a run has several.
        place: whose, if agents act by their slot in the team (COMA with share_parameters: false).
        seed: of sampled actions; without it they differ each time.
        trust_run: import network classes that a checkpoint names, also of one that no run of yours has made.

    Raises:
        LoadError: there is no such file, it is damaged or no policy, several match, or it is not trusted.
    """
    trust = Trust(trust_run, how="trust_run=True")
    return LoadedPolicy(*find_policy(path, behavior=behavior, place=place, seed=seed, trust=trust))


def find_policy(
    path: str | os.PathLike[str],
    *,
    behavior: str | None = None,
    place: int | None = None,
    seed: int | None = None,
    trust: Trust | None = None,
) -> tuple[Path, PlayablePolicy]:
    """The file that a path refers to, and its policy for agents with ids.

    Arguments are as for `load`; `trust`: as of `build_network`.
    """
    source = Path(path)
    if source.is_dir():
        source = _in_folder(_named(source), behavior, place)
    if not source.is_file():
        raise LoadError(
            f"{source}: there is no such file. Expected a brain (.onnx), a checkpoint (.pt), or a run's "
            "folder."
        )
    if source.suffix == ".onnx":
        return source, _brain(source, seed)
    if source.suffix in (".pt", ".safetensors"):
        return source, _checkpoint(source, place, seed, trust)
    raise LoadError(
        f"{source} is neither a brain (.onnx) nor a checkpoint (.pt) or its weights (.safetensors)."
    )


def _in_folder(folder: Path, behavior: str | None, place: int | None) -> Path:
    """The file to load from the folder of a run, or of one behavior."""
    if _has_policy(folder):
        if behavior not in (None, folder.name):
            raise LoadError(f"{folder} is the folder of the behavior {folder.name}: found {behavior=}.")
        return _newest(folder, folder.parent, place, folder)
    found = behaviors_in(folder)
    if not found:
        raise LoadError(
            f"{folder} holds no policy: no behavior has a brain (.onnx) or a checkpoint.pt there."
        )
    if behavior is None and len(found) > 1:
        raise LoadError(
            f"{folder} holds the behaviors {', '.join(found)}: choose one with behavior='{found[0]}'."
        )
    wanted = behavior or found[0]
    if wanted not in found:
        raise LoadError(f"{folder} holds no behavior {wanted!r}; it holds {', '.join(found)}.")
    return _newest(folder / wanted, folder, place, folder)


def behaviors_in(run: Path) -> list[str]:
    """The names of the behaviors in a run's folder that have a brain or a checkpoint."""
    return sorted(inner.name for inner in run.iterdir() if inner.is_dir() and _has_policy(inner))


def slot_brains(folder: Path, behavior: str | None = None) -> list[Path]:
    """The newest brains of a behavior by the agents' slots, if each slot has its own; else none.

    `folder`: a run's, or with `behavior` None that of the behavior.
    """
    folder = _named(folder)
    own, run = (folder, folder.parent) if behavior is None else (folder / behavior, folder)
    newest = (_newest(own, run, place, folder) for place in count())
    return list(takewhile(lambda path: path.suffix == ".onnx", newest))


def _named(folder: Path) -> Path:
    """A folder by a path with its name, which is the behavior's; . and .. have none."""
    return folder.resolve() if folder.name in ("", "..") else folder


def _has_policy(folder: Path) -> bool:
    """Whether it is the folder of a behavior; a run's folder has brains, but no checkpoints."""
    return (folder / "checkpoint.pt").is_file() or any(folder.glob(f"{_escaped(folder.name)}-*.onnx"))


def _newest(folder: Path, run: Path, place: int | None, given: Path) -> Path:
    """The file of a behavior that was written last, which lies in the folder that was `given`.

    Raises:
        LoadError: links lead out of that, or of the run.
    """
    found = _last_written(folder, run, place)
    try:
        require_within(found, run if found.parent == run else given)
    except OSError as error:
        raise LoadError(f"{found} is not loaded: {error.strerror}. Name the file that is meant.") from error
    return found


def _last_written(folder: Path, run: Path, place: int | None) -> Path:
    """The brain that was written last, the run's final one or a checkpoint's; else the checkpoint.

    The run's status tells when each was written, for times of files are lost when a folder is copied. Without
    a status they have to do. The most steps do not tell: a run may have gone back to an older checkpoint.
    """
    name, suffix = folder.name, "" if place is None else f"-place{place}"
    numbered = {}
    for path in folder.glob(f"{_escaped(name)}-*{suffix}.onnx"):
        step = path.stem.removeprefix(f"{name}-").removesuffix(suffix)
        if step.isdecimal() and path.is_file():
            numbered[int(step)] = path
    final = run / f"{name}{suffix}.onnx"
    if not numbered:
        return final if final.is_file() else folder / "checkpoint.pt"
    ended, created = _times(run, name)
    # One that is not listed was written last, and a kill came before the status.
    moment, last = max((created.get(step, math.inf), step) for step in numbered)
    if not final.is_file():
        return numbered[last]
    if ended is None:
        return max((final, numbered[last]), key=lambda path: path.stat().st_mtime)  # the final one if alike
    return final if ended >= (moment, last) else numbered[last]


def _times(run: Path, behavior: str) -> tuple[tuple[float, int] | None, dict[int, float]]:
    """When a run's final brain was written, and its step; and when each listed checkpoint was, by steps.

    None and nothing where its status does not tell.
    """
    try:
        status = load_json(read_text(run / "run_logs" / "training_status.json", within=run))[behavior]
        created: dict[int, float] = {}
        for entry in (*status.get("checkpoints", ()), *status.get("best_checkpoints", ())):
            created[int(entry["steps"])] = float(entry.get("creation_time", math.inf))
        final = status.get("final_checkpoint")
        ended = None if final is None else (float(final.get("creation_time", math.inf)), int(final["steps"]))
        return ended, created
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None, {}


def _escaped(name: str) -> str:
    """A glob pattern that matches the name only."""
    return "".join(f"[{c}]" if c in "[*?" else c for c in name)


def _brain(path: Path, seed: int | None) -> PlayablePolicy:
    if seed is not None:
        import onnxruntime

        onnxruntime.set_seed(seed)
    try:
        return Brain(path)
    except BrainError as error:
        raise LoadError(str(error)) from error


def _checkpoint(path: Path, place: int | None, seed: int | None, trust: Trust | None) -> PlayablePolicy:
    from ...checkpoints.file import CheckpointError
    from ...checkpoints.metadata import build_network
    from ...checkpoints.shared_weights import load_weights
    from ...checkpoints.transfer import is_mlagents_file
    from ...networks.multi_actor import exported_networks
    from ..greedy import CheckpointPolicy

    if is_mlagents_file(path):
        raise LoadError(
            f"{path} is a checkpoint of ML-Agents, which does not say what its agents observe and do. "
            f"{_brains_beside(path)}"
        )
    try:
        _, network = build_network(load_weights(path), trust, path)
        brains: dict[str, Any] = dict(exported_networks(network))
    except CheckpointError as error:
        raise LoadError(f"{path} cannot be loaded: {error}") from error
    wanted = "" if place is None else f"-place{place}"
    if wanted not in brains:
        places: Sequence[str] = [key.removeprefix("-place") for key in brains if key]
        raise LoadError(
            f"{path} has a policy for each place: give place={places[0]} to {places[-1]}, or let lanista "
            "export make a model of each."
            if places
            else f"{path} has one policy for all places: leave place={place} out."
        )
    return CheckpointPolicy(brains[wanted], seed)


def _brains_beside(path: Path) -> str:
    brains = sorted(path.parent.glob("*.onnx"), key=lambda brain: brain.stat().st_mtime)
    return f"Load its brain: {brains[-1]}." if brains else "Load its brain, the .onnx file of the same step."
