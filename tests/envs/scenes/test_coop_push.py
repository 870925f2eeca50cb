"""The rules of Cooperative PushBlock."""

import numpy as np
import pytest
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.dungeon_escape.scene import DungeonEscape
from lanista.envs.scenes.worlds.push_block.scene import BEHAVIOR, CoopPush
from mlagents_envs.base_env import DimensionProperty

NOTHING, FORWARD, TURN_RIGHT = 0, 1, 3
STEP = -0.5 / 5000


class Table:
    """A coop-push world on a table: acts, and keeps the last batch."""

    def __init__(self, areas=2, seed=0, **options):
        self.world = CoopPush(areas=areas, **options)
        self.random = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.batch = self.world.reset(self.random, Parameters())[BEHAVIOR]

    def act(self, chosen=NOTHING):
        count = int((~self.batch.done).sum())
        discrete = np.broadcast_to(np.int32(chosen).reshape(-1, 1), (count, 1))
        self.batch = self.world.step({BEHAVIOR: (np.zeros((count, 0), np.float32), discrete)})[BEHAVIOR]
        return self.batch

    def bring_in(self, area, *blocks):
        """Put blocks onto the goal."""
        for block in blocks:
            self.world.bodies.pose[:2, area, self.world.options.agents + block] = 0, self.world.goal + 1


def test_at_full_size_the_sensors_and_actions_are_unitys():
    (name,), (spec,) = zip(*CoopPush().specs().items())
    assert name == "PushBlockCollab?team=0"
    grid, body = spec.observation_specs
    assert grid.shape == (6, 20, 20)
    assert grid.dimension_property == (
        DimensionProperty.NONE,
        DimensionProperty.TRANSLATIONAL_EQUIVARIANCE,
        DimensionProperty.TRANSLATIONAL_EQUIVARIANCE,
    )
    assert body.shape == (10,)
    assert [grid.name, body.name] == sorted([grid.name, body.name])
    assert spec.action_spec.discrete_branches == (7,)
    assert spec.action_spec.continuous_size == 0


def test_at_full_size_everything_is_as_many_as_large_and_as_heavy_as_in_unity():
    world = CoopPush()
    assert world.areas == 4
    assert world.options.agents == 3
    assert world.options.ground == 25
    assert world.options.max_steps == 5000
    np.testing.assert_array_equal(world.kinds, [0, 0, 1, 1, 2, 2])
    np.testing.assert_array_equal(2 * world.halves, [1, 1, 2, 2, 3, 3])
    assert world.goal == pytest.approx(12.5 - 4.3)


def test_at_full_size_what_pushes_is_as_strong_and_what_resists_as_heavy_as_in_unity():
    table = Table(areas=1, seed=1)
    world, bodies = table.world, table.world.bodies
    masses = 1 / bodies._inverse_mass.reshape(3, -1)[:2]
    np.testing.assert_allclose(masses, [[10] * 3 + [10, 10, 100, 100, 150, 150]] * 2)
    np.testing.assert_allclose((1 - bodies._keep[:2, 0]) / 0.02, [[4] * 3 + [0.5] * 6] * 2)
    assert bodies._grip == pytest.approx(0.6 * 1.5 * 9.81 * 0.02)
    world.motion_control.command(np.arange(3), np.full(3, FORWARD))
    np.testing.assert_allclose(np.hypot(*world.motion_control.push), 3.0)


def test_starts_within_half_of_the_ground_with_everybody_in_the_group_of_the_area():
    table = Table(areas=100)
    world, batch = table.world, table.batch
    assert 6 < np.abs(world.bodies.pose[:2]).max() <= 6.25
    np.testing.assert_array_equal(batch.group_id, np.repeat(np.arange(1, 101), 3))
    assert len(np.unique(batch.agent_id)) == 300
    assert len(np.unique(world.turned)) == 4
    assert np.ptp(world.motion_control.heading) > 6
    assert [obs.shape for obs in batch.obs] == [(300, 6, 20, 20), (300, 10)]


