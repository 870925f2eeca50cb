"""The rules of Hallway, its hall, and what its agents see."""

import numpy as np
import pytest
from lanista.envs.base import StatsAggregationMethod
from lanista.envs.scenes.worlds.hallway import HALF_BOX, Hall, Hallway
from scene_play import ScenePlay

NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT = range(5)
STEP = -1 / 3000
O_GOAL, X_GOAL, O_BOARD, X_BOARD, WALL, MISSED, DISTANCE = range(7)
MIDDLE, FIRST_RIGHT, FIRST_LEFT, LAST_RIGHT, LAST_LEFT = range(5)
FAR_AWAY = 3.0, -20.0


class Play(ScenePlay):
    scene = Hallway

    def reset(self):
        super().reset()
        self.world.statistics()

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


def test_at_full_size_everything_is_where_and_as_large_as_in_unity():
    hall = Hallway().hall
    assert (hall.width, hall.length) == (20, 50)
    assert (hall.half_width, hall.half_length) == (9.5, 24.75)
    assert hall.goal == pytest.approx((7, 22.29))
    assert (hall.goal_half, hall.board_half) == (2, 2)


def test_at_full_size_episodes_start_as_in_unity():
    world = Play(areas=2000).world
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
    play = Play()
    play.place(*FAR_AWAY)
    heading = play.world.dynamics.heading.copy()
    np.testing.assert_allclose(play.act(TURN_RIGHT).reward, 6 * STEP, rtol=1e-5)
    np.testing.assert_allclose(np.degrees(play.world.dynamics.heading - heading), 18)
    play.act(TURN_LEFT)
    np.testing.assert_allclose(play.world.dynamics.heading, heading, atol=1e-12)


def test_velocity_follows_push_drag_and_friction():
    """1.5 m/s a step, drag 2, friction twice 0.6 under twice the gravity."""
    play = Play()
    play.place(*FAR_AWAY, heading=0)
    grip = 1.2 * 2 * 9.81 * 0.02
    speed, way = 0.0, 0.0
    for _ in range(6):
        speed = (speed + 1.5) * (1 - 2 * 0.02) - grip
        way += speed * 0.02
    play.act(FORWARD)
    walkers = play.world.dynamics
    np.testing.assert_allclose(walkers.velocity[:, 0], [0, speed], atol=1e-12)
    np.testing.assert_allclose(walkers.position[:, 0], [FAR_AWAY[0], FAR_AWAY[1] + way])
    for _ in range(5):
        play.act(NOTHING)
    np.testing.assert_allclose(walkers.velocity, 0, atol=1e-12)
    play.place(*FAR_AWAY, heading=90)
    play.act(BACK)
    np.testing.assert_allclose(walkers.velocity[:, 0], [-speed, 0], atol=1e-12)


def test_gravity_follows_its_parameter_at_once():
    """What presses an agent on the ground is what slows it."""
    play = Play()
    walkers = play.world.dynamics
    play.place(*FAR_AWAY, heading=0)
    play.act(FORWARD)
    slow = walkers.velocity[1, 0]
    play.parameters.set("gravity", 9.81)
    play.place(*FAR_AWAY, heading=0)
    play.act(FORWARD)
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
    play = Play(areas=2)
    play.show(is_x, o_side=o_side, area=1)
    play.place(7 * goal_side, 22.29 - 2 - 0.55, area=1)
    play.place(*FAR_AWAY, area=0)
    batch = play.act([NOTHING, FORWARD])
    np.testing.assert_array_equal(batch.done, [True, False, False])
    np.testing.assert_array_equal(batch.agent_id, [1, 0, 1])
    assert not batch.interrupted.any()
    # It was reached in the second of the six steps; the rest belong to the next episode.
    np.testing.assert_allclose(batch.reward, [reward, 6 * STEP, 4 * STEP], rtol=1e-5)
    told = play.world.statistics()
    assert (name, 1, StatsAggregationMethod.SUM) in told
    zeros = [key for key, value, _ in told if value == 0]
    assert zeros == ["Goal/Correct", "Goal/Wrong"]
    assert len(told) == 3
    assert play.world.statistics() == []


def test_at_the_limit_of_steps_the_clock_has_run_out():
    play = Play(max_steps=6)
    play.place(*FAR_AWAY)
    batch = play.act()
    np.testing.assert_allclose(batch.reward, [-1, 0], rtol=1e-5)
    np.testing.assert_allclose(batch.obs[1][0, -1], 1)


def test_the_clock_counts_steps_and_the_last_three_are_seen_the_oldest_first():
    play = Play()
    play.place(*FAR_AWAY)
    # A decision is made within a physics step that counts already.
    np.testing.assert_allclose(play.batch.obs[1], [[0, 0, 1 / 3000]], rtol=1e-6)
    np.testing.assert_array_equal(play.batch.obs[0][0, :70], 0)
    play.act()
    np.testing.assert_allclose(play.batch.obs[1], [[0, 1 / 3000, 7 / 3000]], rtol=1e-6)
    before = play.batch.obs[0][0, 35:]
    play.act(TURN_RIGHT)
    np.testing.assert_array_equal(play.batch.obs[0][0, :70], before)


