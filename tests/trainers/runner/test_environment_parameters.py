"""Environment parameters reach the process of a scene over the wire, and change what agents observe."""

import numpy as np
import pytest
from lanista.envs.base import Decision
from lanista.trainers.curriculum import Curriculum
from lanista.trainers.runner.environments import make_env_manager
from lanista.trainers.settings.command_line import parse_command_line
from mlagents_envs.base_env import ActionTuple


def begun(tmp_path, scene, behavior, parameters):
    """The environment of a run with these parameters, in its own process, and its first decision steps."""
    config = tmp_path / "config.yaml"
    behaviors = f"{{{behavior}: {{trainer_type: ppo}}}}"
    config.write_text(f"behaviors: {behaviors}\nenvironment_parameters: {parameters}")
    run = parse_command_line([str(config), "--env", f"scene:{scene}"])
    manager = make_env_manager(run, 3, tmp_path)
    manager.start()
    (step,) = manager.reset(Curriculum(run.environment_parameters, 3).samplers())
    return manager, step.steps[f"{behavior}?team=0"][0]


def contents(pictures):
    """The numbers of plus signs, crosses and agents on each grid of 8 x 8 cells."""
    # A grid as high as its picture, of 64 pixels, has cells of 8; it stands in the middle.
    middles = pictures[:, :, 4::8, 14:74:8].astype(float) / 255
    assert middles.shape[1:] == (3, 8, 8)
    red, green, blue = middles.transpose(1, 0, 2, 3)
    shown = ((green - red > 0.3) & (green - blue > 0.2), red - green > 0.3, blue - red > 0.3)
    return np.stack([each.sum((1, 2)) for each in shown], axis=1)


def test_environment_parameters_set_the_grid(tmp_path):
    set_so = "{gridSize: 8, numPlusGoals: 3, numExGoals: 2}"
    manager, decisions = begun(tmp_path, "grid", "GridWorld", set_so)
    with manager:
        np.testing.assert_array_equal(contents(decisions.obs[0]), np.tile([3, 2, 1], (9, 1)))


def test_each_grid_samples_its_own_parameters(tmp_path):
    drawn = "{sampler_type: uniform, sampler_parameters: {min_value: 1, max_value: 6}}"
    manager, decisions = begun(tmp_path, "grid", "GridWorld", f"{{gridSize: 8, numPlusGoals: {drawn}}}")
    with manager:
        plus, ex, agents = contents(decisions.obs[0]).T
    assert set(plus) <= {1, 2, 3, 4, 5} and len(set(plus)) > 2
    np.testing.assert_array_equal(ex, 1)
    np.testing.assert_array_equal(agents, 1)


@pytest.mark.parametrize("parameters, moves", [("{}", True), ("{gravity: 1000.0}", False)])
def test_gravity_keeps_the_hallway_agents_in_place(tmp_path, parameters, moves):
    manager, before = begun(tmp_path, "hallway", "Hallway", parameters)
    with manager:
        count = len(before)
        forward = ActionTuple(discrete=np.ones((count, 1), np.int32))
        zeros = np.zeros(count, np.float32)
        decision = Decision(before.agent_id, forward, forward, zeros[:, None], zeros)
        manager.send(0, {"Hallway?team=0": decision})
        (step,) = manager.wait()
        after = step.steps["Hallway?team=0"][0]
    newest = slice(-35, None)  # of three frames
    seen = np.abs(after.obs[0][:, newest] - before.obs[0][:, newest]).max(axis=1)
    assert (seen > 0.01).any() == moves
