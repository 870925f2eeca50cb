"""Who takes part in a tournament: runs, their checkpoints, or the snapshots of their self-play."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ....envs.base import BehaviorName
from ...policies.onnx.load import LoadError, find_policy
from .match import MatchError, Policy


@dataclass(eq=False)
class Entrant:
    """A policy for each behaviour, under one name."""

    name: str
    policies: Mapping[str, Policy]
    """By behaviour; under "" one for all of them."""
    elo: float | None = None
    """The rating that it has from its training."""

    def policy(self, behavior: BehaviorName) -> Policy:
        """What acts for a behaviour.

        Raises:
            MatchError: it has nothing for it.
        """
        found = self.policies.get(behavior.name) or self.policies.get("")
        if found is None:
            has = ", ".join(self.policies) or "none"
            raise MatchError(f"{self.name} has no brain of the behavior {behavior.name}; it has {has}.")
        return found


def entrants_of(path: str, results: Path, kind: str) -> list[Entrant]:
    """Those that one argument means.

    Args:
        path: the id of a run, its folder, or a brain (.onnx) or checkpoint (.pt).
        results: where runs lie whose ids are given.
        kind: "newest" of a run, its "checkpoints", or the "snapshots" of its self-play and what came of it.

    Raises:
        MatchError: there is no such run, or it has none of what is asked for.
    """
    place = Path(path)
    try:
        if place.is_file():
            return [Entrant(place.stem, {"": find_policy(place)[1]})]
        folder = place if place.is_dir() else results / path
        if not folder.is_dir():
            raise MatchError(f"{path}: there is no such file, no such folder, and no run {folder}.")
        if kind == "checkpoints":
            return _checkpoints(folder)
        if kind == "snapshots":
            return _snapshots(folder)
        return [
            Entrant(folder.name, {name: find_policy(folder, behavior=name)[1] for name in _behaviors(folder)})
        ]
    except LoadError as error:
        raise MatchError(str(error)) from error


def _behaviors(folder: Path) -> list[str]:
    """The behaviours of a run that have checkpoints.

    Raises:
        MatchError: there are none.
    """
    found = sorted(inner.name for inner in folder.iterdir() if (inner / "checkpoint.pt").is_file())
    if not found:
        raise MatchError(f"{folder} is no folder of a run: no behavior has a checkpoint.pt there.")
    return found


def _checkpoints(folder: Path) -> list[Entrant]:
    """One for every step at which all behaviours have a brain."""
    steps = [
        {int(found[1]): path for path in (folder / name).glob("*.onnx") if (found := _STEP.search(path.name))}
        for name in _behaviors(folder)
    ]
    common = sorted(set(steps[0]).intersection(*steps[1:]))
    if not common:
        raise MatchError(
            f"{folder} has no step at which all its behaviors ({', '.join(_behaviors(folder))}) have a brain "
            "(<behavior>-<step>.onnx)."
        )
    return [
        Entrant(
            f"{folder.name} {step}",
            {name: find_policy(of[step])[1] for name, of in zip(_behaviors(folder), steps)},
        )
        for step in common
    ]


_STEP = re.compile(r"-([0-9]+)\.onnx$")


def _snapshots(folder: Path) -> list[Entrant]:
    """The pool of the one behaviour that plays against itself, oldest first, and the newest weights."""
    from ...checkpoints.file import CheckpointError, load_checkpoint
    from ...checkpoints.metadata import build_network
    from ...networks.multi_actor import MultiActor
    from ...policies.greedy import CheckpointPolicy

    names = _behaviors(folder)
    if len(names) != 1:
        raise MatchError(
            f"{folder} has the behaviors {', '.join(names)}: snapshots of one of them alone cannot play. "
            "Give --checkpoints instead."
        )
    try:
        state = load_checkpoint(folder / names[0] / "checkpoint.pt")
        if "self_play" not in state:
            raise MatchError(f"{folder}: {names[0]} was not trained by self-play, and has no snapshots.")
        pool = state["self_play"]
        turn = pool["next_slot"] if len(pool["slots"]) == len(pool["ratings"]) - 1 else 0
        order = [*range(turn, len(pool["slots"])), *range(turn)]
        named = [
            (f"snapshot {k + 1}", pool["weights"][pool["slots"][slot]], slot) for k, slot in enumerate(order)
        ]
        entrants: list[Entrant] = []
        for title, weights, slot in [*named, ("newest", state["Policy"], -1)]:
            _, network = build_network({**state, "Policy": weights})
            if isinstance(network, MultiActor):
                raise MatchError(f"{folder}: agents that act by their place cannot play here.")
            policy = CheckpointPolicy(network, seed=len(entrants))
            entrants.append(Entrant(f"{folder.name} {title}", {"": policy}, pool["ratings"][slot]))
    except CheckpointError as error:
        raise MatchError(str(error)) from error
    return entrants
