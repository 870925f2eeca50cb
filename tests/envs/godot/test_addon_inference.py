"""Agents of Lanista's addon that act on brains, in the real engine."""

import json
import re
import subprocess

import numpy as np
import pytest

pytest.importorskip("torch", reason="the networks are torch's")

import torch
from godot_brains import actor, memory
from lanista.envs.named_actions import NamedAction
from lanista.trainers.policies.godot.export import export_godot

JUMP, MOVE = NamedAction("jump", 3, "discrete"), NamedAction("move", 3, "continuous")
DECISIONS = 7


def brain(path, names=("gear", "obs"), actions=(JUMP, MOVE)):
    """A network with a memory that reads these observations, in this order, and its brain."""
    network = actor((4, 3), actions, hidden_units=12, **memory("lstm", 16))
    specs = [
        spec._replace(name=name) for spec, name in zip(network.spec.observation_specs, names, strict=True)
    ]
    network.spec = network.spec._replace(observation_specs=specs)
    export_godot(network, path, behavior="Witness")
    return network


def watch(engine, project, scene):
    """What the witness has done, and all that was printed."""
    command = [
        engine,
        "--headless",
        "--path",
        project,
        scene,
        "--fixed-fps",
        "60",
        "--quit-after",
        str(8 * DECISIONS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    decided = [
        line.removeprefix("decided ") for line in done.stdout.splitlines() if line.startswith("decided ")
    ]
    return [json.loads(line) for line in decided], told


def scene_with(project, brain_of=None):
    """The scene of the witness, with the brain at one of its nodes."""
    text = (project / "game" / "witness.tscn").read_text()
    resource = (
        '[ext_resource type="Resource" path="res://game/witness_brain.tres" id="3"]\n\n[node name="Root"'
    )
    text = text.replace('[node name="Root"', resource)
    if brain_of:
        before, after = text.split(f'[node name="{brain_of}"')
        after = re.sub(r"(script = .*)", r'\1\nbrain = ExtResource("3")', after, count=1)
        text = f'{before}[node name="{brain_of}"{after}'
    (project / "game" / "witness_case.tscn").write_text(text)
    return "res://game/witness_case.tscn"


@pytest.mark.parametrize("owner", ["Sync", "Witness"])
def test_an_agent_acts_as_the_network_does(godot_engine, project, owner):
    """By the names of its observations and actions, with its masks, and with a memory for each episode."""
    network = brain(project / "game" / "witness_brain.tres")
    steps, _ = watch(godot_engine, project, scene_with(project, owner))
    assert len(steps) == DECISIONS
    state = torch.zeros(1, network.memory_size)
    for index, step in enumerate(steps):
        gear, numbers = np.eye(4)[index % 4], [index * 0.5, -1.0, index % 3]
        obs = network.prepare([torch.tensor(np.array([row], np.float32)) for row in (gear, numbers)])
        impossible = [] if index % 2 else [index % 3]
        assert step["impossible"] == impossible
        mask = torch.tensor([[choice in impossible for choice in range(3)]])
        state = torch.zeros_like(state) if index == 3 else state
        distribution, state = network.act_with_memory(obs, state, action_mask=mask)
        wanted = distribution.deterministic()
        move = distribution.to_engine(wanted.continuous)[0]
        np.testing.assert_allclose(step["action"]["move"], move, atol=1e-5)
        assert step["action"]["jump"] == wanted.discrete[0, 0]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"names": ("gear", "eyes")},
            "the brain of /root/Root/Witness observes 'eyes', which its get_obs_space() lacks",
        ),
        ({"actions": (JUMP,)}, 'the brain of /root/Root/Witness has the actions { "jump": [3, "discrete"] }'),
        ({"actions": (JUMP, NamedAction("move", 2, "continuous"))}, '"move": [2, "continuous"]'),
        (None, "/root/Root/Witness is to act on a brain, and neither it nor /root/Root/Sync has one"),
    ],
    ids=["observation", "actions", "size", "no brain"],
)
def test_a_brain_that_does_not_fit_is_told_with_its_node(godot_engine, project, wrong, told):
    brain(project / "game" / "witness_brain.tres", **wrong or {})
    steps, output = watch(godot_engine, project, scene_with(project, "Sync" if wrong else None))
    assert told in output and not steps
