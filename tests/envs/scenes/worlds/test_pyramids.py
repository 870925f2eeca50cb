"""The rules of Pyramids, its rooms, and what its agents see."""

from pathlib import Path

import numpy as np
import pytest
from lanista.envs.scenes.worlds.pyramids import BEHAVIOR, Pyramids
from lanista.envs.scenes.worlds.pyramids_dynamics import PyramidsDynamics, Rooms
from lanista.trainers.buffers.demonstrations import load_demonstrations
from scene_play import ScenePlay

DEMO = Path(__file__).parents[3] / "real" / "demos" / "ExpertPyramid.demo"

NOTHING, FORWARD, BACK, TURN_RIGHT, TURN_LEFT = range(5)
STEP = -1 / 5000
BLOCK, WALL, GOLD, SWITCH_OFF, SWITCH_ON, STONE, MISSED, DISTANCE = range(8)


class Play(ScenePlay):
    scene = Pyramids

    def place(self, x, z, heading=0.0, velocity=(0, 0), area=0):
        explorers = self.world.dynamics
        explorers.put(np.array([area]), np.array([[x], [z]]), np.radians([heading]))
        explorers.velocity[:, area] = velocity

    def arrange(self, switch=(30, 30), pyramid=(-30, 30), area=0):
        """Stones into the corner of the middle room; switch and pyramid where they are wanted."""
        world = self.world
        world.boxes[:2, area, world.stones] = 11
        world.boxes[:2, area, world.switch] = switch
        world.boxes[:2, area, world.pyramid] = world.boxes[:2, area, world.gold] = pyramid

    def build(self, area=0):
        self.world.switched[area] = self.world.stands[area] = True

    def rays(self, fan=0):
        return self.act().obs[fan][-1].reshape(7, 8)


def test_unitys_demonstration_fits_this_behavior():
    """Its shapes and actions are refused where they differ; its rays have the tags in the same order."""
    steps = load_demonstrations(DEMO, Pyramids().specs()[BEHAVIOR])
    assert len(steps) > 1700
    play = Play(areas=200)
    random = np.random.default_rng(1)
    ours = []
    for decision in range(16):
        if decision == 8:
            play.world.switched[:] = play.world.stands[:] = True
        play.act(random.choice([FORWARD, TURN_LEFT], 200))
        ours.append([obs[-200:] for obs in play.batch.obs])
    for seen in (steps.obs, [np.concatenate(each) for each in zip(*ours)]):
        switched = seen[3][:, 0] == 1
        tags = np.concatenate(seen[:3], axis=1).reshape(len(switched), 21, 8)[..., :6].any(axis=1)
        assert not tags[~switched][:, [BLOCK, GOLD, SWITCH_ON]].any()
        assert tags[~switched][:, [WALL, SWITCH_OFF, STONE]].any(axis=0).all()
        assert not tags[switched][:, SWITCH_OFF].any()
        assert tags[switched][:, [BLOCK, WALL, GOLD, SWITCH_ON, STONE]].any(axis=0).all()


def test_at_full_size_everything_is_placed_as_in_unity():
    world = Play(areas=500).world
    middles = world.rooms.middles
    assert sorted(set(middles[0])) == sorted(set(middles[1])) == [-30, 0, 30]
    things = [world.boxes[:2, :, n] for n in range(world.stones.start, world.pyramid + 1)]
    places = np.stack([world.dynamics.position, *things], axis=2)
    offsets = places[..., None] - middles[:, None, None]
    inside = np.abs(offsets).max(axis=0) <= 11.9
    np.testing.assert_array_equal(inside.sum(axis=2), 1)
    # Nine things, nine rooms.
    np.testing.assert_array_equal(inside.sum(axis=1), 1)
    assert np.abs(offsets.transpose(0, 1, 2, 3)[:, inside]).max() > 11.8
    degrees = np.degrees(world.dynamics.heading)
    np.testing.assert_allclose(degrees, np.rint(degrees))
    assert np.ptp(degrees) > 350
    assert not world.switched.any()
    assert not world.stands.any()


