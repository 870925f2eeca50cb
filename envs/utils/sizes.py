"""How large a behavior may be, whoever describes it: networks and buffers are made by what was announced."""

MOST_ACTIONS = 1 << 16
"""The most continuous actions and choices of an agent together, for each of which a network has an output."""
MOST_BRANCHES = 1 << 11
"""The most discrete actions of an agent, each of which is an output of the model: the time to export it grows
with their square."""
MOST_SENSORS = 1 << 12
"""The most observations of an agent, each of which is stored by itself, and is an input of the model."""
MOST_CHOICES = 1 << 16
"""The most values of an observation that is a choice, and becomes a vector with a number for each."""
MOST_NUMBERS = 1 << 20
"""The most numbers of a vector in a space of Gymnasium, each of which has as many weights as the first layer
has units; messages of engines bound theirs by their own size."""


def too_many_actions(continuous: int, choices: int, branches: int) -> str:
    """Why so many continuous actions, and choices of so many branches, are refused; empty if they are not."""
    if branches > MOST_BRANCHES:
        return f"an agent has {branches:,} discrete actions; expected at most {MOST_BRANCHES:,}"
    if continuous + choices <= MOST_ACTIONS:
        return ""
    return (
        f"an agent has {continuous:,} continuous actions and {choices:,} choices; expected at most "
        f"{MOST_ACTIONS:,} together. Let it choose in several branches, such as a row and a column"
    )


def too_many_sensors(count: int) -> str:
    """Why so many observations are refused; empty if they are not."""
    if count <= MOST_SENSORS:
        return ""
    return (
        f"an agent has {count:,} observations; expected at most {MOST_SENSORS:,}. Let one vector hold the "
        "numbers of several"
    )


def too_many_choices(count: int) -> str:
    """Why a choice among so many values is refused as an observation; empty if it is not."""
    if count <= MOST_CHOICES:
        return ""
    return (
        f"{count:,} choices, each of which becomes a number, are too many; expected at most "
        f"{MOST_CHOICES:,}. Observe a number instead (a box)"
    )


def too_many_numbers(count: int) -> str:
    """Why a vector of so many numbers is refused; empty if it is not."""
    if count <= MOST_NUMBERS:
        return ""
    return (
        f"a vector of {count:,} numbers is too long; expected at most {MOST_NUMBERS:,}. An image is none if "
        "it is of bytes, height x width x 1, 3 or 4"
    )
