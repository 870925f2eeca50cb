"""The rules of WallJump."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.wall_jump import BIG, SMALL, WallJump
from lanista.envs.scenes.worlds.wall_jump_dynamics import WallJumpDynamics
from scene_play import ScenePlay

STILL, FORWARD, BACK, JUMP = (0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0), (0, 0, 0, 1)
STEP = -0.0005
FAR = np.array([[8.0], [-8.0]])


class Play(ScenePlay):
    scene = WallJump

    def told(self):
        """The rows of the agents whose episodes ended: behavior, agent, reward, interrupted."""
        return [
            (name, int(batch.agent_id[row]), float(batch.reward[row]), bool(batch.interrupted[row]))
            for name, batch in self.batches.items()
            for row in np.flatnonzero(batch.done)
        ]


def at(*place, wall=0.0, block=FAR):
    """A yard with one agent at x, z, at rest."""
    yard = WallJumpDynamics(1)
    yard.put(np.array([0]), np.array(place, float).reshape(2, 1), np.asarray(block, float), np.array([wall]))
    return yard


def run(yard, steps, direction=(0, 0), speed=3.0, jump=False):
    for _ in range(steps):
        yard.run(np.array(direction, float).reshape(2, 1), speed, np.array([jump]))
        yard.step()


def test_at_full_size_everything_is_as_large_and_as_long_as_in_unity():
    play = Play(areas=600)
    world = play.world
    x, z = world.dynamics.position[0], world.dynamics.position[2]
    assert (z == -12).all() and 8.5 < np.abs(x).max() <= 9
    block_x, block_z = world.dynamics.block
    assert 8 < np.abs(block_x).max() <= 8.1
    assert 6.8 < np.ptp(block_z) <= 7
    assert block_z.max() + 1.5 < -0.75
    assert world.far - world.near == 20


def test_one_wall_in_five_is_not_there_one_is_small_and_three_are_big():
    play = Play(areas=5000)
    walls, behavior = play.world.dynamics.wall, play.world.agents.behavior
    shares = [np.mean(walls == height) for height in (0, 2, 4)]
    np.testing.assert_allclose(shares, [0.2, 0.2, 0.6], atol=0.03)
    np.testing.assert_array_equal(behavior == 1, walls == 4)
    for number, name in enumerate((SMALL, BIG)):
        np.testing.assert_array_equal(play.batches[name].agent_id, np.flatnonzero(behavior == number))


def test_the_trainer_sets_the_walls():
    heights = {"no_wall_height": 1.0, "small_wall_height": 5.0, "big_wall_height": 7.0}
    play = Play(areas=200, parameters=heights)
    assert set(play.world.dynamics.wall) == {0.5, 2.5, 3.5}


def test_an_agent_ends_under_its_old_behavior_and_asks_under_the_new_one():
    play = Play(areas=300, seed=3)
    before = play.world.agents.behavior.copy()
    play.world._age[:] = play.world.options.max_steps - 5
    batches = play.act()
    after = play.world.agents.behavior
    assert np.any(before != after)
    for number, name in enumerate((SMALL, BIG)):
        batch = batches[name]
        np.testing.assert_array_equal(batch.agent_id[batch.done], np.flatnonzero(before == number))
        assert batch.interrupted[batch.done].all()
        np.testing.assert_array_equal(batch.agent_id[~batch.done], np.flatnonzero(after == number))
        np.testing.assert_allclose(batch.reward[batch.done], 5 * STEP, rtol=1e-5)
        np.testing.assert_array_equal(batch.reward[~batch.done], 0)
    play.act(FORWARD)
    assert (np.hypot(*play.world.dynamics.velocity[::2]) > 1).all()


@pytest.mark.parametrize(
    ("action", "way", "degrees"),
    [
        (FORWARD, (1, 0), 0),
        (BACK, (-1, 0), 0),
        ((0, 0, 1, 0), (0, 1), 0),
        ((1, 0, 2, 0), (0, -1), 0),  # a step to the side replaces the one forward
        ((0, 1, 0, 0), (0, 0), -30),
        ((0, 2, 0, 0), (0, 0), 30),
    ],
)
def test_actions_move_an_agent_in_its_own_axes_and_turn_it(action, way, degrees):
    play = Play()
    play.world.heading[:] = np.pi / 2
    play.act(action)
    velocity = play.world.dynamics.velocity[::2, 0]
    np.testing.assert_array_equal(np.sign(velocity.round(9)), way)
    np.testing.assert_allclose(np.degrees(play.world.heading), 90 + degrees)


@pytest.mark.parametrize("who", ["agent", "block"])
def test_off_the_platform_costs_one_in_place_of_all_else(who):
    play = Play(seed=2)
    place = play.world.dynamics.position[::2] if who == "agent" else play.world.dynamics.block
    place[0, 0] = 10.1
    name = (SMALL, BIG)[play.world.agents.behavior[0]]
    play.act()
    assert play.told() == [(name, 0, -1.0, False)]


def test_standing_in_the_goal_pays_one_in_place_of_all_else_and_flying_over_it_nothing():
    play = Play(seed=2)
    world = play.world
    world.dynamics.position[:, 0] = 0, 6, world.goal_middle
    play.act()
    assert not play.told()
    for _ in range(6):
        play.act()
        if play.told():
            break
    ((_, agent, reward, interrupted),) = play.told()
    assert (agent, reward, interrupted) == (0, 1.0, False)


def test_a_jump_is_as_high_as_in_unity():
    yard, tops = at(0, -5), []
    run(yard, 1, jump=True)
    for _ in range(30):
        run(yard, 1)
        tops.append(yard.position[1, 0] - 0.5)
    assert 2.2 < max(tops) <= 2.75
    assert tops[-1] == 0


@pytest.mark.parametrize(
    ("wall", "start", "speed", "block", "clears"),
    [(2.0, -3, 1.0, FAR, True), (4.0, -3, 1.0, FAR, False), (4.0, -5, 0.5, [[0.0], [-2.25]], True)],
    ids=["small", "big", "big, from the block"],
)
def test_which_walls_a_jump_clears(wall, start, speed, block, clears):
    yard = at(0, start, wall=wall, block=block)
    farthest = start
    for _ in range(200):
        run(yard, 1, direction=(0, 1), speed=speed, jump=True)
        farthest = max(farthest, yard.position[2, 0])
    assert (farthest > 1.25) == clears


def test_agents_fall_fast_and_stop_on_what_is_below():
    yard = at(0, -5, block=[[0.0], [-5.0]])
    yard.position[1] = 6
    run(yard, 1)
    assert yard.velocity[1, 0] == pytest.approx(-(111 + 9.81 * 2.75) * 0.02 * 0.96)
    run(yard, 20)
    assert yard.position[1, 0] == pytest.approx(2.5)
    assert yard.near_ground()[0]


def test_an_agent_pushes_its_block_until_the_wall_holds_it():
    yard = at(0, -8, wall=2.0, block=[[0.0], [-5.0]])
    run(yard, 30, direction=(0, 1), speed=0.6)
    assert -5 < yard.block[1, 0] <= -2.25
    run(yard, 100, direction=(0, 1), speed=0.6)
    assert yard.block[1, 0] == pytest.approx(-2.25)
    assert yard.position[2, 0] == pytest.approx(-4.25)
    open_yard = at(0, -8, block=[[0.0], [-5.0]])
    run(open_yard, 130, direction=(0, 1), speed=0.6)
    assert open_yard.block[1, 0] > 0


def test_an_agent_runs_at_half_the_speed_in_the_air():
    ground, air = at(0, -5), at(0, -5)
    air.position[1] = 5
    for yard in (ground, air):
        run(yard, 1, direction=(1, 0), speed=3.0)
    grip = 0.6 * 9.81 * 2.75 * 0.02
    assert ground.velocity[0, 0] == pytest.approx(3 * 0.96 - grip)
    assert air.velocity[0, 0] == pytest.approx(1.5 * 0.96)


def test_the_upper_rays_see_only_what_is_high():
    play = Play()
    world = play.world
    world.heading[:] = 0
    world.dynamics.position[:, 0] = 0, 0.5, -5
    world.dynamics.block[:, 0] = 6, -5

    def middle_and_right(wall):
        world.dynamics.wall[:] = wall
        upper, level = world._sensors.observe(world._view(np.array([0])), "rays")[:2]
        return upper.reshape(7, 5)[[0, 5]], level.reshape(7, 5)[[0, 5]]

    upper, level = middle_and_right(4.0)
    np.testing.assert_allclose(upper[0], [1, 0, 0, 0, 3.75 / 20], atol=1e-6)
    np.testing.assert_allclose(level[0], [1, 0, 0, 0, 3.75 / 20], atol=1e-6)
    np.testing.assert_allclose(level[1], [0, 0, 1, 0, 4 / 20], atol=1e-6)
    np.testing.assert_array_equal(upper[1], [0, 0, 0, 1, 1])
    upper, level = middle_and_right(2.0)
    np.testing.assert_array_equal(upper[0], [0, 0, 0, 1, 1])
    assert level[0, 0] == 1
    upper, level = middle_and_right(0.0)
    assert level[0, 1] == 1


def test_the_place_relative_to_the_platforms_center_is_stacked_for_six_decisions():
    play = Play()
    world = play.world
    for _ in range(7):
        batches = play.act()
    (batch,) = [batch for batch in batches.values() if len(batch.agent_id)]
    assert batch.reward[0] == pytest.approx(5 * STEP)
    place = batch.obs[2].reshape(6, 4)
    np.testing.assert_allclose(place[:, 1:], [[0.5 / 20, (-12 + 4) / 20, 1]] * 6, atol=1e-6)
    np.testing.assert_allclose(place[:, 0], world.dynamics.position[0, 0] / 20, atol=1e-6)