def test_rays_report_what_they_hit_in_which_direction_and_how_far():
    play = Play()
    play.show(False, board=(0, 0))
    play.place(0, -8)
    rays = play.rays()
    # A sphere of 0.5 m from z = -8 to the board's side at z = -0.5.
    np.testing.assert_allclose(rays[MIDDLE], [0, 0, 1, 0, 0, 0, 7 / 12], rtol=1e-5)
    sideways = 9 / np.sin(np.radians(70)) / 12
    for ray in (LAST_RIGHT, LAST_LEFT):
        np.testing.assert_allclose(rays[ray], [0, 0, 0, 0, 1, 0, sideways], rtol=1e-5)
    for ray in (FIRST_RIGHT, FIRST_LEFT):
        np.testing.assert_array_equal(rays[ray], [0, 0, 0, 0, 0, 1, 1])
    play.show(True, board=(0, 0))
    assert play.rays()[MIDDLE, X_BOARD] == 1
    play.place(0, -8, heading=35)
    rays = play.rays()
    assert rays[FIRST_LEFT, X_BOARD] == 1
    assert not rays[MIDDLE, X_BOARD]


def test_goals_are_seen_under_their_symbols_on_their_sides():
    play = Play()
    play.show(False, board=(0, -5), o_side=1)
    for x, tag in ((7, O_GOAL), (-7, X_GOAL)):
        play.place(x, 12)
        ray = play.rays()[MIDDLE]
        assert ray[tag] == 1
        # The plate's edge, 5 cm high, at z = 20.29.
        np.testing.assert_allclose(ray[DISTANCE], (20.29 - 0.218 - 12) / 12, rtol=1e-4)
    play.show(False, board=(0, -5), o_side=-1)
    play.place(7, 12)
    assert play.rays()[MIDDLE, X_GOAL] == 1


@pytest.mark.parametrize("size", ["full", "small"])
def test_no_ray_reaches_from_the_goals_back_to_the_board(size):
    """The choice takes memory."""
    play = Play(size=size)
    hall = play.world.hall
    for is_x in (False, True):
        play.show(is_x, board=(0, hall.far))
        seen = []
        for heading in range(0, 360, 5):
            play.place(0, hall.goal[1] - hall.goal_half - 0.75, heading)
            seen.append(play.rays())
            play.reset()
            play.show(is_x, board=(0, hall.far))
        assert not np.any(np.array(seen)[:, :, [O_BOARD, X_BOARD]])


@pytest.mark.parametrize("heading", [0, 30, 45, 90, 200, 300])
@pytest.mark.parametrize("area_of", ["full", "small"])
def test_agents_never_leave_the_hall_or_overlap_with_the_board(heading, area_of):
    play = Play(areas=50, seed=heading, size=area_of)
    world, hall = play.world, play.world.hall
    world.dynamics.heading[:] = np.radians(heading)
    random = np.random.default_rng(1)
    for _ in range(60):
        play.act(random.choice([FORWARD, FORWARD, FORWARD, BACK, TURN_LEFT], 50))
        walkers = world.dynamics
        reach = np.array([[hall.half_width], [hall.half_length]]) - walkers.extent
        assert np.all(np.abs(walkers.position) <= reach)
        away = np.abs(walkers.position - walkers.board)
        assert np.all((away[0] > hall.board_half + HALF_BOX) | (away[1] > 0.5 + HALF_BOX))


def test_a_wall_stops_what_runs_into_it_and_slows_what_runs_along_it():
    play = Play()
    walkers = play.world.dynamics
    play.place(9.5 - 0.6, -10, heading=90)
    walkers.velocity[:, 0] = 10, 8
    play.act(NOTHING)
    assert walkers.velocity[0, 0] == 0
    free = Play()
    free.place(0, -20, heading=90)
    free.world.dynamics.velocity[:, 0] = 0, 8
    free.act(NOTHING)
    assert walkers.velocity[1, 0] < free.world.dynamics.velocity[1, 0]


def test_a_fast_agent_does_not_pass_through_the_board():
    play = Play()
    play.show(True, board=(0, 0))
    play.place(0, -4)
    play.world.dynamics.velocity[1, 0] = 36
    play.act(FORWARD)
    z = play.world.dynamics.position[1, 0]
    assert z == pytest.approx(-0.5 - HALF_BOX, abs=0.02)


def test_the_small_hall_has_the_proportions_of_the_large_one():
    small, full = Hallway(size="small").hall, Hall(20, 50)
    for name in ("spread", "board_half", "goal_half"):
        assert getattr(small, name) / small.width == pytest.approx(getattr(full, name) / full.width)
    for name in ("far", "start"):
        assert getattr(small, name) / small.length == pytest.approx(getattr(full, name) / full.length)
    assert small.goal[1] + small.goal_half < small.half_length
