"""The file of a brain that plays in GDScript: one of Godot's text resources (.tres).

Its script, `envs/godot/addon/brains/brain.gd`, reads it. Every property is one line, `name = value`, and all
values but the weights are JSON, which Godot's own syntax includes. docs/into-godot.md describes the format.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 1
"""Of the properties below; the addon refuses others than its own."""
SCRIPT = "res://addons/lanista/brains/brain.gd"
"""Where `lanista godot install` puts the player in a game."""
_HEADER = f"""\
[gd_resource type="Resource" script_class="LanistaBrain" load_steps=2 format=4]

[ext_resource type="Script" path="{SCRIPT}" id="1"]

[resource]
script = ExtResource("1")
"""
_BYTES = re.compile(r'PackedByteArray\("(.*)"\)')


@dataclass(frozen=True, eq=False)
class GodotBrain:
    """A policy as the player reads it; each field is a property of the resource."""

    behavior: str
    step: int
    observations: list[dict[str, Any]]
    """`name` and `shape` of each, in the order in which agents give them."""
    encoders: list[dict[str, Any]]
    """What is read of them, in order: `observations` are the indices of neighboring vectors or of one image,
    `layers` what encodes them, `size` the length of the row that comes out. The trunk reads these rows."""
    actions: list[dict[str, Any]]
    """`name`, `size` and `action_type` of each, in the order of `NamedActionSpec`."""
    layers: list[dict[str, Any]]
    """The trunk's. `layer` is the kind, the others are its settings; the last gives the head's columns."""
    head: dict[str, Any]
    """`squashed`, `greedy`, and `sigma`: none, constant or of_state."""
    weights: NDArray[np.float32]
    """Those of the encoders' layers and the trunk's in their order, then the log deviations if constant."""
    format_version: int = FORMAT_VERSION

    def to_text(self) -> str:
        """The file's text.

        Letters beyond ASCII stand for themselves: Godot's parser cannot read them escaped.
        """
        encoded = base64.b64encode(self.weights.astype("<f4").tobytes()).decode("ascii")
        written = {
            field.name: json.dumps(getattr(self, field.name), ensure_ascii=False)
            for field in fields(self)
            if field.name != "weights"
        }
        written["weights"] = f'PackedByteArray("{encoded}")'
        return _HEADER + "".join(f"{name} = {value}\n" for name, value in written.items())

    @classmethod
    def from_text(cls, text: str) -> GodotBrain:
        """The brain of a text that `to_text` wrote."""
        lines = text.removeprefix(_HEADER).rstrip("\n").split("\n")
        properties = {name: value for name, _, value in (line.partition(" = ") for line in lines)}
        match = _BYTES.fullmatch(properties.pop("weights"))
        assert match is not None
        weights = np.frombuffer(base64.b64decode(match[1]), "<f4")
        return cls(weights=weights, **{name: json.loads(value) for name, value in properties.items()})
