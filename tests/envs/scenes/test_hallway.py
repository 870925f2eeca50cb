"""The rules of Hallway, its hall, and what its agents see."""

import numpy as np
import pytest
from lanista.envs.base import StatsAggregationMethod
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.hallway.dynamics import HALF_BOX, Hall
from lanista.envs.scenes.worlds.hallway.scene import BEHAVIOR, Hallway
from mlagents_envs.base_env import DimensionProperty, ObservationType

NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT = range(5)
STEP = -1 / 3000
O_GOAL, X_GOAL, O_BOARD, X_BOARD, WALL, MISSED, DISTANCE = range(7)
MIDDLE, FIRST_RIGHT, FIRST_LEFT, LAST_RIGHT, LAST_LEFT = range(5)
FAR_AWAY = 3.0, -20.0


class Table:
    """Halls on a table: acts, and keeps the last batch."""

    def __init__(self, areas=1, seed=0, **options):
        self.world = Hallway(areas=areas, **options)
        self.random = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.parameters = Parameters()
        self.batch = self.world.reset(self.random, self.parameters)[BEHAVIOR]
        self.world.statistics()

    def act(self, chosen=NOTHING):
        discrete = np.broadcast_to(np.int32(chosen).reshape(-1, 1), (self.world.areas, 1))
        none = np.zeros((self.world.areas, 0), np.float32)
        self.batch = self.world.step({BEHAVIOR: (none, discrete)})[BEHAVIOR]
        return self.batch

    def place(self, x, z, heading=0.0, area=0):
        walkers = self.world.dynamics
        walkers.position[:, area] = x, z
        walkers.velocity[:, area] = 0
        walkers.heading[area] = np.radians(heading)

    def show(self, is_x, board=(0.0, 0.0), o_side=1.0, area=0):
        world = self.world
        world.is_x[area], world.o_side[area], world.dynamics.board[:, area] = is_x, o_side, board
        which = np.array([area])
        world._sensors.place(which, np.array([board]).T, np.array([is_x]), np.array([o_side]))

    def rays(self):
        """The newest frame of the first agent, [rays, 7]."""
        return self.act(NOTHING).obs[0][-1].reshape(self.world.options.frames, -1, 7)[-1]


def test_at_full_size_the_sensors_and_actions_are_unitys():
    (name,), (spec,) = zip(*Hallway().specs().items())
    assert name == "Hallway?team=0"
    assert [obs.shape for obs in spec.observation_specs] == [(105,), (3,)]
    names = [obs.name for obs in spec.observation_specs]
    assert names == sorted(names)
    assert names == ["StackingSensor_size3_RayPerceptionSensor", "StackingSensor_size3_VectorSensor_size1"]
    assert all(obs.observation_type is ObservationType.DEFAULT for obs in spec.observation_specs)
    assert all(obs.dimension_property == (DimensionProperty.NONE,) for obs in spec.observation_specs)
    assert spec.action_spec.discrete_branches == (5,)
    assert spec.action_spec.continuous_size == 0
    assert Hallway().reset(np.random.default_rng(0), Parameters())[BEHAVIOR].action_mask is None


def test_at_full_size_everything_is_where_and_as_large_as_in_unity():
    world = Hallway()
    assert world.areas == 16
    assert world.options.max_steps == 3000
    hall = world.hall
    assert (hall.width, hall.length) == (20, 50)
    assert (hall.half_width, hall.half_length) == (9.5, 24.75)
    assert hall.goal == pytest.approx((7, 22.29))
    assert (hall.goal_half, hall.board_half) == (2, 2)


def test_at_full_size_episodes_begin_as_in_unity():
    world = Table(areas=2000).world
    walkers = world.dynamics
    x, z = walkers.position
    assert 2.9 < np.abs(x).max() <= 3
    assert -20 <= z.min() < -19.9 and -10.1 < z.max() <= -10
    board_x, board_z = walkers.board
    assert 4.9 < np.abs(board_z).max() <= 5
    assert 2.9 < np.abs(board_x[~world.is_x]).max() <= 3
    np.testing.assert_array_equal(board_x[world.is_x], 0)
    assert 900 < world.is_x.sum() < 1100
    assert 900 < (world.o_side > 0).sum() < 1100
    assert np.ptp(walkers.heading) > 6.2
    np.testing.assert_array_equal(walkers.velocity, 0)


def test_a_decision_is_six_physics_steps_each_of_which_costs():
    table = Table()
    table.place(*FAR_AWAY)
    heading = table.world.dynamics.heading.copy()
    np.testing.assert_allclose(table.act(TURN_RIGHT).reward, 6 * STEP, rtol=1e-5)
    np.testing.assert_allclose(np.degrees(table.world.dynamics.heading - heading), 18)
    table.act(TURN_LEFT)
    np.testing.assert_allclose(table.world.dynamics.heading, heading, atol=1e-12)


