"""Recorded sessions of real Godot games: what the trainer makes of them is what their messages say.

They lie in the folder that LANISTA_GODOT_TRANSCRIPTS names, else in tests/real/godot/transcripts. Tests take
them as they come, whatever their number, file names, agents, sensors and lengths.
"""

import json
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from lanista.envs.godot.environment import GodotEnvironment
from lanista.envs.validation import NonFiniteError
from scripted_engine import free_port
from scripted_game import ScriptedGame, encode

DEFAULT = Path(__file__).parents[2] / "real" / "godot" / "transcripts"
FOLDER = Path(os.environ.get("LANISTA_GODOT_TRANSCRIPTS") or DEFAULT)
FILES = sorted(FOLDER.glob("*.jsonl"))


def engine_messages(path):
    """What the engine sent, in order; calls and their answers are not part of training."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    sent = [line for line in lines if line["from"] == "engine"]
    return [line["message"] for line in sent if line["message"]["type"] != "call"], sent


def connect(script, **options):
    """An environment that a scripted game has called."""
    port = free_port()
    games = []

    def play():
        while not games:
            try:
                games.append(ScriptedGame(port, script))
            except ConnectionRefusedError:
                continue

    thread = threading.Thread(target=play)
    thread.start()
    env = GodotEnvironment("godot:", base_port=port, timeout_wait=30, **options)
    thread.join()
    return env, games[0]


def expected(value, space, dtype):
    """One agent's value of one sensor as an array."""
    if isinstance(value, str):
        channels, height, width = space["size"]
        pixels = np.frombuffer(bytes.fromhex(value), np.uint8).reshape(height, width, -1)
        return pixels[:, :, :channels].transpose(2, 0, 1)
    if space["space"] == "discrete":
        return np.eye(space["size"], dtype=np.float32)[int(value)]
    return np.array(value, np.float32).reshape(-1)


def test_there_are_transcripts():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_replay_says_what_the_engine_said(path):
    """In other digits, maybe: a float has many spellings."""
    _, sent = engine_messages(path)
    assert [json.loads(encode(line["message"])) for line in sent] == [line["message"] for line in sent]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_steps_are_what_the_messages_say(path):
    messages, _ = engine_messages(path)
    info = messages[0]
    names = info.get("agent_policy_names", ["shared_policy"] * info["n_agents"])
    env, game = connect(messages, images="uint8", non_finite=None)
    with_ids = {}
    fresh, last = False, None
    try:
        for message in messages[1:]:
            if message["type"] == "reset":
                env.send_reset()
                fresh = True
                continue
            if fresh:  # the observations of a reset are too old for an action
                env.receive()
                fresh, last = False, None
                with_ids.clear()
            else:
                env.step()
            for name in env.behavior_specs:
                decisions, terminals = env.get_steps(name)
                agents = [i for i, own in enumerate(names) if f"{own}?team=0" == name or own == name]
                done = [i for i in agents if message["done"][i]] if last is not None else []
                check_behavior(info, message, agents, decisions, terminals, done, last)
                before = with_ids.get(name)
                if before is not None:
                    kept = [i not in done for i in agents]
                    assert np.array_equal(decisions.agent_id == before, kept)
                    assert np.array_equal(terminals.agent_id, before[[not one for one in kept]])
                with_ids[name] = decisions.agent_id
            last = message
    finally:
        env.close()
    game.join()


def check_behavior(info, message, agents, decisions, terminals, done, last):
    spaces = info["observation_space"]
    assert len(decisions) == len(agents) and len(terminals) == len(done)
    for row, agent in enumerate(agents):
        space = spaces[agent] if isinstance(spaces, list) else spaces
        for k, (sensor, one) in enumerate(space.items()):
            value = expected(message["obs"][agent][sensor], one, None)
            assert np.array_equal(decisions.obs[k][row].reshape(value.shape), value, equal_nan=True)
        reward = 0.0 if agent in done or last is None else message["reward"][agent]
        assert decisions.reward[row] == np.float32(reward)
    for row, agent in enumerate(done):
        assert terminals.reward[row] == np.float32(message["reward"][agent])
        told = message.get("info", [{}] * len(message["done"]))[agent]
        assert terminals.interrupted[row] == bool(told.get("TimeLimit.truncated", False))
        seen = told.get("terminal_observation") or last["obs"][agent]
        space = spaces[agent] if isinstance(spaces, list) else spaces
        for k, (sensor, one) in enumerate(space.items()):
            value = expected(seen[sensor], one, None)
            assert np.array_equal(terminals.obs[k][row].reshape(value.shape), value, equal_nan=True)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_number_that_is_not_finite_is_named(path):
    messages, _ = engine_messages(path)
    info = messages[0]
    steps = [one for one in messages if one["type"] == "step"][:2]
    spoiled = json.loads(json.dumps(steps[-1]))
    spoiled["reward"][-1] = None
    env, _ = connect([info, {"type": "reset", "obs": [], "info": []}, steps[0], spoiled])
    env.reset()
    with pytest.raises(NonFiniteError, match="reward of agent"):
        env.step()
    env.close()
