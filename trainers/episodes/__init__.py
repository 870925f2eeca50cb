"""Counted episodes: which of them count, and what agents and groups earn in them. Needs no torch."""

MAX_DECISIONS = 5_000
"""The default number of decisions after which an episode that does not end is cut, and counted as it is."""
