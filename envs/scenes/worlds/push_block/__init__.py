"""Push block."""
