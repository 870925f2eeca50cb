"""Ball3d."""
