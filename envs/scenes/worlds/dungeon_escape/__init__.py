"""Unity's DungeonEscape."""
