"""The plot of a tournament: ratings with their standard errors, and each participant's score against each."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from .round_robin import RoundRobin

CELL = 0.55
"""Inches of a cell of the matrix."""
BARS = 4.8
"""Inches of the axis of ratings."""
LETTER = 0.09
"""Inches of a letter, at most."""


def plot_tournament(tournament: RoundRobin, title: str) -> Figure:
    """Draw the participants, the best rated first."""
    order, leaderboard = tournament.order(), tournament.leaderboard()
    count = len(order)
    size = 1.0 + CELL * count
    names = LETTER * max(len(rank.name) for rank in leaderboard)
    width = 1.0 + names + BARS + size
    figure = Figure((width, 1.4 + size), layout="constrained")
    figure.suptitle(textwrap.fill(title, int(width / LETTER)), fontsize="medium")
    bars, matrix = figure.subplots(1, 2, sharey=True, width_ratios=[BARS, size])
    ratings = np.array([rank.rating for rank in leaderboard])
    errors = np.array([rank.error for rank in leaderboard])
    start = (ratings - errors).min() - 10
    drawn = bars.barh(range(count), ratings - start, 0.5, start, xerr=errors, color="#30638e")
    bars.bar_label(drawn, [f" {rank.rating:.0f} ± {rank.error:.0f}" for rank in leaderboard])
    bars.set_xlim(start, start + 1.35 * ((ratings + errors).max() - start))  # room for the labels
    bars.set_yticks(range(count), [f"{rank.name}  {place}" for place, rank in enumerate(leaderboard, 1)])
    bars.set_xlabel("rating ± standard error")
    shares = np.full((count, count), np.nan)
    for row, one in enumerate(order):
        for column, other in enumerate(order):
            result = tournament.between(one, other)
            if result is not None and result.games:
                shares[row, column] = result.score / result.games
                color = "black" if 0.15 < shares[row, column] < 0.85 else "white"
                text = f"{100 * shares[row, column]:.0f}"
                matrix.text(column, row, text, ha="center", va="center", color=color)
    matrix.imshow(shares, cmap="RdBu", vmin=0, vmax=1, aspect="auto")
    matrix.set_xticks(range(count), range(1, count + 1))
    matrix.set_title("score of the row\nagainst the column, %", fontsize="small")
    return figure


def save_plot(tournament: RoundRobin, title: str, path: Path) -> None:
    """Write the plot in the format of the file's ending. Raises OSError or ValueError (an unknown ending)."""
    plot_tournament(tournament, title).savefig(path)
