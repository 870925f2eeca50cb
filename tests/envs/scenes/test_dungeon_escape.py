"""The rules of DungeonEscape."""

import numpy as np
import pytest
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.dungeon_escape.scene import BEHAVIOR, DungeonEscape

NOTHING, FORWARD = 0, 1


class Table:
    """A dungeon on a table: acts, and keeps the last batch."""

    def __init__(self, areas=1, seed=0, **options):
        self.world = DungeonEscape(areas=areas, **options)
        self.random = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.batch = self.world.reset(self.random, Parameters())[BEHAVIOR]

    def act(self, chosen=NOTHING):
        count = int((~self.batch.done).sum())
        discrete = np.broadcast_to(np.int32(chosen).reshape(-1, 1), (count, 1))
        self.batch = self.world.step({BEHAVIOR: (np.zeros((count, 0), np.float32), discrete)})[BEHAVIOR]
        return self.batch

    def place(self, member, where, area=0):
        self.world.bodies.pose[:2, area, member] = where

    def kill(self, member=0, area=0):
        """One agent meets the dragon; the others are elsewhere."""
        for other in range(self.world.options.agents):
            if other != member and self.world.groups.alive[area, other]:
                self.place(other, (-9 + 3 * other, -9), area)
        self.place(member, self.world.dragon[:, area], area)
        return self.act()


def test_at_full_size_the_sensors_and_actions_are_unitys():
    (name,), (spec,) = zip(*DungeonEscape().specs().items())
    assert name == "DungeonEscape?team=0"
    assert [obs.shape for obs in spec.observation_specs] == [(10,), (360,), (1,)]
    names = [obs.name for obs in spec.observation_specs]
    assert names == sorted(names)
    assert spec.action_spec.discrete_branches == (7,)
    assert spec.action_spec.continuous_size == 0


def test_at_full_size_everything_is_where_and_as_fast_as_in_unity():
    table = Table(areas=400)
    world = table.world
    assert DungeonEscape().areas == 12
    assert world.options.agents == 3
    assert world.options.max_steps == 15000
    assert world.options.ground == 25
    np.testing.assert_allclose(world.portal, [11.6, -11.6])
    np.testing.assert_array_equal(np.abs(world.columns), [[4.5] * 4, [4] * 4])
    np.testing.assert_allclose(world.dragon, np.array([[0], [8]]) * np.ones(400))
    agents = world.bodies.pose[:2, :, :3]
    assert 6 < np.abs(agents).max() <= 6.25
    table.act()
    walked = np.hypot(*(world.dragon - [[0], [8]])) / 0.1
    assert 1 <= walked.min() < 1.2
    assert 6.8 < walked.max() <= 7
    np.testing.assert_array_equal(table.batch.group_id, np.repeat(np.arange(1, 401), 3))
    np.testing.assert_array_equal(table.batch.reward, 0)
    np.testing.assert_array_equal(table.batch.group_reward, 0)


def test_at_full_size_agents_are_as_strong_and_as_heavy_as_in_unity():
    world = Table().world
    bodies = world.bodies
    np.testing.assert_allclose(bodies._inverse_mass.reshape(3, -1)[:2], [[0.1] * 3 + [0] * 4] * 2)
    np.testing.assert_allclose((1 - bodies._keep[:2, 0, :3]) / 0.02, 4)
    assert bodies._grip == pytest.approx(0.6 * 1.5 * 9.81 * 0.02)
    world.motion_control.command(np.arange(3), np.full(3, FORWARD))
    np.testing.assert_allclose(np.hypot(*world.motion_control.push), 3.0)


