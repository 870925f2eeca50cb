"""Demonstrations that Lanista's addon, and godot_rl_agents, record in the real engine."""

import json
import re
import subprocess

import numpy as np
import pytest
from console_runs import lanista
from lanista.envs.demonstrations.demonstration import read_demonstration
from lanista.trainers.cli.main import run

FRAMES = 1200
RECORDING = 3
HALF = 100.0
SMALL = ["--set", "behaviors.shared_policy.network_settings.hidden_units=64"]


def record(engine, project, scene, frames=FRAMES):
    """Play a scene for some frames; the exit status, and all that was printed."""
    command = [engine, "--headless", "--path", project, scene, "--fixed-fps", "60", "--quit-after", frames]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def recording_scene(project, name, path, *changes):
    """The scene with its LanistaSync at Recording; further changes are pairs of texts."""
    text = (project / "game" / f"{name}.tscn").read_text().rstrip()
    for found, written in changes:
        assert found in text
        text = text.replace(found, written)
    text += f'\ncontrol_mode = {RECORDING}\ndemonstrations_path = "{path}"\n'
    (project / "game" / "recorded.tscn").write_text(text)
    return "res://game/recorded.tscn"


def chase_scene(project, path, expert="expert_agent.gd", more=""):
    """chase.tscn, in which the expert plays."""
    chaser = (project / "game" / "chaser.tscn").read_text().rstrip()
    (project / "game" / "recorded_chaser.tscn").write_text(
        chaser.replace("chaser_agent.gd", expert) + f"\n{more}\n"
    )
    return recording_scene(project, "chase", path, ("chaser.tscn", "recorded_chaser.tscn"))


def convert(folder, *arguments):
    """The demonstrations that the command has written, by their names."""
    assert run(["demo", "convert", *map(str, arguments), "-o", str(folder)]) == 0
    return {path.name: read_demonstration(path) for path in folder.iterdir()}


@pytest.mark.parametrize("more", ["", "as_list = true"], ids=["dictionary", "list of godot_rl_agents"])
def test_an_expert_is_recorded_with_what_it_saw_and_did(godot_engine, project, tmp_path, more):
    scene = chase_scene(project, tmp_path / "demos" / "chase.jsonl", more=more)
    status, told = record(godot_engine, project, scene)
    assert status == 0 and f"recorded in {tmp_path}/demos/chase.jsonl" in told, told
    demo = convert(tmp_path / "out", tmp_path / "demos" / "chase.jsonl")["shared_policy.demo"]
    assert demo.behavior == "shared_policy?team=0" and len(demo.returns) >= 8 and demo.done[-1]
    acted = ~demo.done
    position, fruit = demo.obs[0][acted, :2] * HALF, demo.obs[0][acted, 2:] * HALF
    wanted = (fruit - position) / 60.0
    wanted /= np.maximum(1.0, np.linalg.norm(wanted, axis=1, keepdims=True))
    np.testing.assert_allclose(demo.continuous[acted], wanted, atol=1e-5)
    distance = np.linalg.norm(demo.obs[0][:, :2] - demo.obs[0][:, 2:], axis=1)
    chased = acted[:-1] & acted[1:] & (demo.obs[0][1:, 2:] == demo.obs[0][:-1, 2:]).all(axis=1)
    assert chased.sum() > len(chased) / 2
    np.testing.assert_allclose(demo.reward[1:][chased], (distance[:-1] - distance[1:])[chased], atol=1e-5)
    cut = demo.interrupted[demo.done]
    assert (demo.reward[demo.done][~cut] > 0.8).all(), "the last fruit's reward came with the end"
    assert cut.sum() <= 4, "those of the game's end"


