"""Helpers that do not depend on environments."""
