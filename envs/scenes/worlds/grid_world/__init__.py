"""Unity's GridWorld."""
