"""Unity's WallJump."""