def test_an_agent_that_meets_the_dragon_dies_with_it_and_leaves_the_key():
    table = Table(areas=2)
    batch = table.kill()
    np.testing.assert_array_equal(batch.done, [True] + [False] * 5)
    np.testing.assert_array_equal(batch.agent_id, [0, 1, 2, 3, 4, 5])
    assert not batch.interrupted.any()
    world = table.world
    np.testing.assert_array_equal(world.dragon_lives, [False, True])
    np.testing.assert_array_equal(world.key_lies, [True, False])
    np.testing.assert_array_equal(world.key[:, 0], world.dragon[:, 0])
    np.testing.assert_array_equal(world.groups.alive, [[False, True, True], [True] * 3])
    stays = world.dragon[:, 0].copy()
    np.testing.assert_array_equal(table.act().agent_id, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(world.dragon[:, 0], stays)


def test_a_dragon_that_arrives_ends_the_episode_unpaid():
    table = Table(areas=1, dragon_slow=7.0, dragon_fast=7.0)
    for member in range(3):
        table.place(member, (-9 + 3 * member, 0))
    way = np.hypot(11.6, 19.6)
    decisions = 1
    while not table.act().done.any():
        decisions += 1
    assert decisions == np.ceil(way / 0.7)
    np.testing.assert_array_equal(table.batch.done, [True] * 3 + [False] * 3)
    assert not table.batch.interrupted.any()
    np.testing.assert_array_equal(table.batch.group_reward, 0)
    np.testing.assert_array_equal(table.batch.agent_id, [0, 1, 2] * 2)


def test_the_door_with_the_key_pays_the_living_and_ends_the_group_episode():
    table = Table(areas=2)
    table.kill(member=0)
    world = table.world
    table.place(1, world.key[:, 0])
    batch = table.act()
    np.testing.assert_array_equal(world.has_key, [[False, True, False], [False] * 3])
    assert not world.key_lies.any()
    np.testing.assert_array_equal(batch.obs[2][:, 0], [1, 0, 0, 0, 0])
    table.place(2, (0, 12.0))
    assert not table.act().done.any()
    table.place(1, (0, 12.0))
    batch = table.act()
    np.testing.assert_array_equal(batch.done, [True] * 2 + [False] * 6)
    # Who died comes back under another id.
    np.testing.assert_array_equal(batch.agent_id, [1, 2, 6, 1, 2, 3, 4, 5])
    np.testing.assert_array_equal(batch.group_reward, [1, 1, 0, 0, 0, 0, 0, 0])
    assert not batch.interrupted.any()
    assert world.groups.alive.all() and world.dragon_lives.all() and not world.has_key.any()
    ((name, value, _),) = world.statistics()
    assert (name, value) == ("Environment/Group Return", 1.0)


def test_who_takes_the_portal_is_out_and_the_last_one_ends_the_group_episode():
    table = Table()
    for member in (1, 2):
        table.place(member, (-9 + 3 * member, -9))
    table.place(0, table.world.portal)
    batch = table.act()
    np.testing.assert_array_equal(batch.done, [True, False, False])
    assert not batch.interrupted.any()
    table.place(1, table.world.portal)
    assert table.act().done.sum() == 1
    table.place(2, table.world.portal)
    batch = table.act()
    np.testing.assert_array_equal(batch.agent_id, [2, 3, 4, 5])
    np.testing.assert_array_equal(batch.done, [True, False, False, False])
    np.testing.assert_array_equal(batch.group_reward, 0)


def test_the_portal_with_the_key_ends_the_group_episode_unpaid():
    table = Table()
    table.kill(member=2)
    table.place(0, table.world.key[:, 0])
    table.act()
    table.place(0, table.world.portal)
    batch = table.act()
    np.testing.assert_array_equal(batch.done, [True, True, False, False, False])
    np.testing.assert_array_equal(batch.group_reward, 0)


def test_the_last_agent_that_dies_ends_the_group_episode():
    table = Table()
    for member in (0, 1):
        for other in range(member + 1, 3):
            table.place(other, (-9 + 3 * other, -9))
        table.place(member, table.world.portal)
        table.act()
    batch = table.kill(member=2)
    np.testing.assert_array_equal(batch.done, [True, False, False, False])
    assert table.world.groups.alive.all()
    assert len(table.world.statistics()) == 1


def test_two_that_meet_the_dragon_at_once_lose_only_the_first():
    table = Table()
    for member, side in ((1, -1), (2, 1)):
        table.place(member, table.world.dragon[:, 0] + [side, 0])
    batch = table.act()
    np.testing.assert_array_equal(batch.agent_id[batch.done], [1])


def test_fifteen_thousand_steps_interrupt_the_group_episode():
    table = Table(areas=1)
    table.kill()
    for decision in range(2, 3001):
        batch = table.act()
        assert batch.done.any() == (decision == 3000)
    np.testing.assert_array_equal(batch.done, [True] * 2 + [False] * 3)
    np.testing.assert_array_equal(batch.interrupted, batch.done)
    np.testing.assert_array_equal(batch.group_reward, 0)


def test_rays_see_the_dragon_the_door_and_the_portal_by_their_tags():
    table = Table(areas=1, columns=0)
    world = table.world
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


def test_frames_are_stacked_the_newest_last_and_begin_with_zeros():
    table = Table(areas=1)
    first = table.batch.obs[1].reshape(3, 3, 120)
    np.testing.assert_array_equal(first[:, :2], 0)
    assert first[:, 2].any()
    second = table.act(FORWARD).obs[1].reshape(3, 3, 120)
    np.testing.assert_array_equal(second[:, 1], first[:, 2])
    np.testing.assert_array_equal(second[:, 0], 0)


def test_vector_tells_of_dragon_key_and_mates_only_what_is_there():
    table = Table(areas=1, size="small")
    world = table.world
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
    table.place(1, (-2, -2))
    table.place(2, (2, -2))
    table.place(0, world.dragon[:, 0])
    table.act()
    seen = table.batch.obs[0][1:]
    np.testing.assert_array_equal(seen[:, 11:14], 0)
    np.testing.assert_array_equal(seen[:, 14], 1)
    np.testing.assert_array_equal(seen[:, 17::4], [[0, 1]] * 2)
    np.testing.assert_array_equal(seen[:, 18:21], 0)


@pytest.mark.parametrize("size", ["full", "small"])
def test_the_seed_decides_everything(size):
    def run(seed):
        table = Table(areas=3, seed=seed, size=size)
        random = np.random.default_rng(5)
        batches = [table.act(random.integers(0, 7, int((~table.batch.done).sum()))) for _ in range(200)]
        return np.concatenate([batch.obs[0] for batch in batches])

    np.testing.assert_array_equal(run(3), run(3))
    other = run(4)
    assert other.shape != run(3).shape or np.any(run(3) != other)


@pytest.mark.parametrize("size", ["full", "small"])
def test_random_play_keeps_every_row_consistent(size):
    table = Table(areas=8, size=size)
    random = np.random.default_rng(1)
    living = set(table.batch.agent_id.tolist())
    for _ in range(600):
        batch = table.act(random.integers(0, 7, int((~table.batch.done).sum())))
        assert all(np.isfinite(obs).all() for obs in batch.obs)
        ended, asking = batch.agent_id[batch.done], batch.agent_id[~batch.done]
        assert set(ended.tolist()) <= living
        assert len(set(asking.tolist())) == len(asking)
        living = set(asking.tolist())
        assert np.all(batch.group_reward[batch.group_reward != 0] == 1)
        assert batch.done[: len(ended)].all()
        groups, members = np.unique(batch.group_id[~batch.done], return_counts=True)
        assert len(groups) == 8
        assert members.max() <= 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "tiny"}, "no size 'tiny'"),
        ({"areas": -1}, "areas is -1"),
        ({"columns": 5}, "5 columns"),
        ({"dragon_slow": 9.0}, "9.0 to 7.0 m/s"),
        ({"senses": "grid"}, "no senses 'grid'; it has rays, vector"),
        ({"max_steps": 4}, "max-steps is 4; it must be at least 5"),
        ({"ground": 7.9, "columns": 0}, "a ground of 7.9 m has no room .* at least 8 m"),
        ({"ground": 10.0}, "a ground of 10 m has no room for 3 agents, 4 columns.* at least 11 m"),
        ({"size": "small", "agents": 9}, "a ground of 10 m has no room for 9 agents.* at least 11 m"),
    ],
)
def test_options_that_make_no_world_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DungeonEscape(**options)


@pytest.mark.parametrize(
    "options", [{"ground": 8.0, "columns": 0}, {"ground": 11.0}, {"size": "small", "agents": 8}]
)
def test_on_the_least_ground_nobody_begins_in_somebody_or_something(options):
    world = Table(areas=50, senses="vector", **{"dragon_fast": 1.0, "dragon_slow": 1.0, **options}).world
    agents = world.bodies.pose[:2, :, : world.options.agents]
    apart = np.hypot(*(agents[:, :, :, None] - agents[:, :, None]))
    assert np.min(apart + 9 * np.eye(world.options.agents)) > 1
    assert not world._touches().any()
