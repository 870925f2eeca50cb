"""ML-Agents' own UnityEnvironment steps our scenes, and the UnrealEnvironment of its port to Unreal."""

import json

import pytest

EXPECTED = {
    "ball3d": ("3DBall?team=0", [["VectorSensor_size8", [8]]], [2, []], 12, 190),
    "basic": ("Basic?team=0", [["BasicSensor", [20]]], [0, [3]], 1, 190),
    "dungeon-escape": ("DungeonEscape?team=0", None, [0, [7]], 36, 120),
}
"""Behaviour, observations (None: not compared), actions, agents, decisions of each in 200 steps at least."""


def seen(output: str) -> dict:
    line = next(line for line in output.splitlines() if line.startswith("SEEN "))
    return json.loads(line.removeprefix("SEEN "))


@pytest.mark.parametrize("prefix", ["", "unreal:"], ids=["Unity", "Unreal"])
def test_the_peer_sees_the_behavior_and_episodes_end(peer, scene, port, prefix):
    if prefix:
        peer.require_unreal()
    name, executable = scene
    found = seen(peer.run("step_scene.py", f"{prefix}{executable}", port, 200))
    behavior, _, actions, agents, least = EXPECTED[name]
    assert (found["behavior"], found["actions"], found["agents"]) == (behavior, actions, agents)
    assert found["decisions"] >= least * agents, "agents were missing from many steps"
    assert found["episodes"] > 0, "no episode ended under random actions"
    assert found["finite"]


def test_arguments_of_the_executable_reach_it(peer, port, tmp_path):
    from lanista.envs.scenes.registry import export

    executable = export("ball3d", tmp_path / "ball3d")
    found = seen(peer.run("step_scene.py", executable, port, 60, "--areas", 128))
    assert found["agents"] == 128
    assert found["obs"] == EXPECTED["ball3d"][1]