def test_velocity_follows_push_drag_and_friction():
    """1.5 m/s a step, drag 2, friction twice 0.6 under twice the gravity."""
    table = Table()
    table.place(*FAR_AWAY, heading=0)
    grip = 1.2 * 2 * 9.81 * 0.02
    speed, way = 0.0, 0.0
    for _ in range(6):
        speed = (speed + 1.5) * (1 - 2 * 0.02) - grip
        way += speed * 0.02
    table.act(FORWARD)
    walkers = table.world.dynamics
    np.testing.assert_allclose(walkers.velocity[:, 0], [0, speed], atol=1e-12)
    np.testing.assert_allclose(walkers.position[:, 0], [FAR_AWAY[0], FAR_AWAY[1] + way])
    for _ in range(5):
        table.act(NOTHING)
    np.testing.assert_allclose(walkers.velocity, 0, atol=1e-12)
    table.place(*FAR_AWAY, heading=90)
    table.act(BACK)
    np.testing.assert_allclose(walkers.velocity[:, 0], [-speed, 0], atol=1e-12)


def test_gravity_follows_its_parameter_at_once():
    """What presses an agent on the ground is what slows it."""
    table = Table()
    walkers = table.world.dynamics
    table.place(*FAR_AWAY, heading=0)
    table.act(FORWARD)
    slow = walkers.velocity[1, 0]
    table.parameters.set("gravity", 9.81)
    table.place(*FAR_AWAY, heading=0)
    table.act(FORWARD)
    assert walkers.gravity == 9.81
    assert walkers.velocity[1, 0] > slow + 0.5
    assert Hallway().dynamics.gravity == pytest.approx(2 * 9.81)


@pytest.mark.parametrize(
    ("is_x", "o_side", "goal_side", "reward", "name"),
    [
        (False, 1, 1, 1, "Goal/Correct"),
        (False, 1, -1, -0.1, "Goal/Wrong"),
        (False, -1, -1, 1, "Goal/Correct"),
        (True, 1, 1, -0.1, "Goal/Wrong"),
        (True, 1, -1, 1, "Goal/Correct"),
        (True, -1, -1, -0.1, "Goal/Wrong"),
    ],
)
def test_a_goal_sets_the_reward_reports_itself_and_ends_the_episode(is_x, o_side, goal_side, reward, name):
    table = Table(areas=2)
    table.show(is_x, o_side=o_side, area=1)
    table.place(7 * goal_side, 22.29 - 2 - 0.55, area=1)
    table.place(*FAR_AWAY, area=0)
    batch = table.act([NOTHING, FORWARD])
    np.testing.assert_array_equal(batch.done, [True, False, False])
    np.testing.assert_array_equal(batch.agent_id, [1, 0, 1])
    assert not batch.interrupted.any()
    # It was reached in the second of the six steps; the rest belong to the next episode.
    np.testing.assert_allclose(batch.reward, [reward, 6 * STEP, 4 * STEP], rtol=1e-5)
    told = table.world.statistics()
    assert (name, 1, StatsAggregationMethod.SUM) in told
    zeros = [key for key, value, _ in told if value == 0]
    assert zeros == ["Goal/Correct", "Goal/Wrong"]
    assert len(told) == 3
    assert table.world.statistics() == []


def test_every_beginning_reports_two_zeros():
    world = Hallway(areas=3)
    world.reset(np.random.default_rng(0), Parameters())
    told = world.statistics()
    assert sorted(key for key, _, _ in told) == ["Goal/Correct"] * 3 + ["Goal/Wrong"] * 3
    assert all(value == 0 for _, value, _ in told)


def test_three_thousand_steps_interrupt_the_episode():
    table = Table()
    table.place(*FAR_AWAY)
    for decision in range(1, 501):
        batch = table.act()
        assert batch.done.any() == (decision == 500)
    np.testing.assert_array_equal(batch.interrupted, [True, False])
    np.testing.assert_allclose(batch.reward, [6 * STEP, 0], rtol=1e-5)
    np.testing.assert_allclose(batch.obs[1][0, -1], 1)


def test_the_clock_counts_steps_and_the_last_three_are_seen_the_oldest_first():
    table = Table()
    table.place(*FAR_AWAY)
    # A decision is made within a physics step that counts already.
    np.testing.assert_allclose(table.batch.obs[1], [[0, 0, 1 / 3000]], rtol=1e-6)
    np.testing.assert_array_equal(table.batch.obs[0][0, :70], 0)
    table.act()
    np.testing.assert_allclose(table.batch.obs[1], [[0, 1 / 3000, 7 / 3000]], rtol=1e-6)
    before = table.batch.obs[0][0, 35:]
    table.act(TURN_RIGHT)
    np.testing.assert_array_equal(table.batch.obs[0][0, :70], before)


