"""Worlds."""
