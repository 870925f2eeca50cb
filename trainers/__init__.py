"""The second floor: from trajectories to brains."""
