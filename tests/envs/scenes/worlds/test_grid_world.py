"""The rules of GridWorld, and what its camera sees."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.grid_world import AGENT, EX, PLUS, GridCamera, GridWorld
from scene_play import ScenePlay

NOTHING, UP, DOWN, LEFT, RIGHT = range(5)
PLUS_WANTED, EX_WANTED = 0, 1


class Play(ScenePlay):
    scene = GridWorld

    def place(self, plus, ex, agent, wanted, area=0):
        self.world.places[area] = [plus, ex, agent]
        self.world.wanted[area] = wanted


def test_starts_on_distinct_cells_anywhere_with_either_goal_wanted():
    play = Play(areas=600)
    np.testing.assert_array_equal(play.world.cells, 5)
    np.testing.assert_array_equal(play.world.kinds, [[PLUS, EX, AGENT]] * 600)
    places, cells = play.world.places, play.world.places @ [5, 1]
    assert places.min() == 0 and places.max() == 4
    assert all(len(set(row)) == 3 for row in cells)
    assert 240 < play.world.wanted.sum() < 360
    np.testing.assert_array_equal(play.batch.obs[1], np.eye(2)[play.world.wanted])


@pytest.mark.parametrize(
    ("action", "moved"),
    [(NOTHING, (2, 2)), (UP, (2, 3)), (DOWN, (2, 1)), (LEFT, (1, 2)), (RIGHT, (3, 2))],
)
def test_an_action_is_a_cell_along_its_direction_and_costs_a_hundredth(action, moved):
    play = Play()
    play.place((0, 0), (4, 4), (2, 2), PLUS_WANTED)
    batch = play.act(action)
    np.testing.assert_array_equal(play.world.places[0, -1], moved)
    np.testing.assert_allclose(batch.reward, [-0.01])
    assert not batch.done.any()


@pytest.mark.parametrize(
    ("corner", "masked"),
    [
        ((0, 0), [DOWN, LEFT]),
        ((4, 0), [DOWN, RIGHT]),
        ((0, 4), [UP, LEFT]),
        ((4, 4), [UP, RIGHT]),
        ((2, 0), [DOWN]),
        ((2, 2), []),
    ],
)
def test_moves_that_would_leave_the_grid_are_masked_and_do_nothing(corner, masked):
    play = Play()
    play.place((1, 3), (3, 1), corner, PLUS_WANTED)
    mask = play.act(NOTHING).action_mask[0]
    np.testing.assert_array_equal(np.flatnonzero(mask), masked)
    for action in masked:
        play.act(action)
        np.testing.assert_array_equal(play.world.places[0, -1], corner)


@pytest.mark.parametrize(
    ("wanted", "action", "reward"),
    [(PLUS_WANTED, LEFT, 1), (PLUS_WANTED, RIGHT, -1), (EX_WANTED, LEFT, -1), (EX_WANTED, RIGHT, 1)],
)
def test_entering_a_goal_sets_the_reward_and_ends_the_episode(wanted, action, reward):
    play = Play(areas=2)
    play.place((1, 2), (3, 2), (2, 2), wanted, area=1)
    play.place((0, 0), (0, 4), (2, 2), wanted, area=0)
    batch = play.act([NOTHING, action])
    np.testing.assert_array_equal(batch.done, [True, False, False])
    np.testing.assert_array_equal(batch.agent_id, [1, 0, 1])
    np.testing.assert_allclose(batch.reward, [reward, -0.01, 0])
    assert not batch.interrupted.any()
    # What was seen last is the agent on the goal, under the goal that was wanted.
    np.testing.assert_array_equal(batch.obs[1][0], np.eye(2)[wanted])
    assert batch.obs[0][0].max() > batch.obs[0][0].min()
    assert not batch.action_mask[0].any()


def test_a_goal_at_the_last_action_is_no_interruption():
    play = Play(max_steps=1)
    play.place((2, 3), (0, 0), (2, 2), PLUS_WANTED)
    batch = play.act(UP)
    assert batch.done[0] and not batch.interrupted[0]
    assert batch.reward[0] == 1


def test_parameters_set_the_size_and_the_goals_of_the_next_episode():
    play = Play(areas=2, max_steps=3)
    play.parameters.set("gridSize", 8)
    play.parameters.set("numPlusGoals", 2)
    play.parameters.set("numExGoals", 0)
    np.testing.assert_array_equal(play.world.cells, 5)
    for _ in range(3):
        play.act()
    np.testing.assert_array_equal(play.world.cells, 8)
    assert np.sum(play.world.kinds == PLUS) == 4
    assert not np.any(play.world.kinds == EX)
    assert play.batch.obs[0].shape[1:] == (3, 64, 84)
    play.parameters.set("gridSize", 3)
    play.parameters.set("numPlusGoals", 1)
    for _ in range(3):
        play.act()
    np.testing.assert_array_equal(play.world.cells, 3)
    assert np.sum(play.world.kinds == PLUS) == 2
    # One of the places for goals is empty now; it hides none of those that are there.
    for area in range(2):
        agent = play.world.places[area, -1]
        for x, z in {(0, 0), (2, 2), (1, 0)} - {tuple(agent)}:
            play.world.places[area, 0] = x, z
            red, green, blue = color_at(play.world._observe(np.arange(2))[0][area].astype(int), 3, x, z)
            assert green > 120 > max(red, blue)


def test_grids_of_different_sizes_live_side_by_side():
    play = Play(areas=2, max_steps=1)
    play.world.cells[0] = 7
    play.world.places[0, -1] = 6, 6
    pictures = play.world._observe(np.arange(2))[0]
    assert np.any(pictures[0] != pictures[1])
    assert not play.world._mask()[0, NOTHING]
    np.testing.assert_array_equal(np.flatnonzero(play.world._mask()[0]), [UP, RIGHT])


@pytest.mark.parametrize(
    "parameters", [{"gridSize": 0}, {"gridSize": 100}, {"gridSize": 2, "numPlusGoals": 3}]
)
def test_parameters_that_leave_no_room_are_refused_where_unity_would_hang(parameters):
    with pytest.raises(ValueError, match="make no world"):
        Play(parameters=parameters)


def color_at(picture, cells, x, z):
    """The mean color in the center of a cell of an image [3, height, width]."""
    _, height, width = picture.shape
    pitch = height / cells
    row = height / 2 - (z - (cells - 1) / 2) * pitch
    column = width / 2 + (x - (cells - 1) / 2) * pitch
    part = picture[:, int(row - 1) : int(row + 1), int(column - 1) : int(column + 1)]
    return part.reshape(3, -1).mean(axis=1)


@pytest.mark.parametrize(("size", "cells"), [("full", 5), ("small", 3), ("full", 9)])
def test_the_camera_shows_everything_in_its_cell_with_up_above(size, cells):
    play = Play(size=size, cells=cells)
    last = cells - 1
    play.place((0, last), (last, 0), (0, 0), PLUS_WANTED)
    picture = play.world._observe(np.array([0]))[0][0].astype(int)
    red, green, blue = color_at(picture, cells, 0, last)
    assert green > 120 > max(red, blue)
    red, green, blue = color_at(picture, cells, last, 0)
    assert red > 180 > 120 > max(green, blue)
    red, green, blue = color_at(picture, cells, 0, 0)
    assert blue > 200 > max(red, green)
    floor = color_at(picture, cells, last, last)
    assert floor.min() > 190
    # Left and right of the grid stands the wall.
    assert color_at(picture, cells, -0.8, 1).max() < 140
    np.testing.assert_array_equal(picture[:, :, 0], picture[:, :, -1])


def test_the_image_does_not_show_which_goal_is_wanted():
    play = Play()
    play.place((0, 0), (4, 4), (2, 2), PLUS_WANTED)
    first, signal = play.world._observe(np.array([0]))
    play.world.wanted[0] = EX_WANTED
    second, other = play.world._observe(np.array([0]))
    np.testing.assert_array_equal(first, second)
    assert np.any(signal != other)


def test_images_of_many_grids_at_once_equal_those_of_each_alone():
    play = Play(areas=40)
    world = play.world
    camera = GridCamera(64, 84)
    together = camera.observe(5, world.places, world.kinds)
    for k in range(40):
        np.testing.assert_array_equal(
            camera.observe(5, world.places[k : k + 1], world.kinds[k : k + 1])[0], together[k]
        )
    assert len(np.unique(together.reshape(40, -1), axis=0)) > 30
