"""Messages of real games, damaged: read, or refused by an error that names the environment; never more memory
than a multiple of the message."""

import base64
import json
import os
import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.errors import WireError
from lanista.envs.godot.messages import make_messages, parse_message
from scripted_game import encode

DEFAULT = Path(__file__).parents[2] / "real" / "godot" / "transcripts"
FILES = sorted(Path(os.environ.get("LANISTA_GODOT_TRANSCRIPTS") or DEFAULT).glob("*.jsonl"))
WHERE = "environment 7"
EXAMPLES = int(os.environ.get("LANISTA_GODOT_MUTATIONS") or 400)
"""Of each test; the variable asks for more."""
MOST_FIXED, MOST_TIMES = 32 << 20, 40
ODD = [None, True, -1, 0, 0.5, 1e99999, 10**400, "", "x", "00", "(1.0, 2.0)", [], {}, [[]], [None]]


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


SESSIONS = sessions()


def damaged_bytes(data, rng):
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(5)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice(b'[]{}",:0-eEnul\\\x00\xff')
        elif kind == 2:
            del out[at : at + rng.choice([1, 2, 10, 1000])]
        elif kind == 3:
            out[at:at] = rng.choice(
                [b"[" * 2000, b"null", b"9" * 5000, b"1e999", rng.randbytes(4), b'"\\ud800"']
            )
        elif out:
            start = rng.randrange(len(out))
            out[at:at] = out[start : start + rng.choice([4, 40])]
    return bytes(out)


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


def read(messages, data):
    """Whether it was read; else by a named error."""
    try:
        message = parse_message(data, WHERE)
        if messages is None:
            make_messages(message, WHERE, "uint8")
        elif messages.answer(message) is None:
            messages.read(message)
    except WireError as error:
        assert str(error).startswith(f"{WHERE}: "), error
        return False
    return True


def one_mutation(seed):
    rng = random.Random(seed)
    session = rng.choice(SESSIONS)
    first = rng.random() < 0.25
    message = session[0] if first else rng.choice(session[1:])
    data = encode(damaged_value(message, rng)) if rng.random() < 0.7 else damaged_bytes(encode(message), rng)
    messages = None
    if not first:
        messages = make_messages(session[0], WHERE, rng.choice(["uint8", "float32"]))
        if rng.random() < 0.5:
            read(messages, encode(session[1]))
    return read(messages, data), len(data)


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**64))
def test_damaged_messages_are_read_or_refused_by_name(seed):
    one_mutation(seed)


def test_most_mutations_are_refused_and_some_are_read():
    """Otherwise the test above would test one of both alone."""
    outcomes = [one_mutation(seed)[0] for seed in range(300)]
    assert 30 < sum(outcomes) < 270


@pytest.mark.parametrize("seed", range(20))
def test_memory_is_bounded_by_the_message(seed):
    tracemalloc.start()
    try:
        for k in range(10):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            _, size = one_mutation(1000 * seed + k)
            peak = tracemalloc.get_traced_memory()[1] - before
            assert peak <= MOST_FIXED + MOST_TIMES * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"type":"step","obs":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b"[" + b"[]," * 100_000 + b"[]]",
        b'{"type":"env_info","n_agents":1000000000,"observation_space":{"obs":{"size":[4],"space":"box"}}}',
        b'{"type":"env_info","n_agents":1,"observation_space":[{"o":{"size":[9999999999],"space":"box"}}]}',
    ],
    ids=["depth", "objects", "nested a thousand deep", "many lists", "a billion agents", "a huge space"],
)
def test_bombs_cost_no_more_than_a_multiple_of_their_bytes(data):
    tracemalloc.start()
    try:
        assert not read(None, data)
        assert tracemalloc.get_traced_memory()[1] <= MOST_FIXED + MOST_TIMES * len(data)
    finally:
        tracemalloc.stop()
