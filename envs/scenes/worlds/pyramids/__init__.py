"""Unity's Pyramids."""