def test_motion_agrees_with_a_recording_from_unity():
    """Velocities in the agent's own axes at 20 decisions of Unity's own demonstration, in the open."""
    right = [-5.55, -4.31, -3.37, -2.65, -2.08, -1.64, -1.30, 8.71, 13.53, 14.32, 12.46, 9.32, 7.09, 5.47]
    right += [4.26, 9.78, 11.50, 10.56, 7.87, 5.99, 4.62]
    ahead = [20.44, 24.51, 27.81, 30.50, 32.69, 34.48, 35.93, 26.90, 17.36, 8.97, 2.66, 10.43, 16.46, 21.29]
    ahead += [25.20, 17.21, 9.79, 3.93, 11.35, 17.17, 21.85]
    # The recorded action of each decision was taken after its velocity was seen.
    actions = [1, 1, 1, 1, 1, 1, 4, 4, 4, 4, 1, 1, 1, 1, 4, 4, 4, 1, 1, 1]
    explorers = PyramidsDynamics(1, 2.0)
    explorers.velocity[:, 0] = right[0], ahead[0]
    free = np.zeros((4, 1, 1)), np.zeros((1, 1), np.bool_)
    for number, action in enumerate(actions, start=1):
        explorers.command(np.array([action], np.int32))
        for _ in range(5):
            explorers.step(*free)
        sine, cosine = np.sin(explorers.heading[0]), np.cos(explorers.heading[0])
        x, z = explorers.velocity[:, 0]
        assert x * cosine - z * sine == pytest.approx(right[number], abs=0.08), number
        assert x * sine + z * cosine == pytest.approx(ahead[number], abs=0.08), number


@pytest.mark.parametrize(
    ("action", "ahead", "degrees"), [(FORWARD, 1, 0), (BACK, -1, 0), (TURN_RIGHT, 0, 20), (TURN_LEFT, 0, -20)]
)
def test_actions_move_an_agent_along_its_heading_or_turn_it(action, ahead, degrees):
    play = Play()
    play.arrange()
    play.place(0, 0)
    play.act(action)
    np.testing.assert_array_equal(np.sign(play.world.dynamics.velocity[:, 0]), [0, ahead])
    np.testing.assert_allclose(np.degrees(play.world.dynamics.heading), degrees)


def test_the_switch_builds_the_pyramid_once_and_pays_nothing():
    play = Play()
    play.arrange(switch=(0, 5), pyramid=(0, -30))
    play.place(0, 0)
    before = play.act(FORWARD)
    assert before.obs[3][0, 0] == 0
    rewards = [play.act(FORWARD).reward[0] for _ in range(4)]
    assert play.world.switched[0]
    assert play.world.stands[0]
    assert play.batch.obs[3][0, 0] == 1
    np.testing.assert_allclose(rewards, 5 * STEP, rtol=1e-5)
    play.world.stands[0] = False
    play.act(FORWARD)
    assert not play.world.stands[0]


def test_a_pyramid_falls_only_when_run_into_and_the_gold_brick_ends_the_episode():
    play = Play()
    world = play.world
    play.arrange(pyramid=(0, 5))
    play.build()
    play.place(0, 5 - 1.5 - 0.6, velocity=(0, 4.5))
    play.act()
    assert world.stands[0]
    play.place(0, 0)
    for _ in range(3):
        batch = play.act(FORWARD)
    assert not world.stands[0]
    x, z = world.boxes[:2, 0, world.gold]
    assert (x, z) == pytest.approx((0, 6.5))
    while not batch.done.any():
        batch = play.act(FORWARD)
    np.testing.assert_array_equal(batch.done, [True, False])
    assert not batch.interrupted.any()
    assert batch.reward[0] == 2
    assert not world.switched[0]


def test_the_gold_cannot_be_reached_on_a_pyramid_that_stands_or_is_not_there():
    play = Play()
    play.arrange(pyramid=(0, 5))
    for velocity in ((0, 0), (0, 4.0)):
        play.place(0, 5, velocity=velocity)
        assert not play.act().done.any()
    play.build()
    play.place(0, 3)
    assert not play.act(NOTHING).done.any()


