"""Lanista trains agents that live in game engines."""

__version__ = "0.1.0"
