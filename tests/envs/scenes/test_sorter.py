"""The rules of Sorter."""

import numpy as np
import pytest
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.sorter.scene import BEHAVIOR, Sorter
from mlagents_envs.base_env import DimensionProperty

STILL, FORWARD, RIGHT, TURN_LEFT, TURN_RIGHT = (0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 2)
STEP = -1 / 5000


class Table:
    """A sorter world on a table: acts, and keeps the last batch."""

    def __init__(self, areas=1, seed=0, num_tiles=None, **options):
        self.world = Sorter(areas=areas, **options)
        self.parameters = Parameters()
        if num_tiles is not None:
            self.parameters.set("num_tiles", num_tiles)
        self.batch = self.world.reset(np.random.default_rng(seed), self.parameters)[BEHAVIOR]

    def act(self, *chosen):
        rows = np.broadcast_to(np.array(chosen or [STILL], np.int32), (self.world.areas, 3))
        self.batch = self.world.step({BEHAVIOR: (np.zeros((len(rows), 0), np.float32), rows)})[BEHAVIOR]
        return self.batch

    def lay(self, area, numbers, places):
        """These tiles, at these places, instead of those that were drawn."""
        world = self.world
        world.numbers[area], world.places[area] = 0, -1
        world.numbers[area, : len(numbers)] = numbers
        world.places[area, : len(places)] = places
        world._count[area], world.visited[area] = len(numbers), 0

    def put_before(self, area, place):
        """The agent a little before a place for a tile, looking at it, at rest."""
        angle = self.world.dynamics.tile_angle[place]
        self.world.heading[area] = angle
        self.world.dynamics.velocity[:, area] = 0
        self.world.dynamics.position[:, area] = 18.9 * np.array([np.sin(angle), np.cos(angle)])


def test_at_full_size_sensors_and_actions_are_unitys():
    (name,), (spec,) = zip(*Sorter().specs().items())
    assert name == "Sorter?team=0"
    tiles, body, place = spec.observation_specs
    assert tiles.shape == (20, 23)
    assert tiles.dimension_property == (DimensionProperty.VARIABLE_SIZE, DimensionProperty.NONE)
    assert (body.shape, place.shape) == ((10,), (8,))
    names = [sensor.name for sensor in spec.observation_specs]
    assert names == sorted(names)
    assert spec.action_spec.discrete_branches == (3, 3, 3)
    assert spec.action_spec.continuous_size == 0


def test_at_full_size_everything_is_as_large_and_as_long_as_in_unity():
    world = Sorter()
    assert world.areas == 8
    assert (world.options.tiles, world.options.places) == (20, 20)
    assert (world.options.radius, world.options.tile_width) == (20.5, 3.5)
    assert (world.options.speed, world.options.max_steps) == (2, 5000)
    np.testing.assert_allclose(np.degrees(np.diff(world.dynamics.tile_angle)), 18)


def test_an_episode_has_one_to_all_tiles_with_numbers_and_places_of_their_own():
    world = Table(areas=4000).world
    counts = (world.numbers > 0).sum(axis=1)
    assert abs(np.bincount(counts, minlength=21)[1:] - 200).max() < 80
    for numbers, places, count in zip(world.numbers[:200], world.places, counts):
        assert sorted(set(numbers[:count])) == list(numbers[:count])
        assert len(set(places[:count])) == count and (places[count:] == -1).all()
    assert world.numbers.max() == 20
    assert set(world.places.ravel()) == {-1, *range(20)}


def test_the_trainer_sets_how_many_tiles_there_are_from_the_next_episode_on():
    table = Table(areas=400, num_tiles=2)
    assert set((table.world.numbers > 0).sum(axis=1)) == {1, 2}
    table.parameters.set("num_tiles", 1.9)
    table.act()
    assert (table.world.numbers > 0).sum(axis=1).max() == 2
    table.world._age[:] = 4999
    table.act()
    assert set((table.world.numbers > 0).sum(axis=1)) == {1}


