"""Suggested settings as YAML with comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mlagents_envs.base_env import BehaviorSpec

from ...buffers.replay.memory_limit import size_text
from ...utils.text import harmless
from .bounds import PICTURE
from .suggest import Suggestion, Tree

WIDTH = 100
"""Characters after which a comment has a line of its own."""
_COMMENTS = {
    "batch_size": "steps in one gradient step",
    "buffer_size": "an update begins with more steps than these",
    "learning_rate": "lower it if learning is unstable",
    "beta": "more explores longer",
    "steps_per_update": "steps of agents to one gradient step",
    "init_entcoef": "more explores longer at first",
    "epsilon_decay_steps": "until then ever fewer actions are random",
    "noise_decay_steps": "until then ever less noise is added to actions",
    "hidden_units": "wider for harder tasks, narrower for faster steps",
    "ratio": "of the whole action; component: of each number",
    "action_range": "1 tries all of the range at first; 3, the default, a third of it",
    "gamma": "0.9 for rewards that come at once, up to 0.999 for late ones",
    "max_steps": "decisions of agents, all together",
    "time_horizon": "steps of an agent from which a piece of experience is made",
    "summary_freq": "steps between two lines of progress",
    "checkpoint_interval": "steps between two saves",
    "save_steps": "steps between two snapshots to play against",
    "team_change": "steps until the other team learns",
}
"""What a key is for, explained where it first stands."""
_RARE = """\
      # Nothing was earned at random. If rewards are rare, let agents look for what is new to them:
      # rnd:
      #   strength: 0.01"""
_BOUNDED = {
    "batch_size": "low because each step takes {gradient} of memory in it; smaller images take less",
    "buffer_size": "low because each step takes {collected} of memory; smaller images take less",
}
"""The comments on sizes that are lower than elsewhere, by key."""
_SMALLER = "let the environment send smaller images, such as {}: then the usual sizes have room"
_USUAL_SIDE = 84
"""The longer side of images, in pixels, of which most configurations have room."""
_MEMORY = "    # memory: {}  # if what is seen at one moment is not enough to act on"


def configuration(suggestions: Sequence[Suggestion], header: Sequence[str]) -> str:
    """The text of a file for these behaviors, below a comment of these lines."""
    explained: set[str] = set()
    lines = [f"# {harmless(line)}" for line in header]
    lines.append("behaviors:")
    for one in suggestions:
        lines += _behavior(one, explained)
    return "\n".join(lines) + "\n"


def _behavior(one: Suggestion, explained: set[str]) -> Iterator[str]:
    facts = one.facts
    teams = f" in {len(facts.teams)} teams" if len(facts.teams) > 1 else ""
    groups = f", in groups of up to {facts.group}" if facts.group > 1 else ""
    agents = f"{facts.agents} agent{'s' * (facts.agents != 1)}{teams}{groups}"
    rate = f", {float(f'{facts.rate:.2g}'):,.0f} decisions per second" if facts.rate else ""
    yield f"  {_key(facts.name)}:"
    yield f"    # {agents}{rate}. Observed: {described_observations(facts.spec)}."
    yield f"    # Actions: {described_actions(facts.spec)}."
    for key, value in one.settings.items():
        if key == "trainer_type":
            yield _line(4, key, value, one.reason)
        elif isinstance(value, dict):
            yield f"    {key}:"
            yield from _section(value, 6, explained, one)
            if key == "reward_signals" and not facts.rewarded:
                yield _RARE
            if (
                key == "network_settings"
                and "memory" not in explained
                and one.settings["trainer_type"] != "td3"
            ):
                explained.add("memory")
                yield f"  {_MEMORY}"
        else:
            yield _line(4, key, value, _comment(key, explained))


def _section(section: Tree, indent: int, explained: set[str], one: Suggestion) -> Iterator[str]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield f"{' ' * indent}{key}:"
            yield from _section(value, indent + 2, explained, one)
        elif key in _BOUNDED and key in one.bounded:
            sizes = {"gradient": size_text(one.bounds.gradient), "collected": size_text(one.bounds.collected)}
            what = _what_is(key, one) or _COMMENTS[key]
            yield _line(indent, key, value, f"{what}; {_BOUNDED[key].format(**sizes)}")
        elif remembered := _what_is(key, one):
            yield _line(indent, key, value, remembered)
        elif key == "vis_encode_type" and one.bounded:
            yield _line(indent, key, value, _SMALLER.format(_smaller_images(one.facts.spec)))
        elif key == "normalize":
            why = "vectors leave [-1, 1]" if value else "no vector leaves [-1, 1]"
            yield _line(indent, key, value, f"scale vectors; in what was seen, {why}")
        else:
            yield _line(indent, key, value, _comment(key, explained))


def _smaller_images(spec: BehaviorSpec) -> str:
    """The heights and widths of a behavior's large images if they were resized: `84 x 22`."""
    sides = [sensor.shape[1:] for sensor in spec.observation_specs if len(sensor.shape) == PICTURE]
    large = [(high, wide, _USUAL_SIDE / max(high, wide)) for high, wide in sides]
    smaller = (f"{round(high * by)} x {round(wide * by)}" for high, wide, by in large if by < 1)
    return " and ".join(dict.fromkeys(smaller)) or "of fewer channels"


def _what_is(key: str, one: Suggestion) -> str:
    """What a key is for in a replay, where that is something else; else empty."""
    return "steps that are remembered" if key == "buffer_size" and not one.bounds.on_policy else ""


def _comment(key: str, explained: set[str]) -> str:
    if key in explained:
        return ""
    explained.add(key)
    return _COMMENTS.get(key, "")


def _line(indent: int, key: str, value: Any, comment: str) -> str:
    margin = " " * indent
    line = f"{margin}{key}: {_value(value)}"
    if not comment:
        return line
    return f"{line}  # {comment}" if len(line) + len(comment) + 4 <= WIDTH else f"{margin}# {comment}\n{line}"


def _value(value: Any) -> str:
    if isinstance(value, float) and 0 < value <= 1e-3:
        return f"{value:.1e}".replace("e-0", "e-")  # as in the ready configurations
    return json.dumps(value) if isinstance(value, (bool, int)) else str(value)


def _key(name: str) -> str:
    """A behavior's name as a key, in double quotes where YAML might read it otherwise."""
    if re.fullmatch(r"\w[\w.-]*", name):
        return name
    safe = (c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in name)
    return f'"{"".join(safe)}"'


def described_observations(spec: BehaviorSpec) -> str:
    """What agents see: `8 numbers, an image of 3 x 64 x 84`."""
    numbers = sum(int(sensor.shape[0]) for sensor in spec.observation_specs if len(sensor.shape) == 1)
    parts = [f"{numbers} numbers"] if numbers else []
    for sensor in spec.observation_specs:
        shape = " x ".join(map(str, sensor.shape))
        if len(sensor.shape) == PICTURE:
            parts.append(f"an image of {shape}")
        elif len(sensor.shape) == 2:
            parts.append(f"up to {sensor.shape[0]} entities of {sensor.shape[1]} numbers")
    return ", ".join(parts) or "nothing"


def described_actions(spec: BehaviorSpec) -> str:
    """What agents do: `2 continuous, a choice of 3`."""
    actions = spec.action_spec
    parts = [f"{actions.continuous_size} continuous"] if actions.continuous_size else []
    parts += [f"a choice of {size}" for size in actions.discrete_branches]
    return ", ".join(parts) or "none"
