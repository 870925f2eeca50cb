"""Food collector."""
