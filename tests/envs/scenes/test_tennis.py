"""The rules of Tennis, and that it can be played."""

from dataclasses import replace

import numpy as np
import pytest
from lanista.envs.scenes.world import Parameters
from lanista.envs.scenes.worlds.tennis.dynamics import BALL_RADIUS, HIGHEST, LOWEST, NEAREST, SIDE, TILT
from lanista.envs.scenes.worlds.tennis.scene import BEHAVIORS, HITS, Tennis

LEFT, RIGHT = BEHAVIORS


class Table:
    """Courts on a table: acts, and keeps the last batches."""

    def __init__(self, areas=1, seed=0, **options):
        self.world = Tennis(areas=areas, **options)
        self.rally = self.world.dynamics
        self.parameters = Parameters()
        self.batches = self.world.reset(np.random.default_rng(seed), self.parameters)

    def act(self, left=(0, 0, 0), right=(0, 0, 0)):
        areas = self.world.areas
        none = np.zeros((areas, 0), np.int32)
        self.batches = self.world.step(
            {
                name: (np.broadcast_to(np.float32(action), (areas, 3)), none)
                for name, action in zip(BEHAVIORS, (left, right))
            }
        )
        return self.batches

    def throw(self, x, y, velocity=(0, 0), turn=0, bounces=0, area=0):
        """The ball flies on from there; the rackets are out of its way."""
        rally = self.rally
        rally.serve(np.array([area]), np.array([[x], [y]], float), np.array([turn]))
        rally.ball_velocity[:, area], rally.bounces[area] = velocity, bounces
        rally.racket[0, :, area], rally.racket[1, :, area] = (-8, 8), HIGHEST

    def hold(self, x, y, degrees=0.0, player=0, area=0):
        self.rally.racket[:, player, area] = x, y
        tilt = np.radians(degrees)
        self.rally.tilt[player, area] = self.rally._wanted[2, player, area] = tilt
        return (0, 0, 2 * (tilt - TILT[0]) / (TILT[1] - TILT[0]) - 1)

    def play_on(self, most=60):
        """Until the point is decided: what left and right are paid."""
        for _ in range(most):
            batches = self.act()
            if batches[LEFT].done.any():
                return batches[LEFT].reward[0], batches[RIGHT].reward[0]
        raise AssertionError("the point goes on")


def test_both_seats_are_teams_of_one_behavior_name():
    specs = Tennis().specs()
    assert list(specs) == ["Tennis?team=0", "Tennis?team=1"]
    for spec in specs.values():
        assert [obs.shape for obs in spec.observation_specs] == [(16,)]
        assert spec.action_spec.continuous_size == 3
        assert spec.action_spec.discrete_branches == ()
    assert replace(Tennis(size="small").options, size="full") == Tennis().options
    batches = Table(areas=3).batches
    np.testing.assert_array_equal(batches[LEFT].agent_id, [0, 1, 2])
    np.testing.assert_array_equal(batches[RIGHT].agent_id, [3, 4, 5])
    np.testing.assert_array_equal(batches[LEFT].group_id, 0)


@pytest.mark.parametrize(
    ("ball", "velocity", "turn", "bounces", "paid"),
    [
        # It is left's ball.
        ((-3, 1), (0, 0), 0, 0, (-1, 1)),  # it bounces twice before him
        ((-3, 1), (-6, 0), 0, 1, (-1, 1)),  # the second bounce is behind the court
        ((-3, 1), (-20, 0), 0, 0, (1, -1)),  # right has hit it out
        ((3, 1), (0, 0), 0, 0, (1, -1)),  # right has hit it onto the own side
        ((2, 0.6), (-8, 0), 0, 0, (1, -1)),  # right has hit it into the net
        # It is right's.
        ((3, 1), (0, 0), 1, 0, (1, -1)),
        ((3, 1), (20, 0), 1, 0, (-1, 1)),
        ((-3, 1), (0, 0), 1, 0, (-1, 1)),
        ((-2, 0.6), (8, 0), 1, 0, (-1, 1)),
    ],
)
def test_who_loses_the_point(ball, velocity, turn, bounces, paid):
    table = Table()
    table.throw(*ball, velocity, turn, bounces)
    assert table.play_on() == paid
    for batch in table.batches.values():
        np.testing.assert_array_equal(batch.done, [True, False])
        assert not batch.interrupted.any()
        assert batch.reward[1] == 0


