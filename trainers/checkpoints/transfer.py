"""The saved weights that a new run starts from: finding them, and loading what fits."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...envs.utils.regular_files import refuse_pipe
from ..settings.models.run import CheckpointSettings
from ..settings.options import RunOptions
from ..utils.errors import CheckpointError, TrainerError, did_you_mean
from .run_folder import runs_in

if TYPE_CHECKING:
    from torch import nn

LATEST = "checkpoint.pt"
"""The copy of the newest checkpoint that --resume and --initialize-from read."""
_MOST_NAMES = 1 << 24
"""Bytes of a checkpoint's names and sizes, which take some kilobytes; the weights lie beside them."""
WEIGHTS = (".pt", ".safetensors")
"""The endings of files that a run can start from."""
BODY = "body."
"""How the names of a body's tensors begin."""
MARK = b"_GlobalSteps__global_step"
"""The name of the step counter in every checkpoint of ML-Agents; ours has another."""


def check_initial_weights(options: RunOptions, behaviors: Collection[str] | None = None) -> None:
    """Refuse a run whose behaviors are to start from weights that do not exist.

    `behaviors`: those that are trained; None for all that are listed.

    Raises:
        TrainerError: names what was looked for, and what exists.
    """
    settings = options.checkpoint_settings
    if settings.resume:
        refuse_to_resume(Path(settings.write_path))
        return
    start = find_start(settings)
    _require_another_run(start, settings)
    for name in options.behaviors if behaviors is None else behaviors:
        init_path = options.behavior(name).init_path
        _require_another_run(initial_checkpoint(name, init_path, start), settings)


def is_mlagents_file(path: Path) -> bool:
    """Whether a .pt file is a checkpoint of ML-Agents; False also where it cannot be read."""
    try:
        refuse_pipe(path)
        with zipfile.ZipFile(path) as archive:
            parts = [part for part in archive.infolist() if part.filename.endswith("data.pkl")]
            return any(MARK in archive.read(part) for part in parts if part.file_size <= _MOST_NAMES)
    except Exception:  # zipfile raises a dozen types for a damaged file
        return False


def refuse_to_resume(run: Path) -> None:
    """Refuse to resume a run of ML-Agents, and say how to start from it.

    Its checkpoints lack what an exact continuation needs: random states, the steps that wait for an update.

    Raises:
        TrainerError: a behavior in the run's folder has a checkpoint of ML-Agents.
    """
    for path in sorted(run.glob("*/checkpoint.pt")):
        if is_mlagents_file(path):
            raise TrainerError(
                f"{run} is a run of ML-Agents ({path} is its checkpoint), and --resume goes on with "
                "Lanista's own runs alone. Begin a new run with its weights, normalizers and optimizer: "
                f"--run-id NEW --initialize-from {run.name}. Steps, lessons and schedules then begin anew."
            )


def _require_another_run(start: Path | None, settings: CheckpointSettings) -> None:
    """A run of the same name would be set aside before its weights are read."""
    if start is None:
        return
    # Not Path.resolve, which raises where a link leads to itself.
    own, begun = Path(os.path.realpath(settings.write_path)), Path(os.path.realpath(start))
    if begun == own or own in begun.parents:
        raise TrainerError(
            f"The run {settings.run_id} is to start from its own weights ({start}): continue it with "
            "--resume, or give the new run another --run-id."
        )


def find_start(settings: CheckpointSettings) -> Path | None:
    """Resolve --initialize-from to the folder of a run, or one checkpoint; None if it is not given.

    It may be the id of a run in the results folder (that comes first), the path of a run's folder, of a
    behavior's folder with a checkpoint.pt, or of a checkpoint file.

    Raises:
        TrainerError: there is no such run or file.
    """
    wanted = settings.initialize_from
    if wanted is None:
        return None
    for path in (Path(settings.results_dir) / wanted, Path(wanted)):
        if path.is_dir():
            return path / LATEST if (path / LATEST).is_file() else path
        if path.suffix in WEIGHTS and path.is_file():
            return path
    runs = [run.name for run in runs_in(Path(settings.results_dir)) if any(run.glob(f"*/{LATEST}"))]
    hint = did_you_mean(wanted, runs)
    listed = f"{', '.join(runs[:8])}{', ...' if runs[8:] else ''}"
    known = f" Runs with checkpoints in {settings.results_dir}: {listed}."
    run = Path(settings.results_dir) / wanted
    raise TrainerError(
        f"Could not initialize from {run}: there is no such run, and {wanted} (--initialize-from) is neither "
        f"a run's folder nor a checkpoint (.pt, .safetensors).{hint}"
        f"{known if runs else ''} "
        "Make sure models have already been saved with that run ID."
    )


