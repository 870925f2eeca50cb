"""The rules of DungeonEscape."""

import numpy as np
import pytest
from lanista.envs.scenes.worlds.dungeon_escape import BEHAVIOR, DungeonEscape
from scene_play import ScenePlay

NOTHING, FORWARD = 0, 1


class Play(ScenePlay):
    scene = DungeonEscape

    def place(self, member, where, area=0):
        self.world.bodies.pose[:2, area, member] = where

    def kill(self, member=0, area=0):
        """One agent meets the dragon; the others are elsewhere."""
        for other in range(self.world.options.agents):
            if other != member and self.world.groups.alive[area, other]:
                self.place(other, (-9 + 3 * other, -9), area)
        self.place(member, self.world.dragon[:, area], area)
        return self.act()


def test_at_full_size_everything_is_where_and_as_fast_as_in_unity():
    play = Play(areas=400)
    world = play.world
    np.testing.assert_allclose(world.portal, [11.6, -11.6])
    np.testing.assert_array_equal(np.abs(world.columns), [[4.5] * 4, [4] * 4])
    np.testing.assert_allclose(world.dragon, np.array([[0], [8]]) * np.ones(400))
    agents = world.bodies.pose[:2, :, :3]
    assert 6 < np.abs(agents).max() <= 6.25
    play.act()
    walked = np.hypot(*(world.dragon - [[0], [8]])) / 0.1
    assert 1 <= walked.min() < 1.2
    assert 6.8 < walked.max() <= 7
    np.testing.assert_array_equal(play.batch.group_id, np.repeat(np.arange(1, 401), 3))
    np.testing.assert_array_equal(play.batch.reward, 0)
    np.testing.assert_array_equal(play.batch.group_reward, 0)