def test_a_decision_is_five_physics_steps_each_of_which_costs_the_group():
    table = Table(seed=1)
    before = table.world.bodies.pose.copy()
    batch = table.act()
    np.testing.assert_allclose(batch.group_reward, 5 * STEP, rtol=1e-6)
    np.testing.assert_array_equal(batch.reward, 0)
    np.testing.assert_allclose(table.world.bodies.pose[:, :, :3], before[:, :, :3], atol=1e-6)
    heading = table.world.motion_control.heading.copy()
    table.act(TURN_RIGHT)
    np.testing.assert_allclose(np.degrees(table.world.motion_control.heading - heading), 20)


@pytest.mark.parametrize(("block", "worth"), [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_block_in_the_goal_disappears_and_pays_its_worth_to_its_group_alone(block, worth):
    table = Table()
    table.bring_in(1, block)
    batch = table.act()
    np.testing.assert_allclose(batch.group_reward, [5 * STEP] * 3 + [worth + 5 * STEP] * 3, rtol=1e-5)
    assert not batch.done.any()
    assert not table.world.bodies.present[1, 3 + block]
    np.testing.assert_allclose(table.act().group_reward, 5 * STEP, rtol=1e-5)


def test_all_blocks_in_the_goal_end_the_group_episode_without_interruption():
    table = Table()
    table.bring_in(0, 0, 1, 2, 3, 4, 5)
    batch = table.act()
    np.testing.assert_array_equal(batch.done, [True] * 3 + [False] * 6)
    assert not batch.interrupted.any()
    np.testing.assert_array_equal(batch.agent_id, [0, 1, 2, 0, 1, 2, 3, 4, 5])
    # Brought in at the first of the five steps; the others belong to the next episode.
    np.testing.assert_allclose(batch.group_reward[:6], [12 + STEP] * 3 + [4 * STEP] * 3, rtol=1e-4)
    assert table.world.bodies.present.all()
    ((name, value, _),) = table.world.statistics()
    assert name == "Environment/Group Return"
    assert value == pytest.approx(12 + STEP)


def test_five_thousand_steps_interrupt_the_group_episode():
    table = Table(areas=1, small_blocks=0, large_blocks=0, very_large_blocks=1)
    for decision in range(1, 1001):
        batch = table.act()
        assert batch.done.any() == (decision == 1000)
    np.testing.assert_array_equal(batch.done, [True] * 3 + [False] * 3)
    np.testing.assert_array_equal(batch.interrupted, batch.done)
    (statistic,) = table.world.statistics()
    assert statistic[1] == pytest.approx(-0.5)


def test_agents_of_the_small_size_push_a_block_home():
    table = Table(areas=1, size="small", agents=1, small_blocks=1, large_blocks=0)
    world = table.world
    world.bodies.pose[:, 0, 0], world.bodies.pose[:, 0, 1] = (0, -1, 0), (0, 0, 0)
    world.motion_control.heading[:] = 0
    for _ in range(60):
        if table.act(FORWARD).done.any():
            break
    assert table.batch.done[0]
    assert table.batch.group_reward[0] > 0.9


def test_grid_shows_mates_blocks_walls_and_the_goal_in_their_channels():
    table = Table(areas=1)
    world = table.world
    places = [(0, 0), (0, 4), (40, 40), (-3, 3), (40, 40), (3, 3), (40, 40), (-3, 6), (40, 40)]
    world.bodies.pose[:2, 0] = np.array(places, float).T
    world.bodies.pose[2] = 0
    world.motion_control.heading[:] = 0
    wall, agent, goal, small, large, very_large = world._observe(np.array([0]))[0][0, 0]
    ahead = lambda image: 19.5 - np.nonzero(image)[0]  # noqa: E731
    right = lambda image: np.nonzero(image)[1] - 9.5  # noqa: E731
    assert np.abs(ahead(agent) - 4).max() < 1
    assert np.abs(right(agent)).max() < 1
    counts = [np.count_nonzero(block) for block in (small, large, very_large)]
    assert 1 <= counts[0] <= 4 <= counts[1] <= 9 <= counts[2] <= 16
    assert np.all(right(small) < 0) and np.all(right(large) > 0)
    assert ahead(goal).min() == pytest.approx(8.5)
    assert ahead(goal).max() < 13
    assert ahead(wall).min() > 12
    assert not (wall * goal).any()
    assert {each.dtype for each in (wall, goal)} == {np.dtype(np.uint8)}, "it travels as PNG, as Unity's does"
    assert set(np.unique(wall)) == {0, 255}
    # Seen from the other end of the ground the goal is out of sight.
    world.motion_control.heading[:] = np.pi
    assert not world._observe(np.array([0]))[0][0, 0, 2].any()


def test_vector_tells_where_blocks_are_and_nothing_of_those_that_are_in():
    table = Table(areas=1, size="small", ground=10.0, small_blocks=1)
    world = table.world
    world.bodies.pose[:, 0] = np.array([(0, 0, 0), (0, 2, 0), (2, 0, 0), (1, 3, 0), (-1, -3, 0)], float).T
    world.motion_control.heading[:] = np.pi / 2
    half, goal = world.bodies.half, world.goal
    (obs,) = world._observe(np.array([0]))
    first = obs[0, 0]
    assert first.shape == world.specs()[BEHAVIOR].observation_specs[0].shape
    np.testing.assert_allclose(first[:7], [0, 0, 1, 0, 0, 0, goal / half], atol=1e-6)
    np.testing.assert_allclose(first[7:11] * half, [-2, 0, 0, 2], atol=1e-6)
    np.testing.assert_allclose(first[11:16] * [1, half, half, half, half], [1, -3, 1, goal - 3, 1], atol=1e-5)
    world.bodies.remove(np.array([0]), np.array([3]))
    (obs,) = world._observe(np.array([0]))
    np.testing.assert_array_equal(obs[0, 0, 11:18], 0)


@pytest.mark.parametrize("size", ["full", "small"])
def test_the_seed_decides_everything(size):
    def run(seed):
        table = Table(seed=seed, size=size)
        random = np.random.default_rng(5)
        return np.concatenate([table.act(random.integers(0, 7, 6)).obs[-1] for _ in range(40)])

    np.testing.assert_array_equal(run(3), run(3))
    assert np.any(run(3) != run(4))


def test_a_group_of_one_works_like_any_other():
    table = Table(areas=3, size="small", agents=1)
    for _ in range(20):
        batch = table.act(FORWARD)
    np.testing.assert_array_equal(batch.group_id, [1, 2, 3])
    assert np.isfinite(batch.obs[0]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "smal"}, "no size 'smal'. Did you mean 'small'"),
        ({"areas": 0}, "areas is 0"),
        ({"ground": -3.0}, "ground is -3.0; it must be more than 0"),
        ({"small_blocks": 0, "large_blocks": 0, "very_large_blocks": 0}, "no blocks"),
        ({"ground": 5.0}, "ground of 5.0 m with a goal of 4.3 m has no room for blocks of 3 m"),
        ({"senses": "rays"}, "no senses 'rays'; it has grid, vector"),
        ({"max_steps": 4}, "max-steps is 4; it must be at least 5"),
        ({"weight": float("nan")}, "weight is nan"),
    ],
)
def test_options_that_make_no_world_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        CoopPush(**options)


@pytest.mark.parametrize("scene", [CoopPush, DungeonEscape])
def test_vector_sensors_are_named_by_their_size_in_both_scenes(scene):
    (spec,) = scene(size="small").specs().values()
    (sensor,) = spec.observation_specs
    assert sensor.name == f"VectorSensor_size{sensor.shape[0]}"