def test_pictures_choices_masks_and_ends_are_recorded(godot_engine, project, tmp_path):
    (project / "game" / "player_painter.gd").write_text(
        'extends "painter.gd"\nvar turn := 0\n'
        "func get_action():\n"
        "\tturn += 1\n"
        '\treturn {"color": 2 * (turn % 2), "stroke": [turn / 64.0, -0.5], "lift": 1, "pressure": [0.25]}\n'
    )
    changes = [
        ("painter.gd", "player_painter.gd"),
        ('policy_name = "painter"', 'policy_name = "painter"\nreset_after = 11'),
    ]
    scene = recording_scene(project, "painters", tmp_path / "a.jsonl", *changes)
    status, told = record(godot_engine, project, scene, 63)
    assert status == 0, told
    demo = convert(tmp_path / "out", tmp_path / "a.jsonl")["painter.demo"]
    heard = demo.obs[0]
    was_running = demo.done[1:] & (heard[1:] == heard[:-1]).all(axis=1)
    assert was_running.sum() == 4, "when the game ended, which is too late to observe again"
    goes_on = ~demo.done[:-1] & ~was_running
    sent = np.column_stack(
        [demo.discrete[:, 0], demo.continuous[:, :2], demo.discrete[:, 1], demo.continuous[:, 2]]
    )
    np.testing.assert_array_equal(heard[1:][goes_on], sent[:-1][goes_on])
    assert demo.interrupted.sum() == demo.done.sum() == len(demo.returns) >= 8
    assert demo.spec.action_spec.discrete_branches == (3, 2) and set(demo.discrete[:, 0]) == {0, 2}
    masks = demo.action_mask[~demo.done]
    assert masks.tolist() == [[False, True, False, False, False]] * len(masks)
    shapes = {one.name: one.shape for one in demo.spec.observation_specs}
    assert shapes["camera_2d"] == (3, 38, 40) and shapes["gear"] == (4,)
    assert demo.obs[3][:, 2].min() == demo.obs[3][:, 2].max() == np.float32(200 / 255)


def test_nothing_is_overwritten_and_the_last_episode_can_be_taken_back(godot_engine, project, tmp_path):
    (project / "game" / "sorry_agent.gd").write_text(
        'extends "expert_agent.gd"\nvar frames_played := 0\n'
        "func _physics_process(delta: float) -> void:\n"
        "\tsuper(delta)\n"
        "\tframes_played += 1\n"
        "\tif frames_played in [700, 1100] and get_parent().name == 'Chaser0':\n"
        "\t\tvar event := InputEventKey.new()\n"
        "\t\tevent.keycode = KEY_BACKSPACE\n"
        "\t\tevent.pressed = true\n"
        "\t\tInput.parse_input_event(event)\n"
    )
    scene = chase_scene(project, tmp_path / "a.jsonl", "sorry_agent.gd")
    path = project / "game" / "recorded.tscn"
    key = '[sub_resource type="InputEventKey" id="k"]\nkeycode = 4194308\n\n[node name="Root"'
    text = path.read_text().replace('[node name="Root"', key, 1)
    path.write_text(text + 'remove_last_episode_key = SubResource("k")\n')
    for _ in range(2):
        status, told = record(godot_engine, project, scene)
        assert status == 0 and told.count("the last episode is removed") == 2, told
    files = [tmp_path / "a.jsonl", tmp_path / "a_1.jsonl"]
    finished = [path.read_text().count('"type":"episode"') for path in files]
    demo = convert(tmp_path / "out", *files)["shared_policy.demo"]
    assert len(demo.returns) == demo.done.sum() == sum(finished) - 4


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (None, "does not override get_action() (res://game/clumsy_agent.gd)"),
        ('return {"move": [1.0]}', "says of 'move' [1.0]. Expected: 2 numbers"),
        ('return {"move": [Vector2.ZERO]}', "Expected: 2 numbers"),
        ("return [0.5, 0.5, 0.5].slice(0, 1)", "Expected: 2 numbers"),
        ("return null", "get_action() of /root/Root/Chaser0/Agent gives <null>"),
    ],
    ids=["none", "size", "type", "list", "null"],
)
def test_an_action_that_is_none_ends_the_game_with_a_sentence(godot_engine, project, tmp_path, body, told):
    script = 'extends "chaser_agent.gd"\nfunc set_action(_action = null) -> void:\n\tpass\n'
    if body is not None:
        script += f"func get_action():\n\t{body}\n"
    (project / "game" / "clumsy_agent.gd").write_text(script)
    scene = chase_scene(project, tmp_path / "a.jsonl", "clumsy_agent.gd")
    status, output = record(godot_engine, project, scene, 100)
    assert status == 1 and told in output, output


