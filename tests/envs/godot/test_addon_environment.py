"""Lanista's addon opposite Lanista: what a game tells arrives as steps, statistics and specs."""

import subprocess

import numpy as np
import pytest
from lanista.envs.godot.environment import GodotEnvironment
from mlagents_envs.base_env import ActionTuple

FIELD, PAINTER = "collector?team=0", "painter?team=0"


@pytest.fixture
def field(project, godot_engine, monkeypatch):
    monkeypatch.setenv("LANISTA_GODOT", godot_engine)
    env = GodotEnvironment(
        f"godot:{project}?scene=res://game/field.tscn",
        seed=3,
        no_graphics=True,
        timeout_wait=120,
        images="uint8",
    )
    yield env
    env.close()


def chosen(random, name, decisions):
    """Half of the time to the fruit, else anywhere."""
    agents = len(decisions)
    choices = random.integers(4, size=(agents, 1))
    if name == PAINTER:
        return ActionTuple(discrete=choices)
    right, down = decisions.obs[0].reshape(agents, 3, 2)[:, 1].T
    to_fruit = np.where(abs(right) > abs(down), np.where(right > 0, 1, 0), np.where(down > 0, 3, 2))
    choices = np.where(random.random((agents, 1)) < 0.5, to_fruit[:, None], choices)
    return ActionTuple(continuous=np.ones((agents, 1), np.float32), discrete=choices)


def test_a_team_whose_members_come_and_go(field):
    field.set_parameters({"reach": 25.0})
    field.reset()
    specs = field.behavior_specs
    assert (specs[FIELD].action_spec.continuous_size, specs[FIELD].action_spec.discrete_branches) == (1, (4,))
    assert specs[PAINTER].observation_specs[0].shape == (3, 24, 24)
    random = np.random.default_rng(0)
    alive, finished, group_rewards, masked, survivors = set(), set(), 0.0, 0, []
    for turn in range(600):
        for name in (FIELD, PAINTER):
            decisions, terminals = field.get_steps(name)
            if len(decisions):
                field.set_actions(name, chosen(random, name, decisions))
            if name == PAINTER:
                assert len(decisions) == 1 and decisions.obs[0].max() == 255
                continue
            assert set(terminals.agent_id) <= alive
            assert not set(decisions.agent_id) & finished
            alive, finished = set(decisions.agent_id), finished | set(terminals.agent_id)
            assert len(alive) <= 3 and (decisions.group_id == 1).all() and (terminals.group_id == 1).all()
            assert not terminals.interrupted[terminals.reward == -1].any()
            group_rewards += terminals.group_reward.sum()
            masked += decisions.action_mask is not None and decisions.action_mask[0].any()
        if turn % 200 == 199:
            field.reset()
            continue
        field.step()
        survivors += [value for value, _ in field.statistics().get("Field/Survivors", ())]
    assert len(finished) > 9 and group_rewards > 0 and masked
    assert survivors and all(1 <= value <= 3 for value in survivors)


def test_no_script_of_the_addon_has_an_error_or_a_warning(godot_engine, project):
    """All are loaded; the engine takes warnings for errors in this project."""
    scripts = list((project / "addons").rglob("*.gd"))
    command = [godot_engine, "--headless", "--path", project, "-s", "res://load_all.gd"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ERROR" not in done.stderr, done.stderr
    assert len(scripts) > 20 and f"loaded {len(scripts)} scripts" in done.stdout
