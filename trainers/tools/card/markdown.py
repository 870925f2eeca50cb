"""A model card as Markdown, with the YAML at its top that model hubs read; and that YAML read back.

Names come from files: they are shown and never become markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from ...._version import __version__
from ....envs.utils.bounded_yaml import load_yaml
from ....envs.utils.regular_files import read_text
from ...cli.runs.command import size
from ...settings.yaml_source import UNREADABLE_YAML
from ...utils.text import harmless, typed
from .contents import PAPERS, Card, Training

MARK = "<!-- Made by lanista card: what is changed here by hand is lost when it is made again. -->"
_DELIMITER = "---\n"
_LICENSE = "# license: choose one before this is published\n"
_MARKUP = re.compile(r"([\\`*\[\]<>&|~#]|\b_|_\b|(?<=_)_)")


def shown(text: object) -> str:
    r"""Text from a file as Markdown that shows it: no markup, no tags, no control characters."""
    return _MARKUP.sub(r"\\\1", harmless(str(text)))


def code(line: str) -> str:
    """A line as a block of code, in which nothing is markup."""
    return f"    {harmless(line)}"


def make_markdown(card: Card) -> str:
    """The whole card."""
    parts = [
        f"{_DELIMITER}{_front(card)}{_LICENSE}{_DELIMITER}",
        f"{MARK}\n\n# {shown(card.name)}\n\n{_summary(card)}\n",
        _score(card),
        _use(card),
        _models(card),
        *(_training(training) for training in card.trainings),
        _unknown(card),
    ]
    return "\n".join(part for part in parts if part)


def read_front(text: str) -> dict[str, Any]:
    """The YAML at the top of a card that `make_markdown` made; empty if it is no such card."""
    if MARK not in text or not text.startswith(_DELIMITER):
        return {}
    try:
        front = load_yaml(text.split(f"\n{_DELIMITER}", 1)[0])
    except UNREADABLE_YAML:
        return {}
    own = front.get("lanista") if isinstance(front, dict) else None
    return own if isinstance(own, dict) else {}


def _front(card: Card) -> str:
    behaviors = card.behaviors
    tags = ["reinforcement-learning", "deep-reinforcement-learning", "lanista", "ml-agents"]
    tags += [*card.trainers, *behaviors, *(f"ML-Agents-{name}" for name in behaviors)]
    front: dict[str, Any] = {
        "library_name": "ml-agents",
        "pipeline_tag": "reinforcement-learning",
        "tags": list(dict.fromkeys(tags)),
    }
    own: dict[str, Any] = {"version": __version__, "environment": list(card.environment)}
    if card.score is not None:
        front["model-index"] = [_results(card)]
        own["score"] = {
            "actions": card.score.actions,
            "seed": card.score.seed,
            "behaviors": {
                row.behavior: {
                    "groups" if row.of_groups else "episodes": row.episodes,
                    "mean": row.mean,
                    "std": row.std,
                }
                for row in card.score.rows()
            },
        }
    own["models"] = [
        {"behavior": one.behavior, "file": one.path.name, "bytes": one.size, "sha256": one.sha256}
        for one in card.models
    ]
    own["trained_by"] = [
        {"run": one.record.name, "seed": one.record.seed, "command": one.command} for one in card.trainings
    ]
    return yaml.safe_dump({**front, "lanista": own}, sort_keys=False, width=10_000)


def _results(card: Card) -> dict[str, Any]:
    """The scores as hubs list them."""
    where = " ".join(card.environment) or "unknown"
    assert card.score is not None
    results = [
        {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": where, "type": where},
            "metrics": [
                {
                    "type": "mean_reward",
                    "name": f"mean_reward of {row.behavior}",
                    "value": f"{row.mean:.2f} +/- {row.std:.2f}",
                    "verified": False,
                }
            ],
        }
        for row in card.score.rows()
    ]
    return {"name": card.name, "results": results}


def _summary(card: Card) -> str:
    behaviors = " and ".join(map(shown, card.behaviors))
    where = f" in {shown(' '.join(card.environment))}" if card.environment else ""
    task = f" ({shown(card.task)})" if card.task else ""
    by = ", ".join(map(_algorithm, card.trainers))
    trained = f", trained with {by}" if by else ""
    return f"Agents of the behavior {behaviors}{where}{task}{trained}."


def _algorithm(trainer: str) -> str:
    paper = PAPERS.get(trainer)
    if paper is None:
        return f"{shown(trainer)} (no paper is known here)"
    return f"{paper.title} ([{paper.authors}]({paper.link}))"


def _score(card: Card) -> str:
    if card.score is None:
        return ""
    rows = [
        (
            shown(row.behavior),
            f"{row.episodes}{' of groups' if row.of_groups else ''}",
            f"{row.mean:.3f}",
            f"{row.std:.3f}",
        )
        for row in card.score.rows()
    ]
    table = _table(("behavior", "episodes", "mean return", "std"), rows)
    how = "the likeliest actions" if card.score.actions == "likeliest" else "actions sampled as in training"
    measured = f"Measured by `lanista play` with {how}, seed {card.score.seed} of the environment"
    return f"## Score\n\n{table}\n{measured}, Lanista {__version__}.\n"


def _use(card: Card) -> str:
    files = [model.path.name for model in card.models] or ["MODEL"]
    path, *own = card.environment or ["ENVIRONMENT"]
    sampled = ["--sampled"] if card.score is not None and card.score.actions == "sampled" else []
    play = ["lanista", "play", *files, *sampled, "--env", path, *(["--env-args", *own] if own else [])]
    download = f"{code(card.download)}\n" if card.download else ""
    return f"""## Use it

{download}{code(typed(play))}

In Python:

{code(f"lanista.load({files[0]!r}).act(observations)")}

In Unity: put the model (.onnx) into the project's assets and make it the Model of the agents' Behavior
Parameters, whose Behavior Name is {" or ".join(map(shown, card.behaviors))}.

In Godot: `lanista export RUN --godot`, with the run or its checkpoint, writes what Lanista's addon plays.
"""


def _models(card: Card) -> str:
    rows = [
        (shown(one.path.name), shown(one.behavior), one.observations, one.actions, size(one.size), one.sha256)
        for one in card.models
    ]
    titles = ("file", "behavior", "observations", "actions", "size", "SHA-256")
    return f"## Models\n\n{_table(titles, rows)}"


def _training(training: Training) -> str:
    facts = [(shown(label), shown(text)) for label, text in training.facts()]
    settings = [(shown(path), shown(json.dumps(value))) for path, value in training.settings().items()]
    parts = [f"## The run {shown(training.record.name)}\n", _table(("", ""), facts)]
    if training.command:
        parts.append(f"The command that made it:\n\n{code(training.command)}\n")
    if settings:
        parts.append(f"Settings that are not at their defaults:\n\n{_table(('setting', 'value'), settings)}")
    return "\n".join(parts)


def _unknown(card: Card) -> str:
    lines = "".join(f"- {shown(sentence)}\n" for sentence in card.unknown)
    return f"## What is not known\n\n{lines}" if lines else ""


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells that are Markdown already."""
    lines = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def read_card(path: Path) -> dict[str, Any]:
    """What `lanista card` wrote of itself at the top of a file; empty if there is no such card."""
    try:
        return read_front(read_text(path, within=path.parent))
    except (OSError, UnicodeDecodeError):
        return {}