def test_a_path_that_cannot_be_written_is_told(godot_engine, project, tmp_path):
    (tmp_path / "file").write_text("")
    status, told = record(godot_engine, project, chase_scene(project, tmp_path / "file" / "a.jsonl"), 100)
    assert status == 1 and "change demonstrations_path" in told, told


@pytest.mark.slow
def test_what_a_player_shows_is_learned_without_an_engine_and_played_in_it(tmp_path, godot_engine, project):
    pytest.importorskip("torch", reason="the networks are torch's")
    record(godot_engine, project, chase_scene(project, tmp_path / "a.jsonl"), 6000)
    convert(tmp_path / "demos", tmp_path / "a.jsonl")
    lanista(tmp_path, "clone", "demos", "--run-id", "c", "--gradient-steps", "1000", *SMALL)
    env = f"godot:{project}?scene=res://game/chase.tscn"
    arguments = ["--env", env, "--no-graphics", "--episodes", 20, "--json"]
    played = lanista(tmp_path, "play", "results/c/shared_policy.onnx", *arguments)
    assert float(re.search(r'"mean_length": ([\d.]+)', played)[1]) < 150


@pytest.mark.slow
def test_what_godot_rl_agents_records_becomes_a_demonstration(godot_engine, upstream_project, tmp_path):
    """By the plugin itself: its JSON has an observation more than actions, and neither names nor rewards."""
    folder = tmp_path / "project"
    subprocess.run(["cp", "-r", str(upstream_project), str(folder)], check=True)
    (folder / "game" / "expert.gd").write_text(
        'extends "controller_continuous.gd"\n'
        "func get_action() -> Array:\n\treturn [_player.want.x, _player.want.y]\n"
        "func set_action(action = null) -> void:\n"
        "\t_player.want = ((_player.fruit - _player.position) / 60.0).limit_length(1.0)\n"
    )
    text = (folder / "game" / "chase.tscn").read_text()
    at = text.index('[node name="Controller" type="Node2D" parent="Chaser1"]')
    text = text[:at] + text[at:].replace(
        'ExtResource("3")',
        f'ExtResource("9")\ncontrol_mode = 4\nexpert_demo_save_path = "{tmp_path}/up.json"\n'
        'remove_last_episode_key = SubResource("k")\naction_repeat = 8',
        1,
    )
    before = '[ext_resource type="Script" path="res://game/expert.gd" id="9"]\n\n'
    key = '[sub_resource type="InputEventKey" id="k"]\nkeycode = 4194308\n\n'
    text = text.replace("[sub_resource", f"{before}{key}[sub_resource", 1) + "\ncontrol_mode = 0\n"
    (folder / "game" / "chase.tscn").write_text(text)
    status, told = record(godot_engine, folder, "res://game/chase.tscn", 3000)
    trajectories = json.loads((tmp_path / "up.json").read_text())
    assert status == 0 and len(trajectories) >= 4, told
    demo = convert(tmp_path / "out", tmp_path / "up.json", "--actions", "move:continuous:2")[
        "shared_policy.demo"
    ]
    assert demo.done.sum() == len(trajectories)
    np.testing.assert_allclose(demo.obs[0], np.concatenate([obs for obs, _ in trajectories]), rtol=1e-6)
    taken = np.concatenate([actions for _, actions in trajectories])
    np.testing.assert_allclose(demo.continuous[~demo.done], taken, rtol=1e-6)
