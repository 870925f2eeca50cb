"""Pettingzoo."""
