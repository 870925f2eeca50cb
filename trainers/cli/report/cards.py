"""The model card of each run of a report: what made its models, what they are, how well they play."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...utils.text import typed
from ..card.contents import PAPERS, ModelFile, Training
from ..card.markdown import read_card
from ..runs.command import age, size
from ..runs.record import CARD
from .contents import Group, RunResult
from .markup import shown, table, text_row


def model_cards(groups: Sequence[Group]) -> str:
    """The cards of all runs, to be unfolded."""
    cards = "".join(_card(run) for group in groups for run in group.runs)
    return f"<details><summary>Model cards, commands and models</summary>{cards}</details>"


def _card(run: RunResult) -> str:
    record = run.record
    made = f" ({shown(record.program)})" if record.program else ""
    since = f", changed {age(time.time() - record.updated)} ago" if record.state == "running" else ""
    configuration = record.path / "configuration.yaml"
    command = (
        typed(record.command) or f"lanista-learn {configuration} --run-id NAME   # the same settings again"
    )
    training = Training(record)
    facts = [*training.facts(), *_papers(record.trainers), *_score(run)]
    facts += [(path, json.dumps(value)) for path, value in training.settings().items()]
    models = run.models()
    files = table(("Model", "Size", "SHA-256"), [text_row(_model(path)) for path in models])
    return (
        f"<h3>{shown(record.name)}{made}{since}</h3><pre>{shown(command)}</pre>"
        f"{table(('Model card', ''), map(text_row, facts))}{files if models else ''}"
    )


def _model(path: Path) -> tuple[str, str, str]:
    """Its path, size and checksum; in place of these why it cannot be read."""
    try:
        model = ModelFile.read(path, "")
    except OSError as error:
        return str(path), "-", f"cannot be read: {error.strerror}"
    return str(path), size(model.size), model.sha256


def _papers(trainers: Sequence[str]) -> list[tuple[str, str]]:
    known = [(name, PAPERS[name]) for name in trainers if name in PAPERS]
    return [(name, f"{paper.title}, {paper.authors}, {paper.link}") for name, paper in known]


def _score(run: RunResult) -> list[tuple[str, str]]:
    """What `lanista card` measured and wrote into the run's folder."""
    score = read_card(run.record.path / CARD).get("score")
    if not isinstance(score, dict) or not isinstance(score.get("behaviors"), dict):
        return [("Score", f"not measured: lanista card {run.record.name} plays 100 episodes")]
    return [
        (f"Score of {name}", f"{_returns(one)}, {score.get('actions')} actions, seed {score.get('seed')}")
        for name, one in score["behaviors"].items()
    ]


def _returns(one: Any) -> str:
    if not isinstance(one, dict):
        return "unreadable"
    count = f"{one['groups']} groups" if "groups" in one else f"{one.get('episodes')} episodes"
    return f"{one.get('mean')} ± {one.get('std')} in {count}"
