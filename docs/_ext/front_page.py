"""What the site adds to the README, its front page: where to go from there, as cards."""

CARDS = (
    (
        "Train something now",
        "docs/getting-started",
        "A first run step by step, without Unity, in two minutes.",
    ),
    (
        "From ML-Agents",
        "docs/from-ml-agents",
        "The same YAML, flags and models: what is better, and what differs.",
    ),
    (
        "Your own game in 15 minutes",
        "docs/tutorials/own-game",
        "Tutorials that are notebooks: a game, a Unity project, teams, Stable-Baselines3.",
    ),
    ("Gallery", "docs/gallery", "Thirteen scenes in motion, each with the one command that trains it."),
    ("Your Unity project", "docs/into-unity", "From the results folder to agents that act in a scene."),
    ("Your Godot game", "docs/godot", "Games with godot_rl_agents as they are, or with Lanista's addon."),
    (
        "Your game in Python",
        "docs/python-environments",
        "Gymnasium, PettingZoo, or three methods of your own.",
    ),
    ("Teams and self-play", "docs/self-play", "POCA, MAPPO and COMA for groups; opponents from the past."),
    ("Which algorithm?", "docs/algorithms", "PPO, SAC, POCA and five more: papers, tuned settings, curves."),
    ("Every key", "docs/configuration", "What each setting means, its unit, its default and its bounds."),
    ("Results", "docs/results/learning", "What is learned, how fast, and beside whom it was measured."),
    ("Something is wrong", "docs/troubleshooting", "Error messages with their causes and remedies."),
)
"""Title, page, and what is there."""


def cards() -> str:
    """The cards as MyST's Markdown."""
    lines = ["::::{grid} 1 2 2 3", ":gutter: 2", ":class-container: front-cards", ""]
    for title, page, text in CARDS:
        lines += [f":::{{grid-item-card}} {title}", f":link: {page}", ":link-type: doc", "", text, ":::", ""]
    return "\n".join([*lines, "::::", ""])
