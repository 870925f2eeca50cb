"""Real Godot games through the console scripts: training, faults, kills, several games, Ctrl-C and resume."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from console_runs import end, lanista, learn, ppo_yaml, start, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.posix("the engine is put aside on Linux alone"),
]

DOCS = Path(__file__).parents[3] / "docs" / "godot.md"
CHASE = re.search(r"```yaml\n(behaviors:.*?)```", DOCS.read_text(), re.DOTALL)[1]
LONG = ["--set", "behaviors.shared_policy.max_steps=10000000"]
CONTROLLER = "res://game/controller_continuous.gd"


def chase(project, *arguments):
    """The arguments of a run in the scene."""
    return ["--env", f"godot:{project}?scene=res://game/chase.tscn", "--no-graphics", *arguments]


def scene_with(project, folder, controller=None, sync="", name="Chaser1"):
    """chase.tscn, with another controller of one agent, and more properties of the Sync node; as its "
    "project."""
    made = folder / "project"
    subprocess.run(["cp", "-r", str(project), str(made)], check=True)
    text = (made / "game" / "chase.tscn").read_text()
    if controller is not None:
        (made / "game" / "other.gd").write_text(f'extends "{CONTROLLER}"\n{controller}')
        at = text.index(f'[node name="Controller" type="Node2D" parent="{name}"]')
        text = text[:at] + text[at:].replace('ExtResource("3")', 'ExtResource("9")', 1)
        resource = '[ext_resource type="Script" path="res://game/other.gd" id="9"]\n\n'
        text = text.replace("[sub_resource", f"{resource}[sub_resource", 1)
    text = text.rstrip() + f"\n{sync}\n"
    (made / "game" / "chase.tscn").write_text(text)
    return made


def games(folder):
    """The games that run for a run in this folder, by the numbers of their environments."""
    found = {}
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        match = re.search(rf"{re.escape(str(folder))}\S*Player-(\d+)\.log", line)
        if match and "--headless" in line:
            found[int(match[1])] = process
    return found


def steps(log):
    """The last step that the run has summarized."""
    found = re.findall(r"Step: (\d+)", log.read_text() if log.exists() else "")
    return int(found[-1]) if found else 0


def test_chase_is_learned_and_its_brain_finishes(tmp_path, upstream_project):
    run = learn(tmp_path, *chase(upstream_project), yaml=CHASE)
    assert run.good and "godot_rl_agents" in run.out
    played = lanista(
        tmp_path, "play", "results/r/shared_policy.onnx", *chase(upstream_project), "--episodes", 20, "--json"
    )
    figures = re.search(r'"mean_length": ([\d.]+)', played)
    assert float(figures[1]) < 150
    assert '"cut": 0' in played or '"cut"' not in played


EPISODES = 200


def test_with_lanistas_addon_the_brain_needs_as_many_decisions_in_the_game_itself(
    tmp_path, project, godot_engine
):
    run = learn(tmp_path, *chase(project), yaml=CHASE)
    assert run.good and "Lanista's addon" in run.out
    brain = "results/r/shared_policy"
    played = lanista(tmp_path, "play", f"{brain}.onnx", *chase(project), "--episodes", EPISODES, "--json")
    mean = float(re.search(r'"mean_length": ([\d.]+)', played)[1])
    assert mean < 150
    lengths = lengths_in_the_game(tmp_path, project, godot_engine, f"{brain}/checkpoint.pt")
    assert abs(sum(lengths) / len(lengths) / mean - 1) <= 0.2