def test_rays_tell_what_they_hit_in_which_direction_and_how_far():
    table = Table()
    table.show(False, board=(0, 0))
    table.place(0, -8)
    rays = table.rays()
    # A sphere of 0.5 m from z = -8 to the board's side at z = -0.5.
    np.testing.assert_allclose(rays[MIDDLE], [0, 0, 1, 0, 0, 0, 7 / 12], rtol=1e-5)
    sideways = 9 / np.sin(np.radians(70)) / 12
    for ray in (LAST_RIGHT, LAST_LEFT):
        np.testing.assert_allclose(rays[ray], [0, 0, 0, 0, 1, 0, sideways], rtol=1e-5)
    for ray in (FIRST_RIGHT, FIRST_LEFT):
        np.testing.assert_array_equal(rays[ray], [0, 0, 0, 0, 0, 1, 1])
    table.show(True, board=(0, 0))
    assert table.rays()[MIDDLE, X_BOARD] == 1
    table.place(0, -8, heading=35)
    rays = table.rays()
    assert rays[FIRST_LEFT, X_BOARD] == 1
    assert not rays[MIDDLE, X_BOARD]


def test_goals_are_seen_under_their_symbols_on_their_sides():
    table = Table()
    table.show(False, board=(0, -5), o_side=1)
    for x, tag in ((7, O_GOAL), (-7, X_GOAL)):
        table.place(x, 12)
        ray = table.rays()[MIDDLE]
        assert ray[tag] == 1
        # The plate's edge, 5 cm high, at z = 20.29.
        np.testing.assert_allclose(ray[DISTANCE], (20.29 - 0.218 - 12) / 12, rtol=1e-4)
    table.show(False, board=(0, -5), o_side=-1)
    table.place(7, 12)
    assert table.rays()[MIDDLE, X_GOAL] == 1


@pytest.mark.parametrize("size", ["full", "small"])
def test_no_ray_reaches_from_the_goals_back_to_the_board(size):
    """Who must choose has to remember."""
    table = Table(size=size)
    hall = table.world.hall
    for is_x in (False, True):
        table.show(is_x, board=(0, hall.far))
        seen = []
        for heading in range(0, 360, 5):
            table.place(0, hall.goal[1] - hall.goal_half - 0.75, heading)
            seen.append(table.rays())
            table.reset()
            table.show(is_x, board=(0, hall.far))
        assert not np.any(np.array(seen)[:, :, [O_BOARD, X_BOARD]])


@pytest.mark.parametrize("heading", [0, 30, 45, 90, 200, 300])
@pytest.mark.parametrize("area_of", ["full", "small"])
def test_nobody_leaves_the_hall_or_gets_into_the_board(heading, area_of):
    table = Table(areas=50, seed=heading, size=area_of)
    world, hall = table.world, table.world.hall
    world.dynamics.heading[:] = np.radians(heading)
    random = np.random.default_rng(1)
    for _ in range(60):
        table.act(random.choice([FORWARD, FORWARD, FORWARD, BACK, TURN_LEFT], 50))
        walkers = world.dynamics
        reach = np.array([[hall.half_width], [hall.half_length]]) - walkers.extent
        assert np.all(np.abs(walkers.position) <= reach)
        away = np.abs(walkers.position - walkers.board)
        assert np.all((away[0] > hall.board_half + HALF_BOX) | (away[1] > 0.5 + HALF_BOX))


def test_a_wall_stops_what_runs_into_it_and_slows_what_runs_along_it():
    table = Table()
    walkers = table.world.dynamics
    table.place(9.5 - 0.6, -10, heading=90)
    walkers.velocity[:, 0] = 10, 8
    table.act(NOTHING)
    assert walkers.velocity[0, 0] == 0
    free = Table()
    free.place(0, -20, heading=90)
    free.world.dynamics.velocity[:, 0] = 0, 8
    free.act(NOTHING)
    assert walkers.velocity[1, 0] < free.world.dynamics.velocity[1, 0]


def test_who_is_fast_does_not_get_through_the_board():
    table = Table()
    table.show(True, board=(0, 0))
    table.place(0, -4)
    table.world.dynamics.velocity[1, 0] = 36
    table.act(FORWARD)
    z = table.world.dynamics.position[1, 0]
    assert z == pytest.approx(-0.5 - HALF_BOX, abs=0.02)


@pytest.mark.parametrize("size", ["full", "small"])
def test_the_seed_decides_everything(size):
    def run(seed):
        table = Table(areas=4, seed=seed, size=size)
        random = np.random.default_rng(5)
        return np.concatenate([table.act(random.integers(0, 5, 4)).obs[0] for _ in range(40)])

    first = run(3)
    np.testing.assert_array_equal(run(3), first)
    assert np.any(run(4) != first)


def test_the_small_hall_has_the_proportions_of_the_large_one():
    small, full = Hallway(size="small").hall, Hall(20, 50)
    for name in ("spread", "board_half", "goal_half"):
        assert getattr(small, name) / small.width == pytest.approx(getattr(full, name) / full.width)
    for name in ("far", "start"):
        assert getattr(small, name) / small.length == pytest.approx(getattr(full, name) / full.length)
    assert small.goal[1] + small.goal_half < small.half_length


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "smal"}, "no size 'smal'. Did you mean 'small'"),
        ({"areas": 0}, "areas is 0"),
        ({"width": 4.0}, "no agent can pass"),
        ({"length": 10.0}, "no wider than it is long"),
        ({"max_steps": 5}, "max-steps is 5; it must be at least 6"),
        ({"sight": float("nan")}, "sight is nan"),
    ],
)
def test_options_that_make_no_world_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Hallway(**options)
