"""The rules of GridWorld, and what its camera sees."""

import numpy as np
import pytest
from lanista.envs.scenes.in_process import WorldEnvironment
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.grid_world.scene import BEHAVIOR, GridWorld
from lanista.envs.scenes.worlds.grid_world.sensors import AGENT, EX, PLUS, GridCamera
from lanista.envs.unity import UnityEnvironment
from mlagents_envs.base_env import ActionTuple, DimensionProperty, ObservationType

NOTHING, UP, DOWN, LEFT, RIGHT = range(5)
PLUS_WANTED, EX_WANTED = 0, 1


class Table:
    """Grids on a table: acts, and keeps the last batch."""

    def __init__(self, areas=1, seed=0, parameters=None, **options):
        self.world = GridWorld(areas=areas, **options)
        self.parameters = Parameters()
        for name, value in (parameters or {}).items():
            self.parameters.set(name, value)
        self.random = np.random.default_rng(seed)
        self.batch = self.world.reset(self.random, self.parameters)[BEHAVIOR]

    def act(self, chosen=NOTHING):
        discrete = np.broadcast_to(np.int32(chosen).reshape(-1, 1), (self.world.areas, 1))
        none = np.zeros((self.world.areas, 0), np.float32)
        self.batch = self.world.step({BEHAVIOR: (none, discrete)})[BEHAVIOR]
        return self.batch

    def place(self, plus, ex, agent, wanted, area=0):
        self.world.places[area] = [plus, ex, agent]
        self.world.wanted[area] = wanted


def test_at_full_size_the_sensors_and_actions_are_unitys():
    (name,), (spec,) = zip(*GridWorld().specs().items())
    assert name == "GridWorld?team=0"
    camera, goal = spec.observation_specs
    assert camera.shape == (3, 64, 84)
    assert camera.dimension_property == (
        DimensionProperty.NONE,
        DimensionProperty.TRANSLATIONAL_EQUIVARIANCE,
        DimensionProperty.TRANSLATIONAL_EQUIVARIANCE,
    )
    assert camera.observation_type is ObservationType.DEFAULT
    assert goal.shape == (2,)
    assert goal.dimension_property == (DimensionProperty.NONE,)
    assert goal.observation_type is ObservationType.GOAL_SIGNAL
    assert [camera.name, goal.name] == sorted([camera.name, goal.name])
    assert spec.action_spec.discrete_branches == (5,)
    assert spec.action_spec.continuous_size == 0


def test_at_full_size_there_are_nine_grids_of_five_cells_with_one_goal_of_each_kind():
    table = Table(areas=9)
    assert GridWorld().areas == 9
    np.testing.assert_array_equal(table.world.cells, 5)
    np.testing.assert_array_equal(table.world.kinds, [[PLUS, EX, AGENT]] * 9)
    assert table.world.options.max_steps == 100


def test_starts_on_distinct_cells_anywhere_with_either_goal_wanted():
    table = Table(areas=600)
    places, cells = table.world.places, table.world.places @ [5, 1]
    assert places.min() == 0 and places.max() == 4
    assert all(len(set(row)) == 3 for row in cells)
    assert 240 < table.world.wanted.sum() < 360
    np.testing.assert_array_equal(table.batch.obs[1], np.eye(2)[table.world.wanted])


@pytest.mark.parametrize(
    ("action", "moved"),
    [(NOTHING, (2, 2)), (UP, (2, 3)), (DOWN, (2, 1)), (LEFT, (1, 2)), (RIGHT, (3, 2))],
)
def test_an_action_is_a_cell_along_its_direction_and_costs_a_hundredth(action, moved):
    table = Table()
    table.place((0, 0), (4, 4), (2, 2), PLUS_WANTED)
    batch = table.act(action)
    np.testing.assert_array_equal(table.world.places[0, -1], moved)
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
    table = Table()
    table.place((1, 3), (3, 1), corner, PLUS_WANTED)
    mask = table.act(NOTHING).action_mask[0]
    np.testing.assert_array_equal(np.flatnonzero(mask), masked)
    for action in masked:
        table.act(action)
        np.testing.assert_array_equal(table.world.places[0, -1], corner)


