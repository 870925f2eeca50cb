"""The words of each kind of engine: what its users call a behavior, an agent, an editor, and where they look.

Every message that advises a user takes its words from here, so that nobody is sent to what another engine
has. `opening.terms_for` finds the words for an environment's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The words of one kind of engine: whole sentences, or phrases without capital and full stop."""

    name: str
    """Such as `Unity`."""
    editor: str = "the editor"
    """The engine's editor."""
    play: str = "start the environment"
    """What the user does so that the game calls by itself."""
    playing: str = "starting the environment"
    """The same as a gerund."""
    behavior_name: str = "the name of the behavior"
    """What names an agent's behavior in the game, and where."""
    team: str = "team"
    """What an agent's team is called in the game, and where it is set."""
    group: str = "give agents of one group one behavior and one team"
    """What to do so that all agents of a group have one behavior and team."""
    camera: str = ""
    """What to do so that agents observe an image; empty where that depends on the environment."""
    build: str = ""
    """Where a build is made; empty where there is none."""
    deciding: str
    """What agents need in order to ask for decisions, in whole sentences."""
    never_called: str
    """Sentences for an engine that was started and has not called: what may be wrong."""
    not_played: str = ""
    """The same for one that somebody else starts, as an editor; empty: `never_called`."""
    ended_early: str = "The engine ended before it called the trainer"
    """The beginning of a sentence about one that has ended before its first message."""
    connected: str = (
        "It connected, but has not called: does it wait for something, or repeat itself without end?"
    )
    """The same for one that has connected, and said nothing."""
    greeted: str = "It connected, but did not complete the handshake."
    """The same for one that has greeted, and not called a second time."""
    idle: str
    """Sentences for an engine that has called, and not answered its first reset."""
    silent: str
    """Sentences for an engine that answered before."""
    checklist: str
    """What to look at when an engine has not called, a line each."""
    displays: str = ""
    """A further line for one that was launched with a window."""
    releases: str
    """A sentence for an engine of another version of the protocol: which releases to use."""


_NO_ANSWER = "It answered before, and then no more."

UNITY = Terms(
    name="Unity",
    editor="the Unity Editor",
    play="press Play in the Unity Editor",
    playing="pressing the Play button in the Unity Editor",
    behavior_name="the Behavior Name in the scene (Behavior Parameters)",
    team="Team Id (Behavior Parameters)",
    group="give agents of one SimpleMultiAgentGroup one Behavior Name and one Team Id",
    camera="add a Camera Sensor",
    build="Unity's build settings",
    deciding=(
        "The scene needs an active agent whose Behavior Type is Default, and each agent a Decision "
        "Requester component or code that calls RequestDecision."
    ),
    never_called=(
        "It has not called yet: it did not start, or its scene has no active agent (with the first one "
        "ML-Agents' Academy wakes), or it was built without ML-Agents or with a release before 0.15."
    ),
    not_played=(
        "It has not called yet: was Play pressed in the Unity Editor, and is an agent in the scene? The "
        "Academy calls once, when the first agent is enabled."
    ),
    idle=(
        "It connected, but no agent has asked for a decision: the scene needs an active agent, and each "
        "agent a Decision Requester component or code that calls RequestDecision, and Behavior Type Default. "
        "An exception in CollectObservations also keeps agents silent; the log or the console says so."
    ),
    silent=f"{_NO_ANSWER} If one of its scripts has thrown an exception, its log or console says so.",
    checklist="""\
\t The environment does not need user interaction to launch
\t The Agents' Behavior Parameters > Behavior Type is set to "Default"
\t The environment and the Python interface have compatible versions.""",
    displays=(
        "\t If you're running on a headless server without graphics support, turn off display by either "
        "passing --no-graphics option or build your Unity executable as server build."
    ),
    releases="Use a com.unity.ml-agents package that speaks 1.x of the API, such as 2.x, 3.x or 4.x.",
)

UNREAL = Terms(
    name="Unreal",
    editor="Unreal's editor",
    play="press Play in Unreal's editor",
    playing="pressing the Play button in Unreal's editor",
    behavior_name="the Behavior Name of the agents' actors (Behavior Parameters)",
    team="Team Id (Behavior Parameters)",
    build="Unreal's menu Platforms (Package Project)",
    deciding=(
        "The level needs an actor with an Agent component, a Decision Requester, and Behavior Parameters "
        "whose Behavior Type is Default (it is Heuristic Only at first)."
    ),
    never_called=(
        "It has not called yet: it did not start, or its level has no agent. The plug-in calls once, when "
        "the first agent begins to play; if no trainer listens then, it goes on without."
    ),
    not_played=(
        "It has not called yet: was Play pressed in Unreal's editor after this run began to listen? The "
        "plug-in calls once, when the first agent of the level begins to play."
    ),
    idle=(
        "It connected, but no agent has asked for a decision: the level needs an actor with an Agent, a "
        "Decision Requester, and Behavior Parameters whose Behavior Type is Default (it is Heuristic Only at "
        "first)."
    ),
    silent=f"{_NO_ANSWER} Errors and failed checks of the game are in its log.",
    checklist="""\
\t The environment does not need user interaction to launch
\t The level that it starts with has an actor with an Agent component
\t The agents' Behavior Parameters > Behavior Type is set to "Default"; it is "Heuristic Only" at first
\t The environment and the Python interface have compatible versions.""",
    displays=(
        "\t If you're running on a headless server without graphics support, turn off display by passing "
        "--no-graphics option."
    ),
    releases="Use a release of UnrealMLAgents that speaks 1.x of the API, such as 1.0.",
)

