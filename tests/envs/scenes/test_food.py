"""The rules of FoodCollector."""

import numpy as np
import pytest
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.food_collector.scene import BEHAVIOR, Food
from mlagents_envs.base_env import DimensionProperty

GRIP = 0.6 * 9.81 * 0.02


class Table:
    """A food world on a table: acts, and keeps the last batch."""

    def __init__(self, areas=1, seed=0, parameters=(), **options):
        self.world = Food(areas=areas, **options)
        self.parameters = Parameters()
        for key, value in dict(parameters).items():
            self.parameters.set(key, value)
        self.batch = self.world.reset(np.random.default_rng(seed), self.parameters)[BEHAVIOR]

    def act(self, moves=(0, 0, 0), shoot=0):
        """Moves and shots of every agent, or of each."""
        count = self.world.frozen.size
        continuous = np.broadcast_to(np.array(moves, np.float32), (count, 3))
        discrete = np.broadcast_to(np.array(shoot, np.int32).reshape(-1, 1), (count, 1))
        self.batch = self.world.step({BEHAVIOR: (continuous, discrete)})[BEHAVIOR]
        return self.batch

    def lay(self, *agents, foods=()):
        """The agents of area 0 at these places, looking along z, and all food but these away in a corner."""
        world = self.world
        world.dynamics.position[:, 0] = np.array(agents, float).T
        world.dynamics.velocity[:] = 0
        world.heading[:] = 0
        world.dynamics.food[:] = -0.98 * world.dynamics.half
        for number, place in dict(foods).items():
            world.dynamics.food[:, 0, number] = place


def table_of(*agents, foods=(), **options):
    table = Table(agents=len(agents), **options)
    table.lay(*agents, foods=foods)
    return table


def test_at_full_size_sensor_and_actions_are_unitys():
    (name,), (spec,) = zip(*Food().specs().items())
    assert name == "FoodCollector?team=0"
    (grid,) = spec.observation_specs
    assert grid.shape == (5, 40, 40)
    translational = DimensionProperty.TRANSLATIONAL_EQUIVARIANCE
    assert grid.dimension_property == (DimensionProperty.NONE, translational, translational)
    assert spec.action_spec.continuous_size == 3
    assert spec.action_spec.discrete_branches == (2,)


def test_at_full_size_everything_is_as_many_as_large_and_as_long_as_in_unity():
    table = Table()
    world = Food()
    assert (world.areas, world.options.agents) == (4, 5)
    assert (world.options.good_food, world.options.bad_food) == (25, 25)
    assert (world.dynamics.half, world.options.max_steps, world.options.speed) == (50, 5000, 2)
    wide = Table(areas=200).world.dynamics
    assert 44 < np.abs(wide.position).max() <= 45
    assert 44 < np.abs(wide.food).max() <= 45
    assert (table.batch.group_id == 0).all()
    assert len(set(table.batch.agent_id)) == 5


@pytest.mark.parametrize(("food", "worth"), [(0, 1), (24, 1), (25, -1), (49, -1)])
def test_food_pays_or_costs_who_touches_it_and_lies_elsewhere_then(food, worth):
    table = table_of((0, 0), (30, 30), foods={food: (0.4, 1.2)})
    batch = table.act()
    np.testing.assert_array_equal(batch.reward, [worth, 0])
    assert np.abs(table.world.dynamics.food[:, 0, food] - (0.4, 1.2)).max() > 2
    assert np.abs(table.world.dynamics.food).max() <= 0.98 * 50
    np.testing.assert_array_equal(table.act().reward, 0)


def test_actions_push_forward_right_and_turn_left():
    table = table_of((0, 0), (20, 0), (-20, 0), (-40, 0))
    table.act([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -7)])
    x, z = table.world.dynamics.position[:, 0] - np.array([[0, 20, -20, -40], [0, 0, 0, 0]])
    assert z[0] > 0.3 and abs(x[0]) < 1e-9
    assert x[1] > 0.3 and abs(z[1]) < 1e-9
    np.testing.assert_allclose(np.degrees(table.world.heading[0]), [0, 0, -30, 30])