def lengths_in_the_game(folder, project, engine, checkpoint):
    """The decisions of the first episodes of a game that plays a brain by itself."""
    game = folder / "game"
    shutil.copytree(project, game)
    lanista(folder, "export", "--godot", checkpoint, game / "game" / "brain.tres")
    agent = game / "game" / "chaser_agent.gd"
    text = agent.read_text()
    text = text.replace("void:\n\t_player", "void:\n\tdecisions += 1\n\t_player", 1)
    text = text.replace("super.reset()\n", 'super.reset()\n\tprint("episode ", decisions)\n\tdecisions = 0\n')
    agent.write_text(
        text.replace("extends LanistaAgent2D\n", "extends LanistaAgent2D\n\nvar decisions := 0\n")
    )
    scene = game / "game" / "chase.tscn"
    text = scene.read_text()
    resource = '[ext_resource type="Resource" path="res://game/brain.tres" id="9"]\n\n[node name="Root"'
    text = text.replace('[node name="Root"', resource, 1)
    sync, found, rest = text.partition('[node name="Sync"')
    rest = re.sub(r"(script = .*)", r'\1\ncontrol_mode = 2\nbrain = ExtResource("9")', rest, count=1)
    scene.write_text(sync + found + rest)
    command = [engine, "--headless", "--path", str(game), "res://game/chase.tscn", "--fixed-fps", "60"]
    lengths = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            assert "ERROR" not in line, line
            if line.startswith("episode "):
                lengths.append(int(line.split()[1]))
            if len(lengths) == EPISODES:
                process.kill()
    return lengths[:EPISODES]


def test_policies_with_mixed_actions_and_pictures_are_trained_and_exported(tmp_path, upstream_project):
    small = {"batch_size": 32, "buffer_size": 128}, {"hidden_units": 16}
    first, second = (ppo_yaml(name, *small, max_steps=300) for name in ("runner", "painter"))
    yaml = first + second.partition("\n")[2]
    scene = f"godot:{upstream_project}?scene=res://game/two_policies.tscn"
    run = learn(tmp_path, "--env", scene, "--no-graphics", yaml=yaml)
    assert run.good
    assert [path.name for path in run.files("*.onnx") if path.parent.name == "r"] == [
        "painter.onnx",
        "runner.onnx",
    ]


def test_killed_and_frozen_games_are_started_again_and_the_others_go_on(tmp_path, upstream_project):
    log = tmp_path / "log"
    with log.open("w") as out:
        arguments = chase(upstream_project, "--num-envs", "2", "--timeout-wait", "15", *LONG)
        process = start(tmp_path, *arguments, yaml=CHASE, stdout=out, stderr=subprocess.STDOUT)
    try:
        assert until(lambda: steps(log) >= 5000)
        games(tmp_path)[0].send_signal(signal.SIGKILL)
        assert until(lambda: "Restarting environment 0" in log.read_text())
        at = steps(log)
        assert until(lambda: steps(log) > at)
        games(tmp_path)[1].send_signal(signal.SIGSTOP)
        assert until(lambda: "Restarting environment 1" in log.read_text())
        at = steps(log)
        assert until(lambda: steps(log) > at and len(games(tmp_path)) == 2)
    finally:
        process.send_signal(signal.SIGINT)
        end(process, tmp_path)
    assert not games(tmp_path)


def test_a_run_that_was_interrupted_goes_on_with_four_games(tmp_path, upstream_project):
    log = tmp_path / "log"
    with log.open("w") as out:
        arguments = chase(upstream_project, "--num-envs", "4", *LONG)
        process = start(tmp_path, *arguments, yaml=CHASE, stdout=out, stderr=subprocess.STDOUT)
    assert until(lambda: steps(log) >= 5000)
    process.send_signal(signal.SIGINT)
    end(process, tmp_path)
    assert "results/r/shared_policy.onnx" in log.read_text()
    reached = int(re.findall(r"shared_policy-(\d+)\.onnx", log.read_text())[-1])
    limit = ["--set", f"behaviors.shared_policy.max_steps={reached + 2000}"]
    run = learn(tmp_path, *chase(upstream_project, "--num-envs", "4", "--resume", *limit), yaml=CHASE)
    assert run.good and f"resuming training from step {reached}" in run.out


HUMAN = "control_mode = 0"
SPACE = 'func get_obs_space():\n\treturn {"obs": {"size": [4], "space": "box"}}\n'


