"""Games that were written for godot_rl_agents, moved over as docs/godot-addon.md says, in the real engine."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from godot_trainer import actions, steps

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "godot-addon.md"
MOVES = {
    "extends AIController2D": "extends LanistaAgent2D",
    "res://addons/godot_rl_agents/sync.gd": "res://addons/lanista/sync.gd",
    "res://game/": "res://moved/",
}


@pytest.fixture(scope="session")
def moved(project):
    """The games of tests/godot/upstream_project with the edits of the page."""
    folder = project / "moved"
    folder.mkdir()
    for path in (TESTS / "godot" / "upstream_project" / "game").iterdir():
        if path.suffix in (".gd", ".tscn") and "camera" not in path.name:
            text = path.read_text()
            for found, written in MOVES.items():
                text = text.replace(found, written)
            (folder / path.name).write_text(text)
    return "res://moved"


@pytest.mark.parametrize("name", ["chase", "two_policies"])
def test_the_trainer_of_godot_rl_agents_finds_what_it_did_before(play, moved, name):
    """The game's description of itself, and the form of its answers, as in the recorded sessions."""
    lines = (TESTS / "real" / "godot" / "transcripts" / f"{name}.jsonl").read_text().splitlines()
    recorded = {}
    for line in map(json.loads, lines):
        if line["from"] == "engine":
            recorded.setdefault(line["message"]["type"], line["message"])
    game = play(f"{moved}/{name}.tscn")
    assert game.start(lanista=False) == recorded["env_info"]
    assert form(game.ask({"type": "reset"})) == form(recorded["reset"])
    spaces = recorded["env_info"]["action_space"]
    action = [{name: value_of(space) for name, space in agent.items()} for agent in spaces]
    assert form(game.ask({"type": "action", "action": action})) == form(recorded["step"])


def value_of(space):
    return [0.5] * space["size"] if space["action_type"] == "continuous" else 1


def form(value):
    """Keys, lengths and types."""
    if isinstance(value, dict):
        return {key: form(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [form(entry) for entry in value]
    return len(value) if isinstance(value, str) else "number" if type(value) in (int, float) else type(value)


def test_lanista_finds_both_policies_with_mixed_actions_and_pictures(play, moved):
    game = play(f"{moved}/two_policies.tscn")
    behaviors = game.start()["behaviors"]
    assert list(behaviors) == ["runner?team=0", "painter?team=0"]
    message = game.reset()
    for _ in range(60):  # reset_after is 200 frames, a block 4
        painter, ended = steps(message, "painter?team=0")
        runner, _ = steps(message, "runner?team=0")
        assert len(runner.ids) == 2 and len(painter.ids) == 1
        assert painter.pixels((3, 36, 36), 1).max() == 255
        if ended.ids:
            break
        message = game.act(
            {
                "painter?team=0": actions(painter.ids, [[0.1]], [[2]]),
                "runner?team=0": actions(runner.ids, np.zeros((2, 2))),
            }
        )
    assert ended.interrupted == [1] and len(ended.pixels((3, 36, 36), 1)) == 1


def test_the_scripts_in_the_documentation_are_one(godot_engine, project):
    agent, action = re.findall(r"```gdscript\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (project / "game" / "documented.gd").write_text(f"{agent}\n\n{action}")
    command = [
        godot_engine,
        "--headless",
        "--path",
        project,
        "--check-only",
        "--script",
        "game/documented.gd",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "ERROR" not in done.stderr, done.stderr
