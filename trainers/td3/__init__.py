"""Twin delayed deterministic policy gradients."""