def test_above_five_metres_a_second_agents_are_slowed():
    table = table_of((0, 0), (20, 0))
    table.world.dynamics.velocity[1, 0] = 4, 10
    table.world._act()
    np.testing.assert_allclose(
        table.world.dynamics.velocity[1, 0], [4 * 0.99 - GRIP, 10 * 0.95 * 0.99 - GRIP], rtol=1e-6
    )


def test_shooting_halves_the_push_and_takes_a_quarter_of_the_velocity():
    table = table_of((0, 0))
    world = table.world
    world._move[0], world._shoot[:] = 1, True
    world._act()
    assert world.dynamics.velocity[1, 0, 0] == pytest.approx(1 * 0.99 - GRIP)
    world.dynamics.velocity[1, 0, 0] = 4
    world._act()
    assert world.dynamics.velocity[1, 0, 0] == pytest.approx((4 * 0.75 + 1) * 0.99 - GRIP)


def test_a_shot_freezes_the_first_agent_ahead_for_four_seconds():
    table = table_of((0, 0), (1, 15), (0, 24), (0, -10), (0, 40))
    table.act(shoot=[1, 0, 0, 0, 0])
    np.testing.assert_array_equal(table.world.frozen[0] > 0, [False, True, False, False, False])
    place = table.world.dynamics.position[:, 0, 1].copy()
    for _ in range(39):
        table.act((1, 0, 1))
    np.testing.assert_allclose(table.world.dynamics.position[:, 0, 1], place, atol=1e-6)
    assert table.world.heading[0, 1] == 0
    for _ in range(2):
        table.act((1, 0, 1))
    assert np.hypot(*(table.world.dynamics.position[:, 0, 1] - place)) > 0.01
    assert table.world.heading[0, 1] != 0


def test_a_shot_ends_at_food_and_after_25_metres():
    table = table_of((0, 0), (0, 15), foods={3: (1, 8)})
    table.act(shoot=[1, 0])
    assert not table.world.frozen.any()
    table.lay((0, 0), (0, 28))
    table.act(shoot=[1, 0])
    assert not table.world.frozen.any()
    table.lay((0, 0), (0, 26))
    table.act(shoot=[1, 0])
    assert table.world.frozen[0, 1]


def test_who_is_frozen_neither_shoots_nor_is_frozen_for_longer():
    table = table_of((0, 0), (0, 15))
    table.world.heading[0, 1] = np.pi
    table.world.frozen[0, 1] = 100
    table.act(shoot=[1, 1])
    np.testing.assert_array_equal(table.world.frozen, [[0, 95]])


def test_agents_stay_out_of_each_other_and_within_the_walls():
    table = table_of((0, 0), (0, 1.5), (49, 0))
    table.world.heading[0] = 0, np.pi, np.pi / 2
    for _ in range(10):
        table.act((1, 0, 0))
    position = table.world.dynamics.position[:, 0]
    assert np.hypot(*(position[:, 0] - position[:, 1])) > 0.95
    assert position[0, 2] == pytest.approx(49.5)


def test_the_trainer_sets_the_agents_scale_at_the_beginning_of_an_episode():
    table = Table(parameters={"agent_scale": 3.0, "laser_length": 2.0})
    np.testing.assert_array_equal(table.world.dynamics.radius, 1.5)
    table.lay(*[(0, 20 * k) for k in range(-2, 3)], foods={0: (0, 2.2)})
    assert table.act().reward[2] == 1
    table.parameters.set("agent_scale", 1.0)
    table.world._age = 4995
    table.act()
    np.testing.assert_array_equal(table.world.dynamics.radius, 0.5)