def lacks(start: Path, behavior: str) -> bool:
    """Whether `start` is the folder of a run that has not trained a behavior."""
    return start.is_dir() and not (start / behavior).exists()


def initial_checkpoint(behavior: str, init_path: str | None, start: Path | None) -> Path | None:
    """The checkpoint that a behavior starts from; None for random weights.

    Args:
        behavior: its name.
        init_path: a .pt file or a folder with a checkpoint.pt. A bare file name is looked for among the
            checkpoints of the run `start`, if there is one.
        start: the folder of the run to start from, or one checkpoint for all behaviors.

    Raises:
        TrainerError: there is no such file.
    """
    if init_path is None and start is None:
        return None
    if init_path is None:
        wanted = Path(str(start)) / behavior / LATEST if Path(str(start)).is_dir() else Path(str(start))
    elif start is not None and start.is_dir() and Path(init_path).name == init_path:
        wanted = start / behavior / init_path
    else:
        wanted = Path(init_path)
    path = wanted / LATEST if wanted.is_dir() else wanted
    if path.suffix not in WEIGHTS or not path.is_file():
        source = "--initialize-from" if init_path is None else f"behaviors.{behavior}.init_path: {init_path}"
        raise TrainerError(
            f"{behavior}: Could not initialize from {path} ({source}): the file does not exist or is not a "
            f".pt file. Expected a checkpoint such as results/run/{behavior}/{LATEST}, or a folder with "
            f"a {LATEST}.{_alternatives(path, start)}"
        )
    return path


def _alternatives(missing: Path, start: Path | None) -> str:
    """What exists instead of a checkpoint that was not found."""
    if missing.name != LATEST and missing.parent.is_dir():
        found, what = sorted(path.name for path in missing.parent.glob("*.pt")), missing.parent
    elif start is not None and start.is_dir():
        found, what = sorted(path.parent.name for path in start.glob(f"*/{LATEST}")), start
    else:
        return ""
    return f" {what.absolute()} has {', '.join(found[:8]) or 'none'}{', ...' if found[8:] else ''}."


class Optimizer(Protocol):
    """An optimizer whose state is tensors and numbers by name."""

    def state_dict(self) -> dict[str, Any]:
        """The state."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave."""


def as_lanista_state(
    modules: Mapping[str, nn.Module], state: Mapping[str, Any], *, mlagents: bool
) -> tuple[Mapping[str, Any], list[str]]:
    """A checkpoint in Lanista's own form, and what of an ML-Agents checkpoint has none, with the reasons.

    Args:
        modules: the networks by their checkpoint entries, the policy first.
        state: the checkpoint. The policy of one of ML-Agents must fit as a whole.
        mlagents: whether checkpoints of ML-Agents can be read.

    Raises:
        CheckpointError: it is one of ML-Agents, and cannot be read or does not fit.
    """
    from .mlagents.weights import as_ours, is_mlagents

    if not is_mlagents(state):
        return state, []
    if not mlagents:
        raise CheckpointError(
            "it is ML-Agents', whose weights begin runs with trainer_type ppo, poca or sac alone"
        )
    return as_ours(modules, state)


def load_matching(modules: Mapping[str, nn.Module], state: Mapping[str, Any]) -> list[str]:
    """Load what fits of a checkpoint; of a module (a layer, a normalizer) all tensors, or none.

    Of a body in which an actor and a critic are two streams, a network with the actor alone takes that one,
    and the other way around.

    Args:
        modules: the networks by their checkpoint entries, the policy first.
        state: the checkpoint, in Lanista's form.

    Returns:
        What was not loaded, with the reasons; empty if everything was.

    Raises:
        CheckpointError: nothing of the policy fits, or a tensor is not finite.
    """
    mismatches: list[str] = []
    for index, (entry, network) in enumerate(modules.items()):
        saved = state.get(entry)
        if not isinstance(saved, Mapping):
            saved = {}
        _require_finite(saved, entry)
        own = network.state_dict()
        if index == 0:
            saved, lost = _with_own_streams(own, saved)
            mismatches += [f"{entry}.body of the critic ({lost})"] if lost else []
        matching, unfit = fitting(own, saved)
        if not matching and index == 0:
            more = f" and {len(unfit) - 4} more" if len(unfit) > 4 else ""
            raise CheckpointError(
                f"nothing of its policy fits: {', '.join(unfit[:4])}{more}. Take the network_settings of the "
                "run that it is from (its configuration.yaml has them), and an environment with the same "
                "observations and actions"
            )
        network.load_state_dict(matching, strict=False)
        mismatches += [f"{entry}.{what}" for what in unfit]
    return mismatches


