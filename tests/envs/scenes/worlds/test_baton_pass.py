"""The rules of Baton pass: teams that grow and shrink."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.envs.base import StatsAggregationMethod
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.baton_pass import BEHAVIOR, BatonPass

STAY, UP, DOWN, RIGHT, LEFT = range(5)
FAR = 9.0


def start(areas=1, seed=0, **options):
    world = BatonPass(areas=areas, **options)
    return world, world.reset(np.random.default_rng(seed), Parameters())[BEHAVIOR]


def act(world, *moves):
    return world.step({BEHAVIOR: (None, np.int32(moves).reshape(-1, 1))})[BEHAVIOR]


def stay(world, times=1):
    for _ in range(times):
        batch = act(world, *[STAY] * int(world.alive.sum()))
    return batch


def put(world, *, runner=(0, 0), ball=(FAR, FAR), button=(-FAR, -FAR)):
    """Place the carrier, the ball and the button of the first area; by default far apart."""
    world.place[0, world.carries[0]] = runner
    world.ball[0], world.button[0] = ball, button


def fetch(world):
    put(world, ball=(0.3, 0))
    return stay(world)


def hand_over(world):
    """The carrier fetches the ball and passes the baton on."""
    fetch(world)
    put(world, button=(0, 0.3))
    batch = stay(world)
    put(world)
    return batch


def test_a_team_starts_with_one_carrier():
    world, batch = start(3)
    np.testing.assert_array_equal(world.alive.sum(axis=1), 1)
    np.testing.assert_array_equal(world.carries, world.alive)
    np.testing.assert_array_equal(batch.group_id, [1, 2, 3])
    np.testing.assert_array_equal(batch.agent_id, [0, 1, 2])
    assert not batch.done.any()


@pytest.mark.parametrize(
    ("runner", "move", "place"),
    [
        ((0, 0), STAY, (0, 0)),
        ((0, 0), UP, (0, 1)),
        ((0, 0), DOWN, (0, -1)),
        ((0, 0), RIGHT, (1, 0)),
        ((0, 0), LEFT, (-1, 0)),
        ((9.6, 0), RIGHT, (10, 0)),
    ],
)
def test_moves_along_the_axes_and_not_off_the_ground(runner, move, place):
    world, _ = start()
    put(world, runner=runner)
    batch = act(world, move)
    np.testing.assert_allclose(world.place[0, 0], place)
    np.testing.assert_allclose(batch.obs[0][0, :2], np.float32(place) / 10)


def test_fetching_the_ball_pays_the_team_once():
    world, _ = start()
    batch = fetch(world)
    assert batch.group_reward == [1]
    assert batch.reward == [0]
    assert batch.obs[0][0, 3] == 1
    np.testing.assert_array_equal(batch.obs[0][0, 4:6], 0)
    assert stay(world).group_reward == [0]


def test_only_the_carrier_touches():
    world, _ = start()
    hand_over(world)
    spent = world.alive[0] & ~world.carries[0]
    world.place[0, spent] = world.ball[0]
    assert not stay(world).group_reward.any()
    world.place[0, spent] = world.button[0]
    world.loaded[0] = True
    stay(world)
    assert world.alive.sum() == 2


def test_the_button_does_nothing_without_the_ball():
    world, _ = start()
    put(world, button=(0, 0.3))
    stay(world)
    assert world.alive.sum() == 1


def test_the_button_spawns_the_next_carrier():
    world, first = start()
    batch = hand_over(world)
    np.testing.assert_array_equal(batch.agent_id, [first.agent_id[0], first.agent_id[0] + 1])
    np.testing.assert_array_equal(batch.obs[0][:, 2], [0, 1])
    np.testing.assert_array_equal(batch.group_id, [1, 1])
    assert not batch.done.any()
    assert not world.loaded.any()
    assert (world.carries[0] & world.alive[0]).sum() == 1


def test_a_new_runner_gets_no_reward_for_the_pass():
    world, _ = start()
    put(world, ball=(0.3, 0), button=(0, 0.3))
    batch = stay(world)
    np.testing.assert_array_equal(batch.group_reward, [1, 0])


@pytest.mark.parametrize("linger", [3, 0])
def test_a_runner_that_passed_lingers_and_leaves(linger):
    world, first = start(linger=linger)
    batch = hand_over(world)
    for _ in range(linger):
        assert not batch.done.any()
        batch = stay(world)
    np.testing.assert_array_equal(batch.done, [True, False])
    np.testing.assert_array_equal(batch.agent_id, first.agent_id[0] + np.arange(2))
    assert not batch.interrupted.any()
    assert world.alive.sum() == 1


def test_the_last_ball_ends_the_groups_episode():
    world, first = start(agents=3)
    for _ in range(2):
        assert not hand_over(world).done.any()
    batch = fetch(world)
    np.testing.assert_array_equal(batch.done, [True, True, True, False])
    np.testing.assert_array_equal(batch.group_reward, [1, 1, 1, 0])
    assert not batch.interrupted.any()
    np.testing.assert_array_equal(batch.agent_id, first.agent_id[0] + np.arange(4))


def test_a_lost_baton_ends_the_groups_episode():
    world, first = start(stamina=8, max_steps=100)
    hand_over(world)
    assert not stay(world, 7).done.any()
    batch = stay(world)
    np.testing.assert_array_equal(batch.done, [True, True, False])
    assert not batch.interrupted.any()
    assert batch.agent_id[2] == first.agent_id[0] + 2
    np.testing.assert_array_equal(batch.obs[0][:, 2], [0, 1, 1])


@pytest.mark.parametrize("linger", [600, 3])
def test_the_limit_interrupts_all_runners_but_those_that_leave_anyway(linger):
    world, _ = start(linger=linger, max_steps=5)
    hand_over(world)
    assert not stay(world, 2).done.any()
    batch = stay(world)
    np.testing.assert_array_equal(batch.done, [True, True, False])
    np.testing.assert_array_equal(batch.interrupted, [linger > 3, True, False])
    assert stay(world).done.sum() == 0


def test_reports_the_balls_of_each_team_once():
    world, _ = start(max_steps=5)
    hand_over(world)
    fetch(world)
    assert list(world.statistics()) == []
    stay(world, 3)
    assert list(world.statistics()) == [
        ("Baton Pass/Balls", 2.0, StatsAggregationMethod.AVERAGE),
        ("Environment/Group Return", 2.0, StatsAggregationMethod.AVERAGE),
    ]
    assert list(world.statistics()) == []
    stay(world, 5)
    assert [value for _, value, _ in world.statistics()] == [0.0, 0.0]


def test_twenty_at_once():
    world, _ = start()
    for k in range(1, 20):
        batch = hand_over(world)
        assert (~batch.done).sum() == k + 1
    np.testing.assert_array_equal(batch.obs[0][:, 13], 1)
    np.testing.assert_array_equal(batch.obs[0][:, 2], [0] * 19 + [1])


def test_runners_push_each_other_apart():
    world, _ = start()
    hand_over(world)
    world.place[0, :2] = [[0.0, 0], [0.3, 0]]
    stay(world)
    np.testing.assert_allclose(world.place[0, :2], [[-0.3, 0], [0.6, 0]], atol=1e-6)


def test_observations_have_the_positions_of_the_others():
    world, _ = start()
    hand_over(world)
    old, new = np.flatnonzero(~world.carries[0] & world.alive[0])[0], np.flatnonzero(world.carries[0])[0]
    world.place[0, old], world.place[0, new] = (4, 0), (0, 2)
    obs = stay(world).obs[0]
    # Ball, button, carrier, nearest mate; the old runner first, for its place is the lower one.
    np.testing.assert_allclose(obs[0, 4:12] * 20, [5, 9, -13, -9, -4, 2, -4, 2], atol=1e-5)
    np.testing.assert_allclose(obs[1, 4:12] * 20, [9, 7, -9, -11, 0, 0, 4, -2], atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 5), st.integers(0, 12), st.integers(3, 25))
def test_every_runner_is_reported_from_start_to_end(seed, areas, agents, linger, stamina):
    """Every agent that decided reports again; ends come first and are final; ids and groups fit."""
    world, batch = start(
        areas, seed, size="small", ground=3, agents=agents, linger=linger, stamina=stamina, max_steps=40
    )
    random = np.random.default_rng(seed)
    group_of, gone = {}, set()
    for _ in range(120):
        asking = batch.agent_id[~batch.done]
        batch = act(world, *random.integers(0, 5, len(asking)))
        done, still = batch.agent_id[batch.done], batch.agent_id[~batch.done]
        assert batch.done[: len(done)].all()
        assert set(asking) <= set(batch.agent_id)
        assert set(done) <= set(asking)
        assert not set(batch.agent_id) & gone
        assert len(set(batch.agent_id)) == len(batch.agent_id)
        gone |= set(done)
        for agent, group in zip(batch.agent_id, batch.group_id):
            assert group_of.setdefault(agent, group) == group
        counts = np.bincount(batch.group_id[~batch.done], minlength=areas + 1)[1:]
        assert counts.min() >= 1
        assert counts.max() <= agents
        np.testing.assert_array_equal(world.carries.sum(axis=1), 1)
        assert np.isfinite(batch.obs[0]).all()
        assert np.abs(batch.obs[0]).max() <= 1 + 1e-6
        assert len(still) == len(batch.obs[0]) - len(done)
