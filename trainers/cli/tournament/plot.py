"""A tournament as a picture: ratings with their errors, and the score of everybody against everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from .round_robin import RoundRobin

CELL, BAR, LINE = 56, 260, 34
"""Pixels: the side of a cell of the matrix, the width of the bars, the height of a line without a matrix."""
MARGIN = 24
WORST, EVEN, BEST = (209, 73, 91), (244, 241, 234), (48, 99, 142)
INK, FAINT = (40, 44, 52), (150, 150, 150)
SIZE = 15


def draw(tournament: RoundRobin, title: str) -> Image.Image:
    """The picture; entrants from the best rated to the worst."""
    font: Any = ImageFont.load_default(SIZE)
    order, table = tournament.order(), tournament.standings()
    names = [f"{place + 1}  {one.name}" for place, one in enumerate(table)]
    names_width = int(max(font.getlength(name) for name in names)) + MARGIN
    left, top = MARGIN + names_width + BAR + MARGIN, MARGIN + 3 * LINE
    size = (left + CELL * len(order) + MARGIN, top + CELL * len(order) + MARGIN + LINE)
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    pen.text((MARGIN, MARGIN), title, INK, font)
    pen.text((MARGIN + names_width, top - LINE), "rating ± error", FAINT, font)
    pen.text((left, top - 2 * LINE), "score of the row against the column, %", FAINT, font)
    lowest = min(one.rating - one.error for one in table)
    span = max(1.0, max(one.rating + one.error for one in table) - lowest)
    for row, (k, one) in enumerate(zip(order, table, strict=True)):
        y = top + row * CELL
        pen.text((MARGIN, y + CELL / 2), names[row], INK, font, anchor="lm")
        x = MARGIN + names_width
        scale = (BAR - 110) / span
        ends = [
            x + 8 + scale * (value - lowest) for value in (one.rating - one.error, one.rating + one.error)
        ]
        middle = y + CELL / 2
        pen.rectangle((x, middle - 9, x + 8 + scale * (one.rating - lowest), middle + 9), BEST)
        pen.line((ends[0], middle, ends[1], middle), INK, 2)
        pen.text((ends[1] + 6, middle), f"{one.rating:.0f} ± {one.error:.0f}", INK, font, anchor="lm")
        pen.text((left + row * CELL + CELL / 2, top - 6), str(row + 1), INK, font, anchor="mb")
        for column, j in enumerate(order):
            match = tournament.between(k, j)
            if match is not None and match.games:
                share = match.score / match.games
                corner = (left + column * CELL, y)
                pen.rectangle((*corner, corner[0] + CELL - 2, y + CELL - 2), _colour(share))
                ink = INK if 0.15 < share < 0.8 else (255, 255, 255)
                place = (corner[0] + CELL / 2 - 1, y + CELL / 2 - 1)
                pen.text(place, f"{100 * share:.0f}", ink, font, anchor="mm")
    return image


def save(tournament: RoundRobin, title: str, path: Path) -> None:
    """Write the picture as the file's ending says. Raises OSError or ValueError (an unknown ending)."""
    draw(tournament, title).save(path)


def _colour(share: float) -> tuple[int, int, int]:
    """From red, all lost, over white, even, to blue, all won."""
    end, amount = (BEST, 2 * share - 1) if share >= 0.5 else (WORST, 1 - 2 * share)
    r, g, b = (round(middle + amount * (far - middle)) for middle, far in zip(EVEN, end))
    return r, g, b
