"""What the sensors of Lanista's addon observe in the real engine."""

import numpy as np
import pytest
from godot_trainer import steps

BEHAVIOR = "shared_policy?team=0"


def observed(game):
    """Name, shape and value of each observation after a reset."""
    specs = game.start()["behaviors"][BEHAVIOR]["observations"]
    decided, _ = steps(game.reset(), BEHAVIOR)
    return {o["name"]: decided.floats(k)[0].reshape(o["shape"]) for k, o in enumerate(specs)}


def test_rays_and_grids_in_2d(play):
    sensed = observed(play("res://game/sensors_2d.tscn"))
    up, right, down, left = sensed["ray_sensor"].reshape(4, 3)
    np.testing.assert_allclose(up, [1 - 120 / 200, 0, 1], atol=1e-4)
    np.testing.assert_allclose(right, [1 - 80 / 200, 1, 0], atol=1e-4)
    assert down.tolist() == left.tolist() == [0, 0, 0], "neither the own body nor areas"
    cells = np.zeros((3, 3, 2))
    cells[2, 1, 0] = 1  # the fruit, once for its two shapes
    cells[1, 0, 1] = 1  # the wall, on another layer
    assert sensed["grid_sensor"].tolist() == cells.ravel().tolist()
    cells[0, 1, 0] = 1  # the area
    assert sensed["table"].tolist() == cells.transpose(2, 1, 0).tolist()


def test_rays_and_grids_in_3d(play):
    sensed = observed(play("res://game/sensors_3d.tscn"))
    rays = sensed["rays"].reshape(3, 2)
    np.testing.assert_allclose(rays, [[0, 0], [0.6, 1], [0, 0]], atol=1e-4)
    cells = np.zeros((3, 3))
    cells[1, 2] = 1
    assert sensed["grid"].reshape(3, 3).tolist() == cells.tolist()


def test_sensors_speak_to_the_trainer_of_godot_rl_agents(play):
    game = play("res://game/sensors_2d.tscn")
    spaces = game.start(lanista=False)["observation_space"][0]
    assert spaces == {
        "ray_sensor": {"size": [12], "space": "box"},
        "grid_sensor": {"size": [18], "space": "box"},
        "table": {"size": [2, 3, 3], "space": "box"},
    }
    values = game.ask({"type": "reset"})["obs"][0]
    assert {name: list(np.shape(value)) for name, value in values.items()} == {
        name: space["size"] for name, space in spaces.items()
    }


@pytest.mark.parametrize("scene", ["camera", "camera_3d"])
def test_a_camera_without_a_display_says_so(play, scene):
    game = play(f"res://game/{scene}.tscn")
    spec = game.start()["behaviors"][BEHAVIOR]["observations"]
    assert spec == [{"name": "eye_2d", "shape": [3, 36, 36], "type": "image"}]
    with pytest.raises(
        EOFError, match="/root/Root/Agent gives under 'eye_2d' null: under --headless no camera"
    ):
        game.reset()


def test_two_sensors_of_one_name_are_refused(play, project):
    scene = (project / "game" / "sensors_2d.tscn").read_text()
    wrong = scene.replace('"GridSensor"', '"RaySensor"')  # beside RaySensor2D
    (project / "game" / "same_names.tscn").write_text(wrong)
    with pytest.raises(EOFError, match="are both observed as 'ray_sensor': rename one"):
        play("res://game/same_names.tscn").start()
