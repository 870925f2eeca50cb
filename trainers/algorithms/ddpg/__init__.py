"""Deep deterministic policy gradients."""
