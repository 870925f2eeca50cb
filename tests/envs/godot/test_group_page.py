"""The game that docs/godot-groups.md builds, in the real engine, as the page has it."""

import re
from pathlib import Path

import lanista
import numpy as np
import pytest
from godot_engine import imported_project
from lanista.envs.godot.environment import GodotEnvironment
from mlagents_envs.base_env import ActionTuple
from yaml import safe_load

PACKAGE = Path(lanista.__file__).parent
PAGE = (Path(__file__).parents[3] / "docs" / "godot-groups.md").read_text("utf-8")
CARRIER = """
[node name="Carrier{0}" type="Node2D" parent="." node_paths=PackedStringArray("group")]
script = ExtResource("4")
policy_name = "Carrier"
group = NodePath("../Team")
reset_after = 0
"""
SCENE = """[gd_scene format=3]

[ext_resource type="Script" path="res://field.gd" id="1"]
[ext_resource type="Script" path="res://addons/lanista/sync.gd" id="2"]
[ext_resource type="Script" path="res://addons/lanista/group.gd" id="3"]
[ext_resource type="Script" path="res://carrier.gd" id="4"]

[node name="Field" type="Node2D"]
script = ExtResource("1")

[node name="Sync" type="Node" parent="."]
script = ExtResource("2")

[node name="Team" type="Node" parent="."]
script = ExtResource("3")
""" + "".join(CARRIER.format(k) for k in (1, 2, 3))


@pytest.fixture
def field(godot_engine, tmp_path):
    """The page's game; its log is in the test's folder."""
    carrier, rules = re.findall(r"```gdscript\n(.*?)```", PAGE, re.DOTALL)
    settings = 'config_version=5\n\n[application]\nconfig/name="field"\nrun/main_scene="res://field.tscn"\n'
    files = {"project.godot": settings, "carrier.gd": carrier, "field.gd": rules, "field.tscn": SCENE}
    source = tmp_path / "source"
    source.mkdir()
    for name, text in files.items():
        (source / name).write_text(text)
    extra = {"": source, "addons/lanista": PACKAGE / "envs" / "godot" / "addon"}
    project = imported_project(godot_engine, "group_game", extra)
    env = GodotEnvironment(
        f"godot:{project}?scene=res://field.tscn", seed=2, no_graphics=True, log_folder=tmp_path
    )
    yield env
    env.close()


def test_members_share_rewards_are_put_aside_and_come_back(field, tmp_path):
    random = np.random.default_rng(0)
    field.reset()
    (name,) = field.behavior_specs
    assert (
        name.partition("?")[0] in safe_load(re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1])["behaviors"]
    )
    members, out, cut, shared = [], 0, 0, 0.0
    for _ in range(1500):
        decisions, terminals = field.get_steps(name)
        members.append(len(decisions))
        out += (~terminals.interrupted).sum()
        cut += terminals.interrupted.sum()
        shared += decisions.group_reward.sum() + terminals.group_reward.sum()
        assert (decisions.group_id == 1).all() and (terminals.group_id == 1).all()
        assert not decisions.reward.any(), "nobody earns anything alone"
        to_apple = decisions.obs[0].reshape(-1, 3, 2)[:, 1] * 2 + random.normal(size=(len(decisions), 2))
        field.set_actions(name, ActionTuple(continuous=np.clip(to_apple, -1, 1).astype(np.float32)))
        field.step()
    assert set(members) == {1, 2, 3} and members.count(3) > 300, "who was out is back in the next round"
    assert out > 10 and cut % 3 == 0 and shared > 10
    log = (tmp_path / "Player-0.log").read_text()
    assert "Lanista" not in log and "ERROR" not in log, log
