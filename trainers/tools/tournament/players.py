"""The participants of a tournament: runs, their checkpoints, or the snapshots of their self-play."""

from __future__ import annotations

import re
from pathlib import Path

from ....envs.utils.regular_files import is_file_within
from ...cli.models import find_models, find_run
from ...policies.onnx.load import LoadError, find_policy
from ...utils.trust import Trust
from .match import MatchError, Participant


def participants_of(path: str, results: Path, kind: str, trust: Trust | None = None) -> list[Participant]:
    """The participants that one command-line argument names.

    Args:
        path: a run ID, a run folder, or a brain (.onnx) or checkpoint (.pt).
        results: the folder that holds runs given by ID.
        kind: "newest" (the final brains of a run), "checkpoints" (all of them), or "snapshots" (those of
            self-play, and the final weights).
        trust: as of `build_network`.

    Raises:
        MatchError: there is no such run, or it has nothing of this kind.
    """
    place = Path(path)
    try:
        if place.is_file():
            return [Participant(place.stem, {"": find_policy(place, trust=trust)[1]})]
        folder = find_run(path, results)
        if kind == "checkpoints":
            return _checkpoints(folder)
        if kind == "snapshots":
            return _snapshots(folder, trust)
        models = find_models([path], results, trust=trust)
        return [Participant(folder.name, {model.behavior: model.policy for model in models})]
    except LoadError as error:
        raise MatchError(str(error)) from error


def _behaviors(folder: Path) -> list[str]:
    """The behaviors of a run that have checkpoints.

    Raises:
        MatchError: there are none.
    """
    found = sorted(
        inner.name for inner in folder.iterdir() if is_file_within(inner / "checkpoint.pt", folder)
    )
    if not found:
        raise MatchError(f"{folder} is not a run folder: it holds no <behavior>/checkpoint.pt.")
    return found


def _checkpoints(folder: Path) -> list[Participant]:
    """One for every step at which all behaviors have a brain."""
    steps = [
        {
            int(found[1]): path
            for path in (folder / name).glob("*.onnx")
            if (found := _STEP.search(path.name)) and is_file_within(path, folder)
        }
        for name in _behaviors(folder)
    ]
    common = sorted(set(steps[0]).intersection(*steps[1:]))
    if not common:
        raise MatchError(
            f"{folder} has no step at which all its behaviors ({', '.join(_behaviors(folder))}) have a brain "
            "(<behavior>-<step>.onnx)."
        )
    return [
        Participant(
            f"{folder.name} {step}",
            {name: find_policy(of[step])[1] for name, of in zip(_behaviors(folder), steps)},
        )
        for step in common
    ]


_STEP = re.compile(r"-([0-9]+)\.onnx$")


def _snapshots(folder: Path, trust: Trust | None) -> list[Participant]:
    """The snapshot pool of a run's only behavior, oldest first, and its final weights."""
    from ...checkpoints.file import CheckpointError, load_checkpoint
    from ...checkpoints.metadata import build_network
    from ...networks.multi_actor import MultiActor
    from ...policies.greedy import CheckpointPolicy

    names = _behaviors(folder)
    if len(names) != 1:
        raise MatchError(
            f"{folder} has the behaviors {', '.join(names)}: a snapshot of only one of them cannot play. "
            "Use --checkpoints instead."
        )
    try:
        file = folder / names[0] / "checkpoint.pt"
        state = load_checkpoint(file)
        if "self_play" not in state:
            raise MatchError(f"{folder}: {names[0]} was not trained by self-play, and has no snapshots.")
        pool = state["self_play"]
        turn = pool["next_slot"] if len(pool["slots"]) == len(pool["ratings"]) - 1 else 0
        order = [*range(turn, len(pool["slots"])), *range(turn)]
        named = [
            (f"snapshot {k + 1}", pool["weights"][pool["slots"][slot]], slot) for k, slot in enumerate(order)
        ]
        participants: list[Participant] = []
        for title, weights, slot in [*named, ("newest", state["Policy"], -1)]:
            _, network = build_network({**state, "Policy": weights}, trust, file)
            if isinstance(network, MultiActor):
                raise MatchError(f"{folder}: policies that depend on the agent's slot cannot take part.")
            policy = CheckpointPolicy(network, seed=len(participants))
            participants.append(Participant(f"{folder.name} {title}", {"": policy}, pool["ratings"][slot]))
    except CheckpointError as error:
        raise MatchError(str(error)) from error
    return participants
