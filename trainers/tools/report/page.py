"""The report as one HTML page: everything that it shows is in it, and its policy lets it load nothing."""

from __future__ import annotations

import base64
import html
import json
import math
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...._version import __version__
from ....envs.utils.regular_files import is_file_within, open_file, read_bytes
from ...cli.page_server import content_policy
from ...cli.runs.command import age, size
from ...cli.runs.record import CARD
from ...utils.text import harmless, typed
from ..card.contents import PAPERS, ModelFile, Training
from ..card.markdown import read_card
from .contents import Group, RunResult, differing
from .curves import MOST_LINES, Chart, charts, points_each


def shown(text: object) -> str:
    """Text from a file as HTML that shows it: no tags, no quotes, no control characters."""
    return html.escape(harmless(str(text)), quote=True)


def table(titles: Sequence[str], rows: Iterable[str], numbers: Sequence[str] = ()) -> str:
    """Rows of HTML below titles; columns with a title of `numbers` are set to the right."""
    right = dict.fromkeys(numbers, ' class="n"')
    head = "".join(f"<th{right.get(title, '')}>{shown(title)}</th>" for title in titles)
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def text_row(cells: Iterable[object]) -> str:
    """A row of cells with text."""
    return f"<tr>{''.join(f'<td>{shown(cell)}</td>' for cell in cells)}</tr>"


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
    facts = [*training.facts(), *_papers(record.trainers), *_card_score(run)]
    facts += [(path, json.dumps(value)) for path, value in training.settings().items()]
    models = run.models()
    files = table(("Model", "Size", "SHA-256"), [text_row(_model(path, record.path)) for path in models])
    return (
        f"<h3>{shown(record.name)}{made}{since}</h3><pre>{shown(command)}</pre>"
        f"{table(('Model card', ''), map(text_row, facts))}{files if models else ''}"
    )


def _model(path: Path, run: Path) -> tuple[str, str, str]:
    """The path, size and checksum of a model; in place of these why it cannot be read."""
    try:
        model = ModelFile.read(path, "", within=run)
    except OSError as error:
        return str(path), "-", f"cannot be read: {error.strerror}"
    return str(path), size(model.size), model.sha256


def _papers(trainers: Sequence[str]) -> list[tuple[str, str]]:
    known = [(name, PAPERS[name]) for name in trainers if name in PAPERS]
    return [(name, f"{paper.title}, {paper.authors}, {paper.link}") for name, paper in known]


def _card_score(run: RunResult) -> list[tuple[str, str]]:
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


