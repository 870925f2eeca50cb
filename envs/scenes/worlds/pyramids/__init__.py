"""Pyramids."""
