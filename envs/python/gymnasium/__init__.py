"""Gymnasium."""
