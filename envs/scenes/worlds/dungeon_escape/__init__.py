"""Dungeon escape."""
