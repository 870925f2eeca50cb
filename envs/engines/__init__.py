"""What all engines have in common: a process, a connection on which they take turns, and a BaseEnv."""
