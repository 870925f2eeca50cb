"""The trained models that come with Lanista: `lanista play --pretrained NAME`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..cli.runs.record import CARD
from ..settings.yaml_source import FOLDER
from ..utils.errors import CommandError, did_you_mean

PRETRAINED = FOLDER / "pretrained"
"""A folder for each scene: the models, and the card that `lanista card` wrote."""


@dataclass(frozen=True)
class Pretrained:
    """The models of one scene, as their card tells."""

    name: str
    facts: Mapping[str, Any]
    """What `read_card` returns."""

    @property
    def models(self) -> list[Path]:
        """The files, one for each behavior."""
        return [PRETRAINED / self.name / one["file"] for one in self.facts["models"]]

    @property
    def environment(self) -> list[str]:
        """What they were trained and scored in, as `--env` takes it, and its arguments."""
        return list(self.facts["environment"])

    @property
    def sampled(self) -> bool:
        """Whether they were scored with sampled actions: they are worse with the likeliest."""
        return bool(self.facts["score"]["actions"] == "sampled")

    @property
    def score(self) -> str:
        """The mean return of each behavior, with its standard deviation."""
        behaviors = self.facts["score"]["behaviors"]
        means = [f"{one['mean']:.4g} ± {one['std']:.2g}" for one in behaviors.values()]
        if len(means) == 1:
            return means[0]
        return ", ".join(f"{name} {mean}" for name, mean in zip(behaviors, means))


def pretrained_names() -> list[str]:
    """What `--pretrained` takes: the scenes of which there is a trained model."""
    return sorted(card.parent.name for card in PRETRAINED.glob(f"*/{CARD}"))


def find_pretrained(name: str) -> Pretrained:
    """The models of this name.

    Raises:
        CommandError: there are none.
    """
    from .card.markdown import read_card

    known = pretrained_names()
    wanted = name.removeprefix("scene:").partition("?")[0]
    if wanted not in known:
        hint = did_you_mean(wanted, known) or f" There are: {', '.join(known)}."
        raise CommandError(f"There is no pretrained model {name}.{hint}")
    return Pretrained(wanted, read_card(PRETRAINED / wanted / CARD))


def list_pretrained() -> None:
    """Print all of them, each with its score and the line to type."""
    for one in map(find_pretrained, pretrained_names()):
        print(f"{one.name}: mean return {one.score}\n    lanista play --pretrained {one.name} --watch")
