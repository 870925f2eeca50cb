"""What is on disk."""