def _with_own_streams(own: Mapping[str, Any], saved: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A saved policy whose body has as many streams as our own, and why the critic's is not taken over.

    The actor's stream is the first one. A critic's that the file has not keeps its initial weights.
    """
    fitted, lost = dict(saved), ""
    for name, tensor in own.items():
        there: Any = saved.get(name)
        if not name.startswith(BODY) or not hasattr(there, "shape") or not tensor.dim():
            continue
        if there.shape[1:] == tensor.shape[1:] and (len(there), len(tensor)) == (2, 1):
            fitted[name], lost = there[:1], "this network has no such part"
        elif there.shape[1:] == tensor.shape[1:] and (len(there), len(tensor)) == (1, 2):
            fitted[name], lost = tensor.clone(), "not in the file"
            fitted[name][:1] = there
    return fitted, lost


def _require_finite(saved: Mapping[str, Any], entry: str) -> None:
    """Refuse weights that would make every later number NaN, which the learning rate would be blamed for.

    Raises:
        CheckpointError: names the tensor.
    """
    for name, value in saved.items():
        if hasattr(value, "isfinite") and value.is_floating_point() and not value.isfinite().all():
            raise CheckpointError(
                f"its tensor {entry}.{name} holds NaN or infinite numbers: take an older "
                "checkpoint of that run"
            )


def load_optimizers(optimizers: Mapping[str, Optimizer], state: Mapping[str, Any]) -> list[str]:
    """Load the states of optimizers, by their checkpoint entries, whose weights have all been loaded.

    Returns:
        What was not loaded, with the reasons.
    """
    mismatches: list[str] = []
    for entry, optimizer in optimizers.items():
        saved = state.get(entry)
        if not isinstance(saved, Mapping):
            mismatches.append(f"{entry} (not in the file)")
        elif unfit := fitting(optimizer.state_dict(), saved)[1]:
            mismatches.append(f"{entry} ({'; '.join(unfit)})")
        else:
            optimizer.load_state_dict(saved)
    return mismatches


def unfit(modules: Mapping[str, nn.Module], state: Mapping[str, Any]) -> list[str]:
    """The parts of a checkpoint, in Lanista's form, that do not fit `modules`, with the reasons."""
    entries = {entry: state.get(entry) for entry in modules}
    return [
        f"{entry}.{part}"
        for entry, saved in entries.items()
        for part in fitting(modules[entry].state_dict(), saved if isinstance(saved, Mapping) else {})[1]
    ]


def fitting(own: Mapping[str, Any], saved: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What fits of `saved`, and which modules of both do not."""
    modules: dict[str, list[str]] = {}
    for name in own:
        modules.setdefault(_module(name), []).append(name)
    taken: dict[str, Any] = {}
    unfit = []
    for module, names in modules.items():
        reasons = [reason for name in names if (reason := _mismatch(own[name], saved.get(name)))]
        if reasons:
            unfit.append(f"{module} ({reasons[0]})")
        else:
            taken.update({name: saved[name] for name in names})
    foreign = [str(name) for name in saved if name not in own]
    unused = sorted({name if (module := _module(name)) in modules else module for name in foreign})
    return taken, [*unfit, *(f"{name} (this network has no such part)" for name in unused)]


def _module(name: str) -> str:
    """The module that a tensor belongs to."""
    return name.rpartition(".")[0]


def _mismatch(own: Any, saved: Any) -> str:
    """Why a saved number or tensor cannot replace our own; empty if it can."""
    if saved is None:
        return "not in the file"
    if hasattr(own, "shape") != hasattr(saved, "shape"):
        return f"a {type(saved).__name__} there, a {type(own).__name__} here"
    there, here = (list(getattr(x, "shape", ())) for x in (saved, own))
    return f"of shape {there} there, {here} here" if there != here else ""
