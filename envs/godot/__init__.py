"""Godot games: launched or awaited, and spoken to as the plugin godot_rl_agents does, or Lanista's addon.

Imports nothing, so that settings can check names.
"""

GODOT = "godot:"
"""The prefix of names: `godot:PATH` is a game or a project, `godot:` alone the editor."""


def is_godot(path: str | None) -> bool:
    """Whether a name means a Godot game."""
    return path is not None and path.strip().startswith(GODOT)


def is_godot_editor(path: str | None) -> bool:
    """Whether it means the game that is played in Godot's editor, which connects by itself."""
    return path is not None and path.strip() == GODOT
