"""Soccer."""