def test_five_thousand_steps_interrupt_all_episodes_and_the_food_stays():
    table = Table(areas=2)
    for decision in range(1, 1001):
        food = table.world.dynamics.food.copy()
        batch = table.act()
        assert batch.done.any() == (decision == 1000)
    np.testing.assert_array_equal(batch.done, [True] * 10 + [False] * 10)
    np.testing.assert_array_equal(batch.interrupted, batch.done)
    np.testing.assert_array_equal(batch.agent_id, [*range(10), *range(10)])
    np.testing.assert_array_equal(table.world.dynamics.food, food)


def test_the_total_score_is_told_every_hundred_steps():
    table = table_of((0, 0), foods={0: (0, 1), 1: (1, 0), 30: (0, -1)})
    told = []
    for _ in range(40):
        table.act()
        told += table.world.statistics()
    assert [(name, value) for name, value, _ in told] == [("TotalScore", 1.0)] * 2


def test_grid_shows_everything_in_its_channel_and_turns_with_the_agent():
    table = table_of((0, 35), (3, 38), (-3, 38), foods={0: (5, 35), 30: (-5, 35)})
    table.world.frozen[0, 2] = 50
    food, agent, wall, bad, frozen = table.world._observe()[0]
    ahead = lambda image: 19.5 - np.nonzero(image)[0]  # noqa: E731
    right = lambda image: np.nonzero(image)[1] - 19.5  # noqa: E731
    for image, place in ((food, (5, 0)), (bad, (-5, 0)), (agent, (3, 3)), (frozen, (-3, 3))):
        assert 1 <= image.sum() <= 9
        assert right(image).mean() == pytest.approx(place[0], abs=0.6)
        assert ahead(image).mean() == pytest.approx(place[1], abs=0.6)
    assert ahead(wall).min() > 14
    table.world.heading[:] = np.pi / 2
    turned = table.world._observe()[0]
    assert ahead(turned[0]).mean() == pytest.approx(5, abs=0.6)
    assert right(turned[2]).max() < -14


def test_vector_tells_what_is_nearest():
    table = table_of((0, 0), (0, 6), (0, -3), foods={0: (2, 0), 1: (0, 4), 30: (-6, 0)}, senses="vector")
    table.world.frozen[0, 2] = 9
    obs = table.world._observe()[0] * np.array([*[1] * 7, *[50] * 14, 1])
    assert obs.shape == table.world.specs()[BEHAVIOR].observation_specs[0].shape
    np.testing.assert_allclose(obs[:7], [0, 0, 0, 1, 0, 0, 0], atol=1e-5)
    np.testing.assert_allclose(obs[7:11], [2, 0, 0, 4], atol=1e-5)
    np.testing.assert_allclose(obs[13:15], [-6, 0], atol=1e-5)
    np.testing.assert_allclose(obs[19:], [0, -3, 1], atol=1e-5)


@pytest.mark.parametrize("size", ["full", "small"])
def test_the_seed_decides_everything(size):
    def play(seed):
        table, random = Table(areas=2, seed=seed, size=size), np.random.default_rng(5)
        return np.stack(
            [table.act(random.uniform(-1, 1, (10, 3)), random.integers(0, 2, 10)).obs[0] for _ in range(30)]
        )

    np.testing.assert_array_equal(play(3), play(3))
    assert np.any(play(3) != play(4))


def test_an_agent_can_be_alone_with_little_food():
    table = Table(agents=1, good_food=1, bad_food=1, senses="vector")
    assert np.isfinite(table.act((1, 1, 1), shoot=1).obs[0]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "ful"}, "no size 'ful'. Did you mean 'full'"),
        ({"areas": 0}, "areas is 0"),
        ({"ground": 3.0}, "3 m of ground have no room for 5 agents"),
        ({"good_food": -1}, "good-food is -1"),
        ({"senses": "rays"}, "no senses 'rays'; it has grid, vector"),
        ({"max_steps": 4}, "max-steps is 4; it must be at least 5"),
    ],
)
def test_options_that_make_no_world_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Food(**options)