@pytest.mark.parametrize(
    ("wanted", "action", "reward"),
    [(PLUS_WANTED, LEFT, 1), (PLUS_WANTED, RIGHT, -1), (EX_WANTED, LEFT, -1), (EX_WANTED, RIGHT, 1)],
)
def test_entering_a_goal_sets_the_reward_and_ends_the_episode(wanted, action, reward):
    table = Table(areas=2)
    table.place((1, 2), (3, 2), (2, 2), wanted, area=1)
    table.place((0, 0), (0, 4), (2, 2), wanted, area=0)
    batch = table.act([NOTHING, action])
    np.testing.assert_array_equal(batch.done, [True, False, False])
    np.testing.assert_array_equal(batch.agent_id, [1, 0, 1])
    np.testing.assert_allclose(batch.reward, [reward, -0.01, 0])
    assert not batch.interrupted.any()
    # What was seen last is the agent on the goal, under the goal that was wanted.
    np.testing.assert_array_equal(batch.obs[1][0], np.eye(2)[wanted])
    assert batch.obs[0][0].max() > batch.obs[0][0].min()
    assert not batch.action_mask[0].any()


def test_a_hundred_actions_interrupt_the_episode():
    table = Table()
    for action in range(1, 101):
        # Whoever stands still meets no goal.
        batch = table.act(NOTHING)
        assert batch.done.any() == (action == 100)
    np.testing.assert_array_equal(batch.interrupted, [True, False])
    np.testing.assert_allclose(batch.reward, [-0.01, 0])


def test_a_goal_at_the_last_action_is_no_interruption():
    table = Table(max_steps=1)
    table.place((2, 3), (0, 0), (2, 2), PLUS_WANTED)
    batch = table.act(UP)
    assert batch.done[0] and not batch.interrupted[0]
    assert batch.reward[0] == 1


def test_parameters_set_the_size_and_the_goals_of_the_next_episode():
    table = Table(areas=2, max_steps=3)
    table.parameters.set("gridSize", 8)
    table.parameters.set("numPlusGoals", 2)
    table.parameters.set("numExGoals", 0)
    np.testing.assert_array_equal(table.world.cells, 5)
    for _ in range(3):
        table.act()
    np.testing.assert_array_equal(table.world.cells, 8)
    assert np.sum(table.world.kinds == PLUS) == 4
    assert not np.any(table.world.kinds == EX)
    assert table.batch.obs[0].shape[1:] == (3, 64, 84)
    table.parameters.set("gridSize", 3)
    table.parameters.set("numPlusGoals", 1)
    for _ in range(3):
        table.act()
    np.testing.assert_array_equal(table.world.cells, 3)
    assert np.sum(table.world.kinds == PLUS) == 2
    # One of the places for goals is empty now; it hides none of those that are there.
    for area in range(2):
        agent = table.world.places[area, -1]
        for x, z in {(0, 0), (2, 2), (1, 0)} - {tuple(agent)}:
            table.world.places[area, 0] = x, z
            red, green, blue = color_at(table.world._observe(np.arange(2))[0][area].astype(int), 3, x, z)
            assert green > 120 > max(red, blue)


def test_grids_of_different_sizes_live_side_by_side():
    table = Table(areas=2, max_steps=1)
    table.world.cells[0] = 7
    table.world.places[0, -1] = 6, 6
    pictures = table.world._observe(np.arange(2))[0]
    assert np.any(pictures[0] != pictures[1])
    assert not table.world._mask()[0, NOTHING]
    np.testing.assert_array_equal(np.flatnonzero(table.world._mask()[0]), [UP, RIGHT])


