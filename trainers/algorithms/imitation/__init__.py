"""Learning from demonstrations."""
