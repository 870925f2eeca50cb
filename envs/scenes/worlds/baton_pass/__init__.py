"""Baton pass."""
