"""One behavior: take trajectories in, update when due."""