def test_steps_cost_and_their_limit_interrupts():
    play = Play(max_steps=50)
    for decision in range(1, 11):
        batch = play.act(TURN_LEFT)
        assert batch.done.any() == (decision == 10)
    np.testing.assert_array_equal(batch.interrupted, [True, False])
    np.testing.assert_allclose(batch.reward, [-0.1, 0], rtol=1e-5)


def test_rays_report_what_they_hit_in_which_direction_and_how_far():
    play = Play()
    play.arrange(switch=(0, 8), pyramid=(-9, 0))
    play.place(0, 0)
    middle = play.rays()[0]
    np.testing.assert_allclose(middle, [0, 0, 0, 1, 0, 0, 0, (8 - 0.75 - 0.5) / 35], rtol=1e-5)
    play.build()
    assert play.rays()[0, SWITCH_ON] == 1
    play.place(0, 0, heading=-90)
    np.testing.assert_allclose(play.rays()[0, [BLOCK, DISTANCE]], [1, (9 - 1.5 - 0.5) / 35], rtol=1e-5)
    play.place(0, 0, heading=135)
    rays = play.rays()
    assert rays[0, WALL] == 1
    np.testing.assert_allclose(rays[0, DISTANCE], (12.5 - 5 - 0 + 4.5) * np.sqrt(2) / 35, rtol=0.1)


def test_rising_rays_pass_over_what_is_low_and_see_the_gold_on_the_pyramid():
    play = Play()
    play.arrange(pyramid=(0, 11.5))
    play.build()
    play.place(0, -5)
    level, middle, steep = (play.rays(fan)[0] for fan in range(3))
    assert level[BLOCK] == 1
    assert middle[BLOCK] == 1
    # At 16 m the steepest ray is higher than a pyramid, but not higher than the brick on it.
    assert steep[GOLD] == 1
    play.place(0, 0)
    assert play.rays(2)[0, BLOCK] == 1
    play.world.stands[0] = False
    play.place(0, -5)
    assert play.rays(2)[0, GOLD] == 0


def test_the_own_velocity_is_seen_in_the_own_axes():
    play = Play()
    play.arrange()
    play.place(0, 0, heading=90, velocity=(20, 5))
    switched, right, up, ahead = play.act().obs[3][0]
    assert (switched, up) == (0, 0)
    assert 13 < ahead < 18
    assert -5 < right < -3


@pytest.mark.parametrize("size", ["full", "small"])
def test_agents_never_overlap_with_boxes_or_walls(size):
    play = Play(areas=40, seed=1, size=size)
    world, random = play.world, np.random.default_rng(2)
    solid = np.arange(world.gold)
    for _ in range(150):
        play.act(random.choice([FORWARD, FORWARD, FORWARD, BACK, TURN_LEFT, TURN_RIGHT], 40))
        room = world.dynamics.reach(world.boxes)[:, solid]
        room[:, world.pyramid][~world.stands] = 1
        there = np.ones_like(room, np.bool_)
        there[:, world.pyramid] = world.stands
        assert room[there].min() > -0.05
        assert np.abs(world.dynamics.position).max() <= world.rooms.half - 0.45


def test_rooms_are_joined_by_doorways_alone():
    rooms = Rooms(count=3, room=25, wall=5, door=10)
    assert rooms.half == 42.5
    x, z, wide, deep = rooms.walls
    # Along the middle of the wall between two columns of rooms.
    line = np.linspace(-42.45, 42.45, 850)
    inside = (np.abs(15 - x)[:, None] < wide[:, None]) & (np.abs(line - z[:, None]) < deep[:, None])
    open_ = ~inside.any(axis=0)
    np.testing.assert_array_equal(open_, np.abs((line + 15) % 30 - 15) < 5)


def test_random_actions_hardly_ever_find_the_gold():
    play = Play(areas=128, size="small")
    random, found, ended = np.random.default_rng(0), 0, 0
    for _ in range(600):
        batch = play.act(random.integers(0, 5, 128))
        found += int((batch.done & ~batch.interrupted).sum())
        ended += int(batch.done.sum())
    assert ended >= 256
    assert found < 0.02 * ended