def test_a_ball_over_the_net_and_into_the_court_is_the_others_to_play():
    table = Table()
    table.throw(-4, 1.5, (7, 4), turn=1)
    while table.rally.bounces[0] == 0:
        assert not table.act()[LEFT].done.any()
    assert 0 < table.rally.ball[0, 0] < 6
    assert table.rally.turn[0] == 1
    assert table.play_on() == (1, -1)


def test_a_racket_sends_the_ball_back_and_gives_it_its_own_speed():
    still, swung = Table(), Table()
    for table, action in ((still, 0), (swung, 1)):
        table.throw(-3, 1.5, (-6, 1), turn=0)
        table.rally.gravity = 0.0
        tilt = table.hold(-3.5, 1.5)[2]
        table.act(left=(action, 0, tilt))
        assert table.rally.turn[0] == 1
        assert table.rally.hits[0] == 1
    np.testing.assert_allclose(still.rally.ball_velocity[:, 0], [0.8 * 6, 1], atol=1e-9)
    assert swung.rally.ball_velocity[0, 0] > 0.8 * 6 + 2


def test_a_tilted_racket_sends_it_up():
    table = Table()
    table.throw(-3, 1.5, (-6, 0), turn=0)
    table.rally.gravity = 0.0
    table.act(left=table.hold(-3.6, 1.5, degrees=45))
    x, y = table.rally.ball_velocity[:, 0]
    assert (x, y) == pytest.approx((-6 + 1.8 * 3, 1.8 * 3))


def test_no_ball_is_too_fast_for_a_racket():
    table = Table()
    table.throw(-1, 1.5, (-80, 0), turn=0)
    table.rally.gravity = 0.0
    table.act(left=table.hold(-5.2, 1.5))
    assert table.rally.hits[0] == 1
    assert table.rally.ball_velocity[0, 0] > 0


def test_nobody_hits_a_ball_that_is_the_others():
    table = Table()
    table.throw(-3, 1.5, (-3, 0), turn=1)
    action = table.hold(-3.2, 1.5)
    table.act(left=action)
    assert table.rally.hits[0] == 0
    assert table.rally.ball_velocity[0, 0] == -3


def test_rackets_stay_in_reach_and_below_their_speed():
    table = Table(areas=20)
    random = np.random.default_rng(0)
    for _ in range(100):
        before = table.rally.racket.copy()
        ended = table.act(random.choice([-3, 3], (20, 3)), random.choice([-3, 3], (20, 3)))[LEFT]
        going = ~np.isin(np.arange(20), ended.agent_id[ended.done])
        moved = np.abs(table.rally.racket - before)[:, :, going]
        assert moved.max() <= 0.1 * 7 + 1e-9
        x, y = table.rally.racket[0] * SIDE, table.rally.racket[1]
        assert x.max() <= -NEAREST
        assert x.min() >= -8.5
        assert LOWEST <= y.min() <= y.max() <= HIGHEST
        assert TILT[0] - 1e-9 <= table.rally.tilt.min() <= table.rally.tilt.max() <= TILT[1] + 1e-9


def test_time_interrupts_both_unpaid():
    table = Table(max_steps=50)
    for decision in range(1, 11):
        table.throw(-3, 3)
        batches = table.act()
        assert batches[LEFT].done.any() == (decision == 10)
    for batch in batches.values():
        np.testing.assert_array_equal(batch.interrupted, [True, False])
        np.testing.assert_array_equal(batch.reward, 0)


def test_gravity_follows_its_parameter_at_once():
    table = Table()
    table.throw(-3, 3)
    table.parameters.set("gravity", 1.0)
    table.act()
    np.testing.assert_allclose(table.rally.ball_velocity[1, 0], -0.1)


def test_serves_go_to_both_as_often_and_fall_before_them():
    rally = Table(areas=1000).rally
    assert 400 < rally.turn.sum() < 600
    own = np.where(rally.turn == 0, -1, 1) * rally.ball[0]
    assert 2.4 <= own.min() < 2.5
    assert 5.3 < own.max() <= 5.4
    np.testing.assert_array_equal(rally.ball_velocity, 0)