@pytest.mark.parametrize(
    "parameters", [{"gridSize": 0}, {"gridSize": 100}, {"gridSize": 2, "numPlusGoals": 3}]
)
def test_parameters_that_leave_no_room_are_refused_where_unity_would_hang(parameters):
    with pytest.raises(ValueError, match="make no world"):
        Table(parameters=parameters)


def color_at(picture, cells, x, z):
    """The mean color in the middle of a cell of a picture [3, height, width]."""
    _, height, width = picture.shape
    pitch = height / cells
    row = height / 2 - (z - (cells - 1) / 2) * pitch
    column = width / 2 + (x - (cells - 1) / 2) * pitch
    part = picture[:, int(row - 1) : int(row + 1), int(column - 1) : int(column + 1)]
    return part.reshape(3, -1).mean(axis=1)


@pytest.mark.parametrize(("size", "cells"), [("full", 5), ("small", 3), ("full", 9)])
def test_the_camera_shows_everything_in_its_cell_with_up_above(size, cells):
    table = Table(size=size, cells=cells)
    last = cells - 1
    table.place((0, last), (last, 0), (0, 0), PLUS_WANTED)
    picture = table.world._observe(np.array([0]))[0][0].astype(int)
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


def test_the_picture_does_not_tell_which_goal_is_wanted():
    table = Table()
    table.place((0, 0), (4, 4), (2, 2), PLUS_WANTED)
    first, signal = table.world._observe(np.array([0]))
    table.world.wanted[0] = EX_WANTED
    second, other = table.world._observe(np.array([0]))
    np.testing.assert_array_equal(first, second)
    assert np.any(signal != other)


def test_pictures_of_many_grids_at_once_are_those_of_each_alone():
    table = Table(areas=40)
    world = table.world
    camera = GridCamera(64, 84)
    together = camera.observe(5, world.places, world.kinds)
    for k in range(40):
        np.testing.assert_array_equal(
            camera.observe(5, world.places[k : k + 1], world.kinds[k : k + 1])[0], together[k]
        )
    assert len(np.unique(together.reshape(40, -1), axis=0)) > 30


def test_pictures_come_through_the_wire_as_they_are_in_place():
    env = UnityEnvironment("scene:grid?areas=3", seed=4)
    here = WorldEnvironment(GridWorld(areas=3), seed=4)
    random = np.random.default_rng(0)
    try:
        env.reset()
        here.reset()
        for _ in range(12):
            (sent, _), (kept, _) = env.get_steps(BEHAVIOR), here.get_steps(BEHAVIOR)
            assert sent.obs[0].dtype == kept.obs[0].dtype == np.float32
            np.testing.assert_array_equal(sent.obs[0], kept.obs[0])
            np.testing.assert_array_equal(sent.obs[1], kept.obs[1])
            np.testing.assert_array_equal(sent.action_mask[0], kept.action_mask[0])
            action = ActionTuple(discrete=random.integers(0, 5, (3, 1)).astype(np.int32))
            for side in (env, here):
                side.set_actions(BEHAVIOR, action)
                side.step()
        assert (
            env.behavior_specs[BEHAVIOR].observation_specs == here.behavior_specs[BEHAVIOR].observation_specs
        )
    finally:
        env.close()


@pytest.mark.parametrize("size", ["full", "small"])
def test_the_seed_decides_everything(size):
    def run(seed):
        table = Table(areas=4, seed=seed, size=size)
        random = np.random.default_rng(5)
        return np.concatenate([table.act(random.integers(0, 5, 4)).obs[0] for _ in range(30)])

    first = run(3)
    np.testing.assert_array_equal(run(3), first)
    other = run(4)
    assert other.shape != first.shape or np.any(other != first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "smal"}, "no size 'smal'. Did you mean 'small'"),
        ({"areas": 0}, "areas is 0"),
        ({"cells": 1}, "make no world"),
        ({"height": 90}, "would cut the grid off"),
        ({"max_steps": -1}, "max-steps is -1"),
    ],
)
def test_options_that_make_no_world_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GridWorld(**options)
