"""Grid world."""
