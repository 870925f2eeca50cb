"""Hallway."""
