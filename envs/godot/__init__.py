"""Games made with Godot."""
