"""Messages of Godot games, whole and damaged: the recorded sessions, and one of Lanista's addon."""

import base64
import json
import os
import random
from pathlib import Path

import numpy as np

DEFAULT = Path(__file__).parent / "real" / "godot" / "transcripts"
FILES = sorted(Path(os.environ.get("LANISTA_GODOT_TRANSCRIPTS") or DEFAULT).glob("*.jsonl"))
ODD = [None, True, -1, 0, 0.5, 1e99999, 10**400, "", "x", "00", "(1.0, 2.0)", [], {}, [[]], [None]]
WORDS = (b"[" * 2000, b"null", b"9" * 5000, b"1e999", b'"\\ud800"', *(bytes([c]) for c in b'[]{}",:0-eEnul'))
"""What a parser of JSON knows."""


def columns(count, rng):
    """A session of Lanista's addon, which no transcript holds."""

    def b64(values, dtype):
        return base64.b64encode(np.asarray(values, dtype).tobytes()).decode()

    def steps(ids, **more):
        return {
            "ids": b64(ids, "<i4"),
            "reward": b64([0.5] * len(ids), "<f4"),
            "obs": [b64(rng.random() * np.ones(3 * len(ids)), "<f4"), b64([7] * (48 * len(ids)), "u1")],
            "group": b64([1] * len(ids), "<i4"),
            "group_reward": b64([0] * len(ids), "<f4"),
            **more,
        }

    spec = {
        "observations": [
            {"name": "obs", "shape": [3], "type": "float"},
            {"name": "camera", "shape": [3, 4, 4], "type": "image"},
        ],
        "actions": [
            {"name": "move", "size": 2, "action_type": "continuous"},
            {"name": "jump", "size": 3, "action_type": "discrete"},
        ],
    }
    messages = [{"type": "env_info", "lanista": 1, "behaviors": {"a?team=0": spec}}]
    for k in range(count):
        decision = steps([2 * k, 2 * k + 1], mask=[b64([0, 1, 0] * 2, "u1")])
        told = {"decision": decision, "terminal": steps([2 * k - 1], interrupted=b64([1], "u1"))}
        more = {"statistics": [["score", 1.5, 0]], "new_behaviors": {"b?team=1": spec}}
        messages.append({"type": "step", "behaviors": {"a?team=0": told}, **more})
    return messages


def sessions():
    found = [columns(6, random.Random(0))]
    for path in FILES:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        sent = [line["message"] for line in lines if line["from"] == "engine"]
        found.append([sent[0], *[one for one in sent if one["type"] == "step"][:8]])
    return found


def damaged_value(value, rng):
    """The message with one of its parts replaced, removed or doubled."""
    if rng.random() < 0.2 or not isinstance(value, (dict, list)) or not value:
        return rng.choice(ODD)
    if isinstance(value, dict):
        key = rng.choice(sorted(value))
        if rng.random() < 0.15:
            return {name: one for name, one in value.items() if name != key}
        return {**value, key: damaged_value(value[key], rng)}
    at = rng.randrange(len(value))
    if rng.random() < 0.15:
        return value[:at] + value[at + 1 :]
    if rng.random() < 0.15:
        return [*value, value[at]]
    return [*value[:at], damaged_value(value[at], rng), *value[at + 1 :]]