def test_an_agent_that_meets_the_dragon_dies_with_it_and_leaves_the_key():
    play = Play(areas=2)
    batch = play.kill()
    np.testing.assert_array_equal(batch.done, [True] + [False] * 5)
    np.testing.assert_array_equal(batch.agent_id, [0, 1, 2, 3, 4, 5])
    assert not batch.interrupted.any()
    world = play.world
    np.testing.assert_array_equal(world.dragon_lives, [False, True])
    np.testing.assert_array_equal(world.key_lies, [True, False])
    np.testing.assert_array_equal(world.key[:, 0], world.dragon[:, 0])
    np.testing.assert_array_equal(world.groups.alive, [[False, True, True], [True] * 3])
    stays = world.dragon[:, 0].copy()
    np.testing.assert_array_equal(play.act().agent_id, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(world.dragon[:, 0], stays)


def test_a_dragon_that_arrives_ends_the_episode_unpaid():
    play = Play(areas=1, dragon_slow=7.0, dragon_fast=7.0)
    for member in range(3):
        play.place(member, (-9 + 3 * member, 0))
    way = np.hypot(11.6, 19.6)
    decisions = 1
    while not play.act().done.any():
        decisions += 1
    assert decisions == np.ceil(way / 0.7)
    np.testing.assert_array_equal(play.batch.done, [True] * 3 + [False] * 3)
    assert not play.batch.interrupted.any()
    np.testing.assert_array_equal(play.batch.group_reward, 0)
    np.testing.assert_array_equal(play.batch.agent_id, [0, 1, 2] * 2)


def test_the_door_with_the_key_pays_the_living_and_ends_the_group_episode():
    play = Play(areas=2)
    play.kill(member=0)
    world = play.world
    play.place(1, world.key[:, 0])
    batch = play.act()
    np.testing.assert_array_equal(world.has_key, [[False, True, False], [False] * 3])
    assert not world.key_lies.any()
    np.testing.assert_array_equal(batch.obs[2][:, 0], [1, 0, 0, 0, 0])
    play.place(2, (0, 12.0))
    assert not play.act().done.any()
    play.place(1, (0, 12.0))
    batch = play.act()
    np.testing.assert_array_equal(batch.done, [True] * 2 + [False] * 6)
    # The agent that died comes back under another id.
    np.testing.assert_array_equal(batch.agent_id, [1, 2, 6, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(batch.group_reward, [1, 1, 0, 0, 0, 0, 0, 0])
    assert not batch.interrupted.any()
    assert world.groups.alive.all() and world.dragon_lives.all() and not world.has_key.any()
    ((name, value, _),) = world.statistics()
    assert (name, value) == ("Environment/Group Return", 1.0)


def test_the_portal_removes_an_agent_and_the_last_one_ends_the_group_episode():
    play = Play()
    for member in (1, 2):
        play.place(member, (-9 + 3 * member, -9))
    play.place(0, play.world.portal)
    batch = play.act()
    np.testing.assert_array_equal(batch.done, [True, False, False])
    assert not batch.interrupted.any()
    play.place(1, play.world.portal)
    assert play.act().done.sum() == 1
    play.place(2, play.world.portal)
    batch = play.act()
    np.testing.assert_array_equal(batch.agent_id, [2, 3, 4, 5])
    np.testing.assert_array_equal(batch.done, [True, False, False, False])
    np.testing.assert_array_equal(batch.group_reward, 0)


def test_the_portal_with_the_key_ends_the_group_episode_unpaid():
    play = Play()
    play.kill(member=2)
    play.place(0, play.world.key[:, 0])
    play.act()
    play.place(0, play.world.portal)
    batch = play.act()
    np.testing.assert_array_equal(batch.done, [True, True, False, False, False])
    np.testing.assert_array_equal(batch.group_reward, 0)


def test_the_last_agent_that_dies_ends_the_group_episode():
    play = Play()
    for member in (0, 1):
        for other in range(member + 1, 3):
            play.place(other, (-9 + 3 * other, -9))
        play.place(member, play.world.portal)
        play.act()
    batch = play.kill(member=2)
    np.testing.assert_array_equal(batch.done, [True, False, False, False])
    assert play.world.groups.alive.all()
    assert len(play.world.statistics()) == 1


def test_two_that_meet_the_dragon_at_once_lose_only_the_first():
    play = Play()
    for member, side in ((1, -1), (2, 1)):
        play.place(member, play.world.dragon[:, 0] + [side, 0])
    batch = play.act()
    np.testing.assert_array_equal(batch.agent_id[batch.done], [1])


def test_rays_see_the_dragon_the_door_and_the_portal_by_their_tags():
    play = Play(areas=1, columns=0)
    world = play.world
    places = np.array([(0, 4.0), (0, 0), (-6, -6)])
    world.bodies.pose[:2, 0] = places.T
    world.motion_control.heading[0] = [0, 0, np.pi / 2]
    rays = world._sensors.rays(world._view(slice(None))).reshape(3, 15, 8)
    wall, agent, dragon, _, lock, portal, missed, _ = rays.transpose(2, 0, 1)
    assert dragon[0, 0] == 1
    assert agent[1, 0] == 1
    np.testing.assert_allclose(rays[1, 0, -1], (4 - 1) / 40, rtol=1e-6)
    assert not missed.any()
    assert portal[2].any()
    assert wall.any()
    # The dragon stood before the door.
    assert not lock.any()
    np.testing.assert_array_equal(rays[..., :7].sum(axis=2), 1)
    world.dragon_lives[:] = False
    assert world._sensors.rays(world._view(slice(None))).reshape(3, 15, 8)[0, 0, 4] == 1


def test_frames_are_stacked_newest_last_and_start_with_zeros():
    play = Play(areas=1)
    first = play.batch.obs[1].reshape(3, 3, 120)
    np.testing.assert_array_equal(first[:, :2], 0)
    assert first[:, 2].any()
    second = play.act(FORWARD).obs[1].reshape(3, 3, 120)
    np.testing.assert_array_equal(second[:, 1], first[:, 2])
    np.testing.assert_array_equal(second[:, 0], 0)


def test_the_vector_has_dragon_key_and_teammates_only_while_they_are_there():
    play = Play(areas=1, size="small")
    world = play.world
    world.motion_control.heading[:] = 0
    (obs,) = world._observe(np.array([0]))
    assert obs.shape[2:] == world.specs()[BEHAVIOR].observation_specs[0].shape
    half = world.bodies.half
    position = world.bodies.pose[:2, 0, 0]
    np.testing.assert_allclose(
        obs[0, 0, 7:11] * half, [*(world.door - position), *(world.portal - position)], atol=1e-5
    )
    np.testing.assert_allclose(
        obs[0, 0, 11:14] * [1, half, half], [1, *(world.dragon[:, 0] - position)], atol=1e-5
    )
    np.testing.assert_array_equal(obs[0, 0, 14:17], 0)
    np.testing.assert_array_equal(obs[0, :, 17::4], 1)
    play.place(1, (-2, -2))
    play.place(2, (2, -2))
    play.place(0, world.dragon[:, 0])
    play.act()
    seen = play.batch.obs[0][1:]
    np.testing.assert_array_equal(seen[:, 11:14], 0)
    np.testing.assert_array_equal(seen[:, 14], 1)
    np.testing.assert_array_equal(seen[:, 17::4], [[0, 1]] * 2)
    np.testing.assert_array_equal(seen[:, 18:21], 0)


@pytest.mark.parametrize(
    "options", [{"ground": 8.0, "columns": 0}, {"ground": 11.0}, {"size": "small", "agents": 8}]
)
def test_on_the_smallest_ground_no_bodies_overlap_at_the_start(options):
    world = Play(areas=50, senses="vector", **{"dragon_fast": 1.0, "dragon_slow": 1.0, **options}).world
    agents = world.bodies.pose[:2, :, : world.options.agents]
    apart = np.hypot(*(agents[:, :, :, None] - agents[:, :, None]))
    assert np.min(apart + 9 * np.eye(world.options.agents)) > 1
    assert not world._touches().any()
