"""What a run says of the scene or game that it is given: its name, parameters, behaviors and seats."""

import pytest
from console_runs import learn, ppo_yaml

pytestmark = pytest.mark.slow

TINY = {"batch_size": 16, "buffer_size": 64}, {"hidden_units": 8, "num_layers": 1}


def test_names_of_ml_agents_files_are_taken_and_unknown_parameters_are_warnings(tmp_path):
    lessons = (
        "environment_parameters:\n  agent_scal: 1.5\n  laser_length:\n    curriculum:\n"
        "      - {name: a, value: 1, completion_criteria: {behavior: GridFoodCollector, threshold: 9}}\n"
        "      - {name: b, value: 2}\n"
    )
    yaml = ppo_yaml("GridFoodCollector", *TINY, max_steps=60) + lessons
    ended = learn(tmp_path, "--env", "scene:food?senses=vector&areas=1", yaml=yaml)
    assert ended.good and ended.files("FoodCollector.onnx")
    assert "The behavior GridFoodCollector of the configuration is FoodCollector in scene:food" in ended.out
    assert (
        "reads no environment parameter agent_scal, which has no effect. Did you mean agent_sc" in ended.out
    )
    assert "It reads agent_scale, laser_length." in ended.out
    assert "[INFO] Connected to scene:food (ML-Agents' protocol) with package version" in ended.out
    assert "stays in lesson" not in ended.out and ended.out.count("[WARNING]") == 1


def test_the_preset_of_connect_four_does_not_warn_of_itself(tmp_path):
    pytest.importorskip("pettingzoo.classic.connect_four_v3")
    game = "pettingzoo:pettingzoo.classic.connect_four_v3?self_play=true&boards=true"
    changes = ["hyperparameters.batch_size=16", "hyperparameters.buffer_size=32", "max_steps=40"]
    settings = [word for key in changes for word in ("--set", f"behaviors.player.{key}")]
    ended = learn(tmp_path, "--preset", "ppo/connect-four", "--env", game, *settings, yaml="{}")
    assert ended.good and "[WARNING]" not in ended.out
