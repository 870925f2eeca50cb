"""The names of games of Unreal with the plug-in UnrealMLAgents.

Imports nothing, so that settings can check names.
"""

PREFIX = "unreal:"
"""The prefix of names: `unreal:PATH` is a game, `unreal:` alone the editor."""


def is_unreal(path: str | None) -> bool:
    """Whether a name means a game of Unreal."""
    return path is not None and path.strip().startswith(PREFIX)


def is_unreal_editor(path: str | None) -> bool:
    """Whether it means the game that is played in Unreal's editor, which connects by itself."""
    return path is not None and path.strip() == PREFIX
