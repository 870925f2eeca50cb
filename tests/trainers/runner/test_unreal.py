"""`lanista-learn --env unreal:...` and what comes after it, with games that speak as UnrealMLAgents does."""

import json
import re

import pytest
from console_runs import YAML, lanista, learn, ppo_yaml
from lanista.envs.scenes.registry import export
from scripted_engine import executable

pytestmark = pytest.mark.slow

SOON = [
    (["--env", "unreal:missing"], r"Couldn't launch the missing environment.*Looked for missing\.sh"),
    (["--env", "unreal:nowhere/Game"], r"There is no folder nowhere"),
    (["--env", "unreal:c.yaml"], r"c\.yaml.*is not executable.*chmod"),
    (["--env", "unrael:Game"], r"Did you mean --env unreal:Game\?"),
    (
        ["--env", "unreal:", "--num-envs", "2"],
        r"num_envs: found 2; unreal: is the game that the one editor plays",
    ),
    (["--env", "unreal:", "--ray", "local"], r"ray: found local; the nodes of a cluster start environments"),
    (
        ["--env", "unreal:", "--set", "behaviors.Ball.test_frequency=100"],
        r"test_frequency.*there is one editor",
    ),
]


@pytest.mark.parametrize("arguments, says", SOON, ids=[" ".join(case[0][1:]) for case in SOON])
def test_what_cannot_be_trained_is_refused_before_anything_is_loaded_or_written(tmp_path, arguments, says):
    ended = learn(tmp_path, *arguments)
    assert re.search(says, ended.error)
    assert ended.error.strip().count("\n") <= 1
    assert not (tmp_path / "results").exists()


def test_a_packaged_game_without_its_prefix_is_suspected(tmp_path):
    game = executable(tmp_path, "sys.exit(3)")
    (tmp_path / "Engine" / "Binaries").mkdir(parents=True)
    assert f"name it --env unreal:{game}" in learn(tmp_path, "--env", game).out
    assert "name it --env" not in learn(tmp_path, "--env", f"unreal:{game}").out


def test_games_train_beside_each_other_and_one_that_dies_is_restarted(tmp_path):
    script = """
        import pathlib
        marker = pathlib.Path("one died")
        greet("1.0.0")
        if not marker.exists():
            marker.touch()
            steps(60)
            os.kill(os.getpid(), signal.SIGKILL)
        steps(10**6)
    """
    game = executable(tmp_path, script)
    ended = learn(
        tmp_path, *("--env", f"unreal:{game}", "--num-envs", "2", "--max-lifetime-restarts", "3"), yaml=YAML
    )
    assert ended.status == 0, ended.err
    assert "Connected to Unreal environment with package version 4.0.0" in ended.out
    assert re.search(r"Restarting environment [01] after .*SIGKILL", ended.out)
    assert ended.files("Ball.onnx")


def test_a_scene_as_a_game_of_unreal_is_trained_evaluated_resumed_and_played(tmp_path):
    """With lessons, whose resets in mid-session have the form that the plug-in obeys."""
    game = str(export("ball3d", tmp_path / "ball3d"))
    name = "unreal:" + game
    sizes = {"batch_size": 64, "buffer_size": 512}, {"hidden_units": 16, "num_layers": 1}
    tests = {"test_frequency": 1200, "test_episodes": 3}
    yaml = ppo_yaml("3DBall", *sizes, max_steps=2400, time_horizon=64, summary_freq=600, **tests)
    done = {"measure": "progress", "behavior": "3DBall", "threshold": 0.3}
    lessons = [{"name": "Near", "value": 0.5, "completion_criteria": done}, {"name": "Far", "value": 1.0}]
    yaml += f"environment_parameters: {json.dumps({'scale': {'curriculum': lessons}})}\n"
    ended = learn(tmp_path, "--env", name, yaml=yaml)
    assert ended.status == 0, ended.err
    assert "UnrealMLAgents 1.0 reads no side channels" in ended.out + ended.err
    assert "is in lesson 'Far'" in ended.out
    assert ended.out.count("Test at Step") == 2
    more = ["--resume", "--set", "behaviors.3DBall.max_steps=3000"]
    assert learn(tmp_path, "--env", name, *more, yaml=yaml).status == 0
    (brain,) = ended.files("3DBall.onnx")
    played = json.loads(lanista(tmp_path, "play", brain, "--env", name, "--episodes", "4", "--json"))
    assert played["behaviors"]["3DBall?team=0"]["episodes"] == 4