def test_both_seats_see_the_same_of_a_mirrored_court():
    table = Table(areas=2)
    rally, random = table.rally, np.random.default_rng(1)
    mirror = np.array([-1, 1])
    rally.racket[..., 0], rally.racket_velocity[..., 0] = random.normal(size=(2, 2, 2))
    rally.racket[..., 1] = rally.racket[:, ::-1, 0] * mirror[:, None]
    rally.racket_velocity[..., 1] = rally.racket_velocity[:, ::-1, 0] * mirror[:, None]
    rally.tilt[:, 0] = 0.1, 0.7
    rally.tilt[:, 1] = 0.7, 0.1
    rally.ball[:, 0], rally.ball_velocity[:, 0] = random.normal(size=(2, 2))
    rally.ball[:, 1] = rally.ball[:, 0] * mirror
    rally.ball_velocity[:, 1] = rally.ball_velocity[:, 0] * mirror
    rally.turn[:], rally.bounces[:] = (0, 1), (1, 1)
    batches = table.world._request_decisions()
    left, right = batches[LEFT].obs[0], batches[RIGHT].obs[0]
    np.testing.assert_allclose(left[0], right[1], atol=1e-6)
    np.testing.assert_allclose(left[1], right[0], atol=1e-6)
    assert left[0, 14] == 1
    assert right[0, 14] == 0


def test_the_seed_decides_everything():
    def run(seed):
        table = Table(areas=3, seed=seed)
        random = np.random.default_rng(5)
        seen = [table.act(random.uniform(-1, 1, (3, 3)))[LEFT].obs[0] for _ in range(60)]
        return np.concatenate(seen)

    first = run(3)
    np.testing.assert_array_equal(run(3), first)
    assert run(4).shape != first.shape or np.any(run(4) != first)


def player(world, seat):
    """Volleys: is where the ball will be 1.2 m high, and swings so that it lands in the other half."""
    rally, side, speed = world.dynamics, SIDE[seat, 0], world.options.speed
    ball = rally.ball * [[side], [1]]
    x, up = rally.ball_velocity[0] * side, rally.ball_velocity[1]
    gravity = rally.gravity
    fall = np.maximum(up**2 + 2 * gravity * (ball[1] - 1.2), 0)
    time = np.where(fall > 0, (up + np.sqrt(fall)) / gravity, 0)
    comes = np.stack([x, up - gravity * time])
    meet = np.stack([ball[0] + x * time, np.where(fall > 0, 1.2, ball[1])])
    angle, far = np.radians(52), 3.3 - meet[0]
    drop = np.maximum(far * np.tan(angle) + meet[1] - BALL_RADIUS, 0.1)
    goes = far / np.cos(angle) * np.sqrt(gravity / (2 * drop)) * [[np.cos(angle)], [np.sin(angle)]]
    change = goes - comes
    push = np.hypot(*change)
    normal = change / push
    swing = np.clip(push / 1.8 + (comes * normal).sum(axis=0), -speed, speed)
    # The swing begins a decision before the last one, at 60 m/s² up to its speed.
    lead = np.mod(time, 0.1) + 0.1
    wait = meet - normal * (BALL_RADIUS + swing * lead - swing * np.abs(swing) / 120)
    wait[1] = np.clip(wait[1], LOWEST, HIGHEST)
    mine = rally.turn == seat
    target = np.where(mine, wait, np.array([[-4.5], [1.0]]))
    racket = rally.racket[:, seat] * [[side], [1]]
    move = np.where(mine & (time <= 0.2), normal * swing, 8 * (target - racket)) / speed
    tilt = 2 * (np.arctan2(normal[1], normal[0]) - TILT[0]) / (TILT[1] - TILT[0]) - 1
    return np.clip(np.concatenate([move, tilt[None]]), -1, 1).T


def test_who_knows_the_game_keeps_the_ball_up_against_another_and_beats_chance():
    table = Table(areas=32)
    for _ in range(250):
        batches = table.act(player(table.world, 0), player(table.world, 1))
        assert not batches[LEFT].done.any()
    assert table.rally.hits.min() > 15
    random, won = np.random.default_rng(0), []
    for _ in range(400):
        batch = table.act(player(table.world, 0), random.uniform(-1, 1, (32, 3)))[LEFT]
        won += batch.reward[batch.done].tolist()
    assert len(won) > 200
    assert np.mean(won) > 0.8
    assert {name for name, _, _ in table.world.statistics()} == {HITS}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "smal"}, "no size 'smal'. Did you mean 'small'"),
        ({"areas": 0}, "areas is 0"),
        ({"length": 2.0}, "at least 2.8 m long"),
        ({"net": 5.0}, "the net not higher than the rackets reach"),
        ({"max_steps": 4}, "max-steps is 4; it must be at least 5"),
    ],
)
def test_options_that_make_no_world_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Tennis(**options)
