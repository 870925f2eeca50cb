"""Proximal policy optimization."""
