"""The ground floor: where steps come from. Knows nothing of torch."""
