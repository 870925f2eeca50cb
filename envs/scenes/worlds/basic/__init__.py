"""Basic."""
