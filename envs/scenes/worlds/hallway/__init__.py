"""Unity's Hallway."""