COLORS = ("#3b82f6", "#f0803c", "#2aa876", "#d9538c", "#8b6cf0", "#b8942a", "#17a2b8", "#c65f4a", "#7d8a99")
LARGEST_FILM = 24_000_000
"""The most bytes of a film; a larger one is named in place of being shown."""
MOST_FILMS = 6
_TYPES = {".gif": "image/gif", ".mp4": "video/mp4", ".webm": "video/webm"}
_HEAD_ENDS = ' - report</title>\n<link rel="icon" href="data:,">'
"""The text by which a page of this kind is known, also one of an earlier version."""
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}{head_ends}
<style>{style}</style>
</head>
<body>
<main>
{content}
<script type="application/json" id="curves">{curves}</script>
</main>
<script>{script}</script>
</body>
</html>
"""


def make_page(groups: Sequence[Group], *, refresh: float | None = None, beside: Path | None = None) -> str:
    """The page of these runs.

    Args:
        groups: see `group_runs`.
        beside: the folder of the page's file, from which links lead to logs; None: there are no links.
        refresh: seconds after which the page reads itself anew from where it was loaded; None: never.
    """
    names = list(dict.fromkeys(name for group in groups for run in group.runs for name in run.behaviors))
    drawn = {name: charts(groups, name) for name in names}
    every = [chart for several in drawn.values() for chart in several]
    points = points_each(every)
    colors = [COLORS[number % len(COLORS)] for number in range(len(groups))]
    curves = {
        "groups": [{"color": color} for color in colors],
        "charts": [chart.as_dict(points) for chart in every],
        "refresh": refresh,
    }
    title = groups[0].name if len(groups) == 1 else f"{groups[0].name} and {len(groups) - 1} more"
    content = [
        f"<h1>{shown(title)}</h1>",
        f'<p class="note">{_summary(groups)}</p>',
        _results(groups, colors, names),
        _differences(groups, colors),
        _curves(groups, drawn, colors, every),
        _films(groups, names),
        _notes(groups),
        _engine_errors(groups, beside),
        model_cards(groups),
    ]
    script = _own("uPlot.iife.min.js") + _own("page.js")
    return _PAGE.format(
        policy=content_policy(script, refresh is not None),
        title=shown(title),
        head_ends=_HEAD_ENDS,
        style=_own("uPlot.min.css") + _own("page.css"),
        content="\n".join(part for part in content if part),
        curves=json.dumps(curves, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        script=script,
    )


def is_page(path: Path) -> bool:
    """Whether a file is a page of this kind, which a newer one may replace."""
    try:
        with open_file(path) as file:
            return _HEAD_ENDS.encode() in file.read(4096)
    except OSError:
        return False


def _own(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def _summary(groups: Sequence[Group]) -> str:
    count = sum(len(group.runs) for group in groups)
    environments = {run.record.environment or "the editor" for group in groups for run in group.runs}
    where = ", ".join(shown(name) for name in sorted(environments))
    made = time.strftime("%Y-%m-%d %H:%M")
    return f"{count} {'run' if count == 1 else 'runs'} in {where}. Made {made} by Lanista {__version__}."


_TITLES = ("Final", "Best", "at step", "Steps", "Steps/s", "Wall time", "Peak memory", "Seed")


def _results(groups: Sequence[Group], colors: Sequence[str], behaviors: Sequence[str]) -> str:
    """The table of scores: a line for each run and behavior, and the mean of each group."""
    rows = []
    for group, color in zip(groups, colors):
        for run in group.runs:
            rows += [_run_row(run, name, color, len(behaviors) > 1) for name in run.behaviors or [""]]
        if len(group.runs) > 1:
            its = [name for name in behaviors if any(name in run.behaviors for run in group.runs)]
            rows += [_group_row(group, name, color, len(behaviors) > 1) for name in its]
    note = (
        "Scores are mean rewards of the episodes of one summary: the last one, and the highest. Steps/s are "
        "those between the first and the last summary."
    )
    middle = ["Behavior"] if len(behaviors) > 1 else []
    scores = table(("Run", *middle, *_TITLES, "State"), rows, _TITLES)
    return f'<h2>Results</h2>{scores}<p class="note">{note}</p>'


def _run_row(run: RunResult, behavior: str, color: str, several: bool) -> str:
    record, result = run.record, run.behaviors.get(behavior)
    best = result.best if result else None
    steps, seconds = result.span if result else (0, 0.0)
    cells = (
        _score(result.record.last_reward if result else None),
        _score(best[1] if best else None),
        f"{best[0]:,}" if best else "-",
        f"{result.record.steps:,}" if result else "0",
        f"{steps / seconds:,.0f}" if seconds > 0 else "-",
        _duration(run.seconds) if run.seconds else "-",
        size(run.peak_memory) if run.peak_memory else "-",
        "-" if record.seed is None else str(record.seed),
    )
    left = f"<td>{_dot(color)}{shown(record.name)}</td>{_behavior_cell(behavior, several)}"
    right = f'<td><span class="state {record.state}">{record.state}</span></td>'
    return f"<tr>{left}{''.join(f'<td class=n>{cell}</td>' for cell in cells)}{right}</tr>"


def _group_row(group: Group, behavior: str, color: str, several: bool) -> str:
    """Mean and standard deviation over the runs of a group."""
    results = [run.behaviors[behavior] for run in group.runs if behavior in run.behaviors]
    last = [one.record.last_reward for one in results if one.record.last_reward is not None]
    best = [one.best[1] for one in results if one.best is not None]
    left = f"<td>{_dot(color)}{shown(group.name)}</td>{_behavior_cell(behavior, several)}"
    scores = f"<td class=n>{_spread(last)}</td><td class=n>{_spread(best)}</td>"
    return f'<tr class="sum">{left}{scores}{"<td></td>" * 6}<td>mean</td></tr>'


def _behavior_cell(behavior: str, several: bool) -> str:
    return f"<td>{shown(behavior)}</td>" if several else ""


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    return f"{mean:.4g} ± {math.sqrt(variance):.2g}"


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )


def _dot(color: str) -> str:
    return f'<i style="background:{color}"></i>'


def _differences(groups: Sequence[Group], colors: Sequence[str]) -> str:
    """The settings that differ between groups: a line for each, a column for each group."""
    if len(groups) < 2:
        return ""
    found = differing(groups)
    if not found:
        return '<h2>Settings</h2><p class="note">No setting that is known differs.</p>'
    head = "".join(f"<th>{_dot(color)}{shown(group.name)}</th>" for group, color in zip(groups, colors))
    cells = ((path, *map(_setting, values)) for path, values in found.items())
    rows = "".join(f"<tr>{''.join(f'<td>{shown(cell)}</td>' for cell in row)}</tr>" for row in cells)
    return (
        "<h2>Settings that differ</h2>"
        f'<div class="scroll"><table><tr><th>Setting</th>{head}</tr>{rows}</table></div>'
    )


def _setting(value: Any) -> str:
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 120 else f"{text[:119]}…"


def _curves(
    groups: Sequence[Group], drawn: dict[str, list[Chart]], colors: Sequence[str], every: Sequence[Chart]
) -> str:
    """The charts of each behavior, which the script draws, and the buttons that hide lines."""
    if not every:
        return '<h2>Curves</h2><p class="note">There is no summary yet.</p>'
    buttons = "".join(
        f'<button data-group="{number}" aria-pressed="true">{_dot(color)}{shown(group.name)}</button>'
        for number, (group, color) in enumerate(zip(groups[:MOST_LINES], colors))
    )
    left_out = len(groups) - MOST_LINES
    more = f" The curves of {left_out} more are left out." if left_out > 0 else ""
    note = (
        "Over the trainer's steps. Of runs that differ only in their seed: the mean, and a band from the "
        f"lowest to the highest, of those that have come so far. Drag to zoom, double-click for all.{more}"
    )
    only = f" of {shown(next(iter(drawn)))}" if len(drawn) == 1 else ""
    parts = [f'<h2>Curves{only}</h2><p class="note">{note}</p><div class="legend">{buttons}</div>']
    numbers = {id(chart): number for number, chart in enumerate(every)}
    for behavior, several in drawn.items():
        parts.append(f"<h2>{shown(behavior)}</h2>" if len(drawn) > 1 else "")
        for section, inner in groupby(several, key=lambda chart: chart.section):
            figures = "".join(_figure(chart, numbers[id(chart)]) for chart in inner)
            grid = f'<div class="charts">{figures}</div>'
            if section == "Other":
                parts.append(f"<details><summary>{section}</summary>{grid}</details>")
            else:
                parts.append(f"<h3>{section}</h3>{grid}")
    return "".join(parts)


def _figure(chart: Chart, number: int) -> str:
    caption = chart.tag.removeprefix("Environment/").removeprefix("Policy/").removeprefix("Losses/")
    plot = f'<div class="plot" data-chart="{number}"></div>'
    return f"<figure><figcaption>{shown(caption)}</figcaption>{plot}</figure>"


def _films(groups: Sequence[Group], behaviors: Sequence[str]) -> str:
    """The newest video of the run with the best score, for each behavior."""
    parts = []
    for behavior in behaviors:
        runs = [run for group in groups for run in group.runs if behavior in run.behaviors]
        runs.sort(key=lambda run: (run.behaviors[behavior].best or (0, -math.inf))[1], reverse=True)
        found = next(((run, film) for run in runs if (film := run.film(behavior)) is not None), None)
        if found is not None:
            parts.append(_film(*found, behavior))
    return f'<h2>Film</h2><div class="films">{"".join(parts[:MOST_FILMS])}</div>' if parts else ""


def _film(run: RunResult, path: Path, behavior: str) -> str:
    caption = f"{behavior} of {run.record.name}: the best episode of an evaluation ({path.name})"
    try:
        data = read_bytes(path, LARGEST_FILM, run.record.path)
    except OSError as error:
        return f'<p class="note">{shown(caption)} is not shown: {shown(error.strerror)}. {shown(path)}</p>'
    source = f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(data).decode()}"
    film = (
        f'<img src="{source}" alt="{shown(caption)}">'
        if path.suffix == ".gif"
        else f'<video src="{source}" controls muted loop playsinline></video>'
    )
    return f'<div class="film">{film}<p class="note">{shown(caption)}</p></div>'


def _notes(groups: Sequence[Group]) -> str:
    """Restarts, warnings and damage of each run that has any."""
    parts = []
    for run in (run for group in groups for run in group.runs):
        resumed = run.processes - 1
        lines = [f"Resumed {resumed} time{'s' if resumed > 1 else ''}."] if resumed > 0 else []
        lines += [f"Damaged: {problem}" for problem in run.problems]
        lines += run.warnings
        if lines:
            text = "\n".join(shown(line) for line in lines)
            parts.append(f"<h3>{shown(run.record.name)}</h3><pre>{text}</pre>")
    return f"<h2>Restarts and warnings</h2>{''.join(parts)}" if parts else ""


def _engine_errors(groups: Sequence[Group], beside: Path | None) -> str:
    """The errors that engines have printed, of each run that has any."""
    parts = []
    for run in (run for group in groups for run in group.runs):
        record = run.record.engine_errors
        rows = []
        for one in record.kinds:
            cells = text_row((one.first.text, one.first.place, one.first.environment)).removesuffix("</tr>")
            log = _log(run, one.first.log, beside)
            rows.append(f"{cells}<td>{log}</td><td class=n>{one.count:,}</td></tr>")
        if record.total:
            listed = table(("Error", "Place", "First in", "Log", "Count"), rows, ("Count",))
            parts.append(f"<h3>{shown(run.record.name)}: {record.total:,}</h3>{listed}")
    return f"<h2>Errors that engines have printed</h2>{''.join(parts)}" if parts else ""


def _log(run: RunResult, log: Path | None, beside: Path | None) -> str:
    """The path of a log within the run's folder, as a link if it is there."""
    if log is None:
        return ""
    path = run.record.path / log
    if beside is not None and is_file_within(path, run.record.path):
        with suppress(ValueError):  # on another drive of Windows no relative path leads there
            return f'<a href="{quote(Path(os.path.relpath(path, beside)).as_posix())}">{shown(log)}</a>'
    return shown(log)
