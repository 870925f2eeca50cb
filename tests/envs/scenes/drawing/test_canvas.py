"""Every scene draws itself."""

import numpy as np
import pytest
from lanista.envs.scenes.drawing.canvas import Box, Camera, Canvas
from lanista.envs.scenes.registry import SCENES
from lanista.envs.scenes.world import Parameters


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("areas", [1, 5])
def test_an_image_has_the_requested_size_and_shows_changes(name, areas):
    scene = SCENES[name]
    world = scene.load()(areas=areas)
    batches = world.reset(np.random.default_rng(0), Parameters())
    before = scene.draw((160, 100), world)
    assert before.shape == (100, 160, 3)
    assert before.dtype == np.uint8
    assert len(np.unique(before.reshape(-1, 3), axis=0)) > 50
    for _ in range(2):
        actions = {}
        for behavior, spec in world.specs().items():
            action = spec.action_spec.empty_action(int((~batches[behavior].done).sum()))
            action.discrete[:] = 1
            actions[behavior] = (action.continuous, action.discrete)
        batches = world.step(actions)
    assert np.any(scene.draw((160, 100), world) != before)


def test_the_camera_shows_the_whole_subject():
    subject = np.random.default_rng(0).uniform(-5, 5, (50, 3))
    camera = Camera((300, 200), subject, yaw=20, pitch=30, margin=0.1)
    pixels = camera.project(subject)
    assert np.all(pixels >= [30 - 1e-6, 20 - 1e-6])
    assert np.all(pixels <= [270 + 1e-6, 180 + 1e-6])
    # Up is up, and right is right.
    assert camera.project(np.array([0.0, 1, 0]))[1] < camera.project(np.zeros(3))[1]
    assert camera.project(np.array([1.0, 0, 0]))[0] > camera.project(np.zeros(3))[0]


def test_a_box_hides_only_what_is_beyond_it():
    canvas = Canvas((100, 100), np.array([[-4.0, -4, -4], [4, 4, 4]]), yaw=20, pitch=30)
    box = Box(np.zeros(3), np.eye(3), np.ones(3), (90, 90, 90))
    assert not canvas.hides(box, np.array([0, 2.0, 0]))
    assert not canvas.hides(box, np.array([0, 0, -2.0]))
    assert canvas.hides(box, np.array([0, -2.0, 0]))
    assert canvas.hides(box, np.array([0, 0, 2.0]))
