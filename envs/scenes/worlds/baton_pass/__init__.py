"""Baton pass, a scene of our own."""
