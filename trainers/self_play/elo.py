"""Elo ratings: what a game's result says about two players' strengths.

Elo, The Rating of Chessplayers, Past and Present, 1978.
"""

from __future__ import annotations

import math

WIN, DRAW, LOSS = 1.0, 0.5, 0.0
"""Results of a game, as the player's share of it."""
SCALE = 400.0
"""A player rated so many points higher is expected to win ten times as often as to lose."""


def expected_result(own: float, other: float) -> float:
    """What a player rated `own` gets on average of a game against one rated `other`: 0 to 1."""
    return 1.0 / (1.0 + math.pow(10.0, (other - own) / SCALE))


def rating_change(own: float, other: float, result: float) -> float:
    """By how much a game changes the player's rating; the other's changes by as much the other way.

    The factor K, 10 to 40 among people, is 1: agents play very many games, as in ML-Agents.
    """
    return result - expected_result(own, other)


def result_of(reward: float) -> float:
    """The result that a game's last reward, the agent's and its group's together, tells of."""
    return WIN if reward > 0 else LOSS if reward < 0 else DRAW
