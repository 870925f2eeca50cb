"""Text of runs as HTML that shows it, and tables."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ...utils.text import harmless


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
