"""The first floor: from steps to trajectories. Knows nothing of algorithms."""