@pytest.mark.parametrize("number", [0, 21])
def test_more_or_fewer_tiles_than_there_can_be_are_refused(number):
    with pytest.raises(ValueError, match=f"num_tiles is {number} to {number}; it must be from 1 to 20"):
        Table(num_tiles=number)


def test_a_row_tells_number_way_and_visit_of_a_tile_and_the_twentieth_loses_its_mark():
    table = Table()
    table.lay(0, [3, 20], [5, 0])
    table.world.dynamics.position[:, 0] = 2, -4
    table.world.visited[0] = 1
    rows = table.world._sense(table.world._view(np.array([0])), np.zeros((1, 8), np.float32))[0][0]
    third = np.zeros(23)
    third[3], third[20:] = 1, [(20.5 - 2) / 20, 4 / 20, 1]
    np.testing.assert_allclose(rows[0], third, atol=1e-6)
    np.testing.assert_allclose(rows[1], [*[0] * 20, -2 / 20, 24.5 / 20, 0], atol=1e-6)
    assert not rows[2:].any()


def test_an_agent_tells_its_place_twice_and_its_velocity_in_its_own_axes():
    table = Table()
    assert not table.batch.obs[2][0, :4].any()
    table.world.heading[:] = np.pi / 2
    batch = table.act(FORWARD)
    body, place = batch.obs[1][0], batch.obs[2][0]
    np.testing.assert_allclose(body[:9], [0, 0, 0, 0, 0, 0, 1, 0, 0], atol=1e-6)
    assert body[9] > 5
    np.testing.assert_allclose(place[:4], [0, 0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(place[5:], [0, 1, 0], atol=1e-6)
    assert place[4] == pytest.approx(table.world.dynamics.position[0, 0] / 20)


def test_actions_move_and_turn_for_five_physics_steps_and_sideways_replaces_forward():
    table = Table(areas=5)
    table.world.heading[:] = 0
    table.act(FORWARD, RIGHT, (1, 2, 0), TURN_LEFT, TURN_RIGHT)
    x, z = table.world.dynamics.position
    assert z[0] > 0.3 and abs(x[0]) < 1e-9
    assert x[1] > 0.3 and abs(z[1]) < 1e-9
    assert x[2] == pytest.approx(-x[1]) and abs(z[2]) < 1e-9
    np.testing.assert_allclose(np.degrees(table.world.heading), [0, 0, 0, -20, 20])


def test_drag_and_friction_set_the_greatest_speed():
    table = Table(places=3, tiles=1, radius=1000.0)
    for _ in range(40):
        table.act(FORWARD)
    grip = 0.6 * 9.81 * 2.5 * 0.02
    # What is added in a step is lost to drag (4 a second) and friction.
    speed = np.hypot(*table.world.dynamics.velocity[:, 0])
    assert speed == pytest.approx((0.92 * 2 - grip) / 0.08, rel=1e-3)
    table.parameters.set("gravity", 9.81)
    for _ in range(40):
        table.act(FORWARD)
    faster = np.hypot(*table.world.dynamics.velocity[:, 0])
    assert faster == pytest.approx((0.92 * 2 - 0.4 * grip) / 0.08, rel=1e-3)


def test_the_next_tile_pays_once_and_the_last_ends_the_episode():
    table = Table()
    table.lay(0, [4, 9], [5, 10])
    table.put_before(0, 5)
    assert table.act(FORWARD).reward[0] == pytest.approx(1 + 5 * STEP)
    assert table.batch.obs[0][0, :2, 22].tolist() == [1, 0]
    assert table.act(FORWARD).reward[0] == pytest.approx(5 * STEP)
    table.put_before(0, 10)
    batch = table.act(FORWARD)
    np.testing.assert_array_equal(batch.done, [True, False])
    assert not batch.interrupted.any()
    assert batch.obs[0][0, :2, 22].tolist() == [1, 1]
    assert 1 + 5 * STEP <= batch.reward[0] <= 1 + STEP
    # What is left of the decision's five steps belongs to the next episode, in which nothing is done yet.
    assert batch.reward.sum() == pytest.approx(1 + 5 * STEP)
    assert not table.world.dynamics.position.any()
    np.testing.assert_array_equal(batch.agent_id, [0, 0])


def test_a_wrong_tile_costs_and_ends_the_episode_and_the_heading_stays():
    table = Table(areas=2)
    for area in (0, 1):
        table.lay(area, [4, 9], [5, 10])
    table.put_before(1, 10)
    batch = table.act(FORWARD)
    np.testing.assert_array_equal(batch.agent_id, [1, 0, 1])
    np.testing.assert_array_equal(batch.done, [True, False, False])
    assert -1 + 5 * STEP <= batch.reward[0] <= -1 + STEP
    assert table.world.heading[1] == pytest.approx(table.world.dynamics.tile_angle[10])


def test_the_wall_holds_where_no_tile_stands():
    table = Table()
    table.lay(0, [4], [10])
    table.world.heading[:] = 0.05
    for _ in range(50):
        assert not table.act(FORWARD).done.any()
    assert 19 < np.hypot(*table.world.dynamics.position[:, 0]) <= 19.5


def test_five_thousand_steps_interrupt_an_episode():
    table = Table()
    for decision in range(1, 1001):
        batch = table.act()
        assert batch.done.any() == (decision == 1000)
    np.testing.assert_array_equal(batch.interrupted, [True, False])
    assert batch.reward[0] == pytest.approx(5 * STEP)


def test_a_setting_with_fewer_numbers_has_fewer_and_shorter_rows():
    table = Table(areas=200, numbers=4, tiles=3)
    assert table.world.specs()[BEHAVIOR].observation_specs[0].shape == (4, 7)
    assert table.batch.obs[0].shape == (200, 4, 7)
    assert set(table.world.numbers.ravel()) == {0, 1, 2, 3, 4}
    assert set((table.world.numbers > 0).sum(axis=1)) == {1, 2, 3}


def test_flat_tiles_are_the_same_numbers_as_one_vector():
    table, flat = Table(areas=3, seed=4), Table(areas=3, seed=4, senses="flat")
    (spec,) = flat.world.specs().values()
    assert spec.observation_specs[0].shape == (460,)
    assert spec.observation_specs[0].dimension_property == (DimensionProperty.NONE,)
    for _ in range(5):
        rows, vector = table.act(FORWARD).obs, flat.act(FORWARD).obs
        np.testing.assert_array_equal(rows[0].reshape(3, -1), vector[0])
        np.testing.assert_array_equal(rows[1], vector[1])


@pytest.mark.parametrize("size", ["full", "small"])
def test_the_seed_decides_everything(size):
    def run(seed):
        table = Table(areas=4, seed=seed, size=size)
        random = np.random.default_rng(5)
        return np.stack([table.act(*random.integers(0, 3, (4, 3))).obs[0][-4:] for _ in range(60)])

    np.testing.assert_array_equal(run(3), run(3))
    assert np.any(run(3) != run(4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "smal"}, "no size 'smal'. Did you mean 'small'"),
        ({"areas": 0}, "areas is 0"),
        ({"tiles": 21}, "tiles is 21; it must be at most 20"),
        ({"places": 8}, "tiles is 20; it must be at most 8"),
        ({"numbers": 5}, "tiles is 20; it must be at most 5"),
        ({"radius": 10.0}, "radius of 10 m has no room for 20 places for tiles 3.5 m wide"),
        ({"senses": "rays"}, "no senses 'rays'; it has entities, flat"),
        ({"max_steps": 4}, "max-steps is 4; it must be at least 5"),
    ],
)
def test_options_that_make_no_world_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Sorter(**options)
