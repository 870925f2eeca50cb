"""Gymnasium environments."""