@pytest.mark.parametrize(
    ("controller", "sync", "message"),
    [
        (None, HUMAN, "It calls only from a scene with a Sync node"),
        (
            'func get_obs():\n\tvar nothing = null\n\treturn {"obs": [nothing.x]}\n' + SPACE,
            "",
            r"agent 1: its observations are missing.*The game wrote: Invalid access.*other\.gd:4",
        ),
        ("func get_obs_space():\n\treturn {}\n", "", "agent 1: it has no observation space"),
        (
            'func get_obs_space():\n\treturn {"obs": {"size": [5], "space": "box"}}\n',
            "",
            "agents 0 and 1 have one policy_name and different observation spaces",
        ),
        (
            'func get_obs():\n\treturn {"obs": [Vector2(1, 2), 1, 2, 3]}\n' + SPACE,
            "",
            r"agent 1: observation 'obs' .*write a vector's one by one",
        ),
        ('func get_obs():\n\treturn {"obs": [NAN, 1, 2, 3]}\n' + SPACE, "", "'obs' of agent 5 is nan"),
        ('func get_obs():\n\treturn {"obs": [INF, 1, 2, 3]}\n' + SPACE, "", "'obs' of agent 5 is inf"),
        ('func get_obs():\n\treturn {"obs": [1, 2, 3]}\n' + SPACE, "", "3 numbers, and 4 were announced"),
        ("func get_action_space():\n\treturn {}\n", "", "agent 1: it has no action space"),
    ],
    ids=["human", "script error", "no space", "other space", "vector", "nan", "inf", "size", "no actions"],
)
def test_silences_and_faults_of_a_game_become_a_sentence(
    tmp_path, upstream_project, controller, sync, message
):
    project = scene_with(upstream_project, tmp_path, controller, sync)
    patience = "8" if sync == HUMAN else "100"  # it never calls
    run = learn(tmp_path, *chase(project, "--timeout-wait", patience), yaml=CHASE)
    assert re.search(message, run.error, re.DOTALL), run.error


def test_a_scene_without_a_sync_node_never_calls(tmp_path, upstream_project):
    project = scene_with(upstream_project, tmp_path)
    scene = project / "game" / "chase.tscn"
    scene.write_text(scene.read_text().partition('[node name="Sync"')[0])
    run = learn(tmp_path, *chase(project, "--timeout-wait", "5"), yaml=CHASE)
    assert "scene with a Sync node" in run.error and "LanistaSync" in run.error


def test_a_camera_without_a_display_is_named(tmp_path, upstream_project):
    project = scene_with(upstream_project, tmp_path)
    sensor = project / "addons" / "godot_rl_agents" / "sensors" / "sensors_2d" / "RGBCameraSensor2D.gd"
    # As it is, the plugin does not parse with Godot 4.6, which does not multiply a Vector2i by a Vector2.
    old = "var resized_image_resolution := Vector2("
    assert old in sensor.read_text()
    sensor.write_text(sensor.read_text().replace(old, "var resized_image_resolution := Vector2i("))
    scene = f"godot:{project}?scene=res://game/camera.tscn"
    run = learn(tmp_path, "--env", scene, "--no-graphics", yaml=CHASE)
    assert "'camera_2d' is null. A camera has no picture where the game has no display" in run.error


def test_a_plugin_of_another_version_is_warned_about(tmp_path, upstream_project):
    project = scene_with(upstream_project, tmp_path)
    sync = project / "addons" / "godot_rl_agents" / "sync.gd"
    sync.write_text(sync.read_text().replace('MINOR_VERSION := "7"', 'MINOR_VERSION := "6"'))
    run = learn(tmp_path, *chase(project, "--set", "behaviors.shared_policy.max_steps=300"), yaml=CHASE)
    assert run.status == 0
    assert "speaks another version of the protocol (WARNING: minor verison mismatch 7 6)" in run.out + run.err


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ("godot:nowhere", "Couldn't launch the nowhere environment"),
        ("godot:.", r"a folder without project\.godot"),
    ],
)
def test_what_is_not_there_is_one_sentence(tmp_path, godot_engine, environment, message):
    run = learn(tmp_path, "--env", environment, yaml=CHASE)
    assert re.search(message, run.error)


def test_without_an_engine_the_variable_is_named(tmp_path, upstream_project, monkeypatch):
    monkeypatch.delenv("LANISTA_GODOT")
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    run = learn(tmp_path, *chase(upstream_project), yaml=CHASE)
    assert "Godot was not found" in run.error and "LANISTA_GODOT" in run.error