GODOT = Terms(
    name="Godot",
    editor="Godot's editor",
    play="play the scene in Godot's editor",
    playing="playing the scene in Godot's editor",
    behavior_name="policy_name of the agents' nodes",
    team="team_id",
    group="give agents of one LanistaGroup one policy_name and one team_id",
    camera="add a camera sensor below the agents' nodes",
    build="Godot's menu Project > Export",
    deciding=(
        "The scene tree needs an agent node (LanistaAgent2D or 3D, or an AIController of godot_rl_agents) "
        "whose script has no error, and whose control_mode is Training, or Inherit From Sync with the Sync "
        "node at Training. It asks every action_repeat physics frames, unless the tree is paused."
    ),
    never_called=(
        "It has not called yet. It calls only from a scene with a Sync node, and once: where it found "
        "nobody, it goes on in human mode."
    ),
    not_played=(
        "It has not called yet: was the scene played in Godot's editor after this run began to listen? It "
        "calls only from a scene with a Sync node, and once: where it found nobody, it goes on in human mode."
    ),
    ended_early="The engine ended before it described its agents",
    connected=(
        "It connected, and has not described its agents: does a script wait, or repeat itself without end, "
        "or is the scene tree paused?"
    ),
    idle=(
        "It connected and described its agents, but did not answer a reset: is its scene tree paused, or "
        "does a script wait?"
    ),
    silent=f"{_NO_ANSWER} Is its scene tree paused, or does a script wait, or repeat itself without end?",
    checklist="""\
\t The scene that starts has a Sync node (godot_rl_agents) or a LanistaSync node
\t Its control_mode is Training, and that of the agents Training or Inherit From Sync
\t The game reads --port from its arguments: an own command line parser may hide it""",
    displays="\t If there is no display, --no-graphics is given",
    releases="Install the addon that belongs to this Lanista: lanista godot install PROJECT.",
)

PYTHON = Terms(
    name="Python",
    deciding=(
        "Its reset() and step() have to return an agent that acts next: with PettingZoo one that is in "
        "`agents`, with a BaseEnv one in the DecisionSteps."
    ),
    never_called=(
        "It has not called yet: its process did not start, or takes long to import its modules and to make "
        "the environment."
    ),
    greeted=(
        "It connected, but did not complete the handshake: does the environment, or its first reset(), wait "
        "for something, or take so long?"
    ),
    idle="It connected, but did not answer a reset: does its reset() wait for something, or take so long?",
    silent=f"{_NO_ANSWER} Does its step() or reset() wait for something, or repeat itself without end?",
    checklist="""\
\t The environment does not need user interaction to launch
\t Its modules can be imported, and it can be made, within the time that timeout_wait gives
\t It calls the port that it was started with (--mlagents-port)""",
    releases="Let trainer and environment use the same release of Lanista.",
)
"""Environments of Gymnasium and PettingZoo, Lanista's scenes, and other programs in Python."""

UNKNOWN = Terms(
    name="engine's",
    play="start the engine, which connects there",
    deciding="An agent of the game has to be active and to ask for decisions of the trainer.",
    never_called="It has not called yet: it did not start, or has no agent.",
    idle="It connected, but no agent has asked for a decision.",
    silent=f"{_NO_ANSWER} If one of its scripts has failed, its log or console says so.",
    checklist="\t The environment does not need user interaction to launch",
    releases="Let trainer and engine use releases that speak the same version of the protocol.",
)
"""Engines that connect by themselves, before it is known what they are."""


@runtime_checkable
class _WithOutput(Protocol):
    """An environment whose engine writes something."""

    def output(self) -> str:
        """The last lines of it, to be appended to a message; may be empty."""


def terms_of(env: object) -> Terms:
    """The words for an open environment: of its engine, else Python's; of ML-Agents' own class Unity's."""
    of_mlagents = any(kind.__module__ == "mlagents_envs.environment" for kind in type(env).__mro__)
    return getattr(env, "terms", UNITY if of_mlagents else PYTHON)


def kinds_of(envs: Iterable[object]) -> list[Terms]:
    """The words for open environments, once for every kind."""
    return list(dict.fromkeys(map(terms_of, envs)))


def advice(envs: Iterable[object], otherwise: Terms = UNKNOWN) -> str:
    """What the agents of these open environments need in order to ask for decisions, in whole sentences.

    The last lines that one of the engines has written follow.

    Args:
        envs: The environments; where their kinds differ, each is named.
        otherwise: The words to use where there is no environment.
    """
    present = list(envs)
    kinds = kinds_of(present) or [otherwise]
    sentences = [f"In {one.name}: {one.deciding}" if len(kinds) > 1 else one.deciding for one in kinds]
    written = (env.output() for env in present if isinstance(env, _WithOutput))
    return " ".join(sentences) + next(filter(None, written), "")
