"""Bodies that push each other."""

import numpy as np
import pytest
from lanista.envs.scenes.parts.physics2d import FRICTION, GRAVITY, TIME_STEP, Ground, RigidBody

AGENT = RigidBody(0.5, 10, drag=4)
SMALL, LARGE, VERY_LARGE = (
    RigidBody(edge / 2, mass, drag=0.5, square=True) for edge, mass in ((1, 10), (2, 100), (3, 150))
)
COLUMN = RigidBody(0.75, np.inf, square=True)
STRENGTH = 3.0


def ground(*bodies, at, angles=None, areas=1, half=12.5, gravity=GRAVITY * 1.5):
    """A ground with the bodies at these places [n, 2], the same in every area."""
    made = Ground(areas, half, bodies, gravity)
    pose = np.zeros((3, areas, len(bodies)))
    pose[:2] = np.transpose(at)[:, None]
    if angles is not None:
        pose[2] = angles
    made.put(np.arange(areas), pose)
    return made


def shove(block, agents, steps=50):
    """How far `agents`, side by side behind it, push a block in a second."""
    places = [(0, -8)]
    rows = [((k - (agents - 1) / 2) * 1.0, -8 - block.half - 0.5) for k in range(agents)]
    world = ground(*[AGENT] * agents, block, at=rows + places)
    push = np.zeros((2, 1, agents))
    push[1] = STRENGTH
    for _ in range(steps):
        world.step(push)
    return world.pose[1, 0, agents] + 8


def test_an_agent_alone_reaches_the_speed_at_which_drag_and_friction_take_what_it_adds():
    world = ground(AGENT, at=[(0, -12)], half=1000)
    for _ in range(400):
        world.step(np.array([0, STRENGTH])[:, None, None])
    # The speed that a step leaves as it is: v = (v + push) (1 - drag dt) - friction dt.
    loss = FRICTION * GRAVITY * 1.5 * TIME_STEP
    assert world.motion[1, 0, 0] == pytest.approx((STRENGTH * 0.92 - loss) / 0.08)


def test_bodies_that_are_not_pushed_come_to_rest():
    world = ground(AGENT, SMALL, at=[(0, 0), (5, 0)])
    world.motion[:2] = 1.0
    world.motion[2, :, 1] = 1.0
    for _ in range(100):
        world.step(np.zeros((2, 1, 1)))
    np.testing.assert_array_equal(world.motion, 0)


def test_the_heavier_a_block_the_more_agents_it_needs():
    assert shove(SMALL, 1) > 5
    assert 0.5 < shove(LARGE, 1) < shove(SMALL, 1) / 2
    assert shove(LARGE, 2) > 2 * shove(LARGE, 1)
    assert shove(VERY_LARGE, 1) < 0.5
    assert shove(VERY_LARGE, 2) > 1.5
    assert shove(VERY_LARGE, 3) > shove(VERY_LARGE, 2)


def test_a_push_beside_the_middle_turns_a_block():
    world = ground(AGENT, LARGE, at=[(0.7, -1.5), (0, 0)])
    for _ in range(30):
        world.step(np.array([0, STRENGTH])[:, None, None])
    # Right of the middle and forward: from x to z.
    assert world.pose[2, 0, 1] > 0.1
    assert world.pose[1, 0, 1] > 0.05


@pytest.mark.parametrize(
    "bodies", [(RigidBody(0.5, 3), RigidBody(0.5, 7)), (RigidBody(0.5, 3), RigidBody(0.6, 7, square=True))]
)
def test_a_collision_without_friction_keeps_momentum(bodies):
    world = ground(*bodies, at=[(0, 0), (1.3, 0.2)], gravity=0.0, half=100)
    world.motion[0, 0, 0] = 4.0
    for _ in range(60):
        world.step(np.zeros((2, 1, 1)))
    momentum = world.motion[:2, 0] @ [3, 7]
    np.testing.assert_allclose(momentum, [12, 0], atol=1e-9)
    assert world.motion[0, 0, 1] > 0.5


def test_columns_stay_and_stop_what_runs_into_them():
    world = ground(AGENT, COLUMN, at=[(0, -4), (0.1, 0)])
    for _ in range(100):
        world.step(np.array([0, STRENGTH])[:, None, None])
    np.testing.assert_allclose(world.pose[:, 0, 1], [0.1, 0, 0])
    # It is stopped, or has slid off to a side; it is never inside.
    away = np.abs(world.pose[:2, 0, 0] - [0.1, 0]) - COLUMN.half
    assert np.hypot(*np.maximum(away, 0)) > AGENT.half - 0.1


def test_whatever_happens_bodies_stay_on_the_ground_and_hardly_in_each_other():
    random = np.random.default_rng(3)
    bodies = [AGENT] * 3 + [SMALL, SMALL, LARGE, LARGE, VERY_LARGE]
    world = Ground(20, 6.0, bodies, GRAVITY)
    pose = random.uniform(-5, 5, (3, 20, len(bodies)))
    world.put(np.arange(20), pose)
    for _ in range(300):
        world.step(random.uniform(-3, 3, (2, 20, 3)))
        assert np.isfinite(world.pose).all()
        assert np.all(np.abs(world.pose[:2]) <= 6.0 - world.extent + 1e-9)
    for _ in range(200):
        world.step(np.zeros((2, 20, 3)))
    away = world.pose[:2, :, :3, None] - world.pose[:2, :, None, :3]
    first, second = np.triu_indices(3, 1)
    apart = np.hypot(*away)[:, first, second]
    assert np.quantile(apart, 0.02) > 0.9


def test_two_blocks_do_not_pass_through_each_other():
    world = ground(AGENT, SMALL, LARGE, at=[(0, -6), (0, -5), (0, -2)], angles=[0, 0.3, 0.8])
    for _ in range(150):
        world.step(np.array([0, STRENGTH])[:, None, None])
    _, small, large = world.pose[1, 0]
    # The small one has pushed the large one before it, or slid past beside it.
    beside = abs(world.pose[0, 0, 1] - world.pose[0, 0, 2])
    assert large - small > 1.2 or beside > 1.2


def test_a_removed_body_touches_nothing_until_it_is_put_back():
    world = ground(AGENT, SMALL, at=[(0, -2), (0, 0)])
    world.remove(np.array([0]), np.array([1]))
    for _ in range(40):
        world.step(np.array([0, STRENGTH])[:, None, None])
    np.testing.assert_array_equal(world.pose[:2, 0, 1], 0)
    assert world.pose[1, 0, 0] > 2
    world.put(np.array([0]), np.zeros((3, 1, 2)))
    assert world.present.all()
    world.step(np.zeros((2, 1, 1)))
    assert np.any(world.pose[:, 0, 0] != world.pose[:, 0, 1])


def test_areas_do_not_know_of_each_other():
    random = np.random.default_rng(0)
    bodies = [AGENT, AGENT, SMALL, LARGE]
    places = random.uniform(-3, 3, (3, 4, 4))
    pushes = random.uniform(-3, 3, (60, 2, 4, 2))

    def run(areas):
        world = Ground(len(areas), 5.0, bodies)
        world.put(np.arange(len(areas)), places[:, areas])
        for push in pushes:
            world.step(push[:, areas])
        return world.pose

    np.testing.assert_allclose(run([0, 1, 2, 3])[:, 2], run([2])[:, 0], atol=1e-9)
