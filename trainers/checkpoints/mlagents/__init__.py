"""Mlagents."""
