"""A share of each batch is demonstrated steps, as a plain computation from the episodes has them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from lanista.trainers.buffers.replay.buffer import Replay
from lanista.trainers.buffers.replay.columns import ExtraColumn, ReplayLayout
from lanista.trainers.buffers.replay.demonstrations import DemonstrationReplay, rollout_of
from lanista.trainers.buffers.replay.sampler import ReplaySampler
from lanista.trainers.rewards.scaling import RewardScaler
from rollouts import demonstrations, make_rollout
from specs import spec_of_shapes

GAMMA = 0.9
SPEC = spec_of_shapes([[2]], continuous=1, branches=(3,))
LENGTHS = [4, 1, 6]


def recorded(spec=SPEC, ends=("done", "interrupted", "cut")):
    """Episodes that end each in another way, whose rewards and observations tell their steps apart."""
    demos = demonstrations(spec, LENGTHS)
    last, count = np.cumsum(LENGTHS) - 1, sum(LENGTHS)
    done, interrupted = np.zeros(count, bool), np.zeros(count, bool)
    for row, end in zip(last, ends, strict=True):
        done[row], interrupted[row] = end != "cut", end == "interrupted"
    number = np.arange(count, dtype=np.float32)
    mask = np.zeros((count, 3), bool)
    mask[last] = [True, False, False]
    return replace(
        demos,
        obs=[np.stack([number, -number], 1), *demos.obs[1:]],
        next_obs=[np.full((len(LENGTHS), 2), 100.0, np.float32) + np.arange(3)[:, None], *demos.next_obs[1:]],
        reward=number + 1,
        group_reward=np.full(count, 0.25, np.float32),
        done=done,
        interrupted=interrupted,
        action_mask=mask,
    )


def plain(demos, row, n):
    """Return, discount, and the observation where the return of a step bootstraps, by the definition."""
    episode = int(np.searchsorted(np.cumsum(LENGTHS), row, side="right"))
    last = int(np.cumsum(LENGTHS)[episode]) - 1
    steps = range(row, min(row + n, last + 1))
    total = sum(GAMMA**k * demos.rewards[at] for k, at in enumerate(steps))
    at = steps[-1]
    ended = at == last and demos.done[last] and not demos.interrupted[last]
    following = demos.next_obs[0][episode] if at == last else demos.obs[0][at + 1]
    return total, 0.0 if ended else GAMMA ** len(steps), following


def sources(demos, *, share=0.5, spec=SPEC, **layout):
    """A replay of another agent's steps, whose observations are all -1000, and the demonstrations."""
    own = ReplayLayout.of(spec, 400, 1, **layout)
    rollout = rollout_of(demos)
    demonstrated = DemonstrationReplay(rollout, demos.rewards[:, None], own, share)
    replay = Replay(own, 0.6 if own.prioritized else None)
    other = make_rollout([20, 20], [np.full((40, 2), -1000, np.float32)], branches=(3,))
    other.continuous = np.zeros((40, 1), np.float32)
    extra = {column.name: np.ones((40, *column.shape), np.float32) for column in own.extra}
    replay.append(other, np.zeros((40, 1), np.float32), extra)
    return replay, demonstrated


def sampler(n_step=1, **more):
    return ReplaySampler([GAMMA], [False], torch.device("cpu"), 0, n_step, **more)


@pytest.mark.parametrize("prioritized", [False, True])
@pytest.mark.parametrize("n", [1, 3])
def test_transitions_are_those_of_a_plain_computation(n, prioritized):
    demos = recorded()
    replay, demonstrated = sources(demos, prioritized=prioritized)
    draws, met = sampler(n), set()
    for _ in range(40):
        batch = draws.batch(replay, 8, demonstrations=demonstrated)
        assert (batch.obs[0][:4] == -1000).all(), "the steps of the replay come first"
        for at in range(4, 8):
            row = int(batch.obs[0][at, 0])
            met.add(row)
            total, discount, following = plain(demos, row, n)
            assert batch.rewards[at, 0] == pytest.approx(total)
            assert batch.discounts[at, 0] == pytest.approx(discount)
            np.testing.assert_array_equal(batch.next_obs[0][at], following)
            assert batch.actions.continuous[at] == demos.continuous[row]
            assert batch.actions.discrete[at] == demos.discrete[row]
            np.testing.assert_array_equal(batch.action_mask[at], demos.action_mask[row])
        assert not batch.action_mask[:4].any(), "nothing was forbidden in the replay"
        assert batch.weights is None or (batch.weights[4:] == 1).all()
        draws.update_priorities(replay, torch.full((8,), 2.0))
    assert met == set(range(sum(LENGTHS)))


@given(units=st.integers(2, 300), share=st.floats(0.001, 0.999))
def test_both_sources_give_something_and_the_demonstrations_their_share(units, share):
    given_by = DemonstrationReplay.__new__(DemonstrationReplay)
    given_by.share = share
    count = given_by.units(units)
    assert 1 <= count <= units - 1
    assert abs(count - share * units) <= 0.5 or count in (1, units - 1)


def test_only_the_replays_steps_get_priorities():
    replay, demonstrated = sources(recorded(), prioritized=True, share=0.25)
    draws, seen = sampler(), []
    replay.priorities.update = lambda units, sizes: seen.append((units, sizes))
    batch = draws.batch(replay, 8, demonstrations=demonstrated)
    draws.update_priorities(replay, torch.arange(8.0))
    (units, sizes), *_ = seen
    assert len(units) == 6 and sizes.tolist() == [0, 1, 2, 3, 4, 5] and len(batch) == 8


def test_whole_sequences_are_drawn_and_start_without_a_memory():
    demos = recorded()
    extra = (ExtraColumn("value_states", (2,)),)
    replay, demonstrated = sources(demos, sequence_length=4, memory_size=6, extra=extra, prioritized=True)
    draws, seen = sampler(), []
    replay.priorities.update = lambda units, sizes: seen.append(len(units))
    found = set()
    for _ in range(30):
        batch = draws.batch(replay, 16, demonstrations=demonstrated)
        assert len(batch) == 16 and batch.states.shape == (4, 6) and not batch.states[2:].any()
        assert not batch.extra["value_states"][8:].any() and batch.extra["value_states"][:8].any()
        rows = batch.obs[0][8:, 0].reshape(2, 4).tolist()
        found |= {tuple(row) for row in rows}
        assert batch.real[8:].reshape(2, 4).tolist() == [
            [True] * 4
            if row[0] in (0, 5)
            else [True, False, False, False]
            if row[0] == 4
            else [True] * 2 + [False] * 2
            for row in rows
        ]
        draws.update_priorities(replay, torch.ones(8))  # of the steps after a burn-in of two
    assert found == {(0, 1, 2, 3), (4, 0, 0, 0), (5, 6, 7, 8), (9, 10, 0, 0)} and set(seen) == {2}


def test_without_demonstrations_the_draw_is_as_before():
    replay, demonstrated = sources(recorded())
    alone, first, second = (sampler() for _ in range(3))
    uniform = torch.rand(8, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    alone.batch(replay, 8)
    assert alone._units.tolist() == replay.sample(uniform).tolist()
    first.batch(replay, 8, demonstrations=demonstrated)
    second.load_state_dict(first.state_dict())
    ends = [one.batch(replay, 8, demonstrations=demonstrated) for one in (first, second)]
    assert torch.equal(ends[0].obs[0], ends[1].obs[0]), "one generator draws from both"


@pytest.mark.parametrize("demonstrated_bytes", [False, True])
@pytest.mark.parametrize("stack", [1, 2])
def test_pictures_of_two_kinds_are_joined_as_numbers(demonstrated_bytes, stack):
    spec = spec_of_shapes([[2, 3, 3]], continuous=1, branches=(3,))
    picture = np.full((sum(LENGTHS), 2, 3, 3), 51, np.uint8)
    demos = demonstrations(spec, LENGTHS)
    kinds = {False: picture.astype(np.float32) / 255, True: picture}
    of_demo = kinds[demonstrated_bytes]
    demos = replace(demos, obs=[of_demo], next_obs=[of_demo[:3]])
    own = ReplayLayout.of(spec, 400, 1, frame_stack=stack)
    demonstrated = DemonstrationReplay(rollout_of(demos), demos.rewards[:, None], own, 0.5)
    for kind, pixels in kinds.items():
        replay = Replay(replace(own, dtypes=(pixels.dtype,)))
        other = make_rollout([5], [pixels[:5]], next_obs=[pixels[:1]], branches=(3,))
        other.continuous = np.zeros((5, 1), np.float32)
        replay.append(other, np.zeros((5, 1), np.float32))
        batch = sampler().batch(replay, 8, demonstrations=demonstrated)
        both = kind and demonstrated_bytes
        assert batch.obs[0].dtype == (torch.uint8 if both else torch.float32)
        for obs in (batch.obs[0], batch.next_obs[0]):
            torch.testing.assert_close(obs.float(), torch.full_like(obs, 51 if both else 0.2).float())


@given(share=st.floats(0.01, 0.99), first=st.integers(1, 9), second=st.integers(1, 9))
def test_rewards_are_divided_by_the_deviation_of_what_a_minibatch_holds(share, first, second):
    """Of sparse rewards that agents have not found yet, it would be 0 in their own steps."""
    random = np.random.default_rng(first * 10 + second)
    scalers, returns = [], []
    for steps, factor in ((first, 0.0), (second, 5.0)):
        rewards = (factor * random.normal(1, 1, (steps, 1))).astype(np.float32)
        scaler = RewardScaler([GAMMA])
        scaler.update(make_rollout([steps]), rewards)
        sums, total = [], 0.0
        for reward in rewards[:, 0].astype(float):
            total = GAMMA * total + reward
            sums.append(total)
        scalers.append(scaler)
        returns.append(np.array(sums))
    weights = np.repeat([(1 - share) / first, share / second], [first, second])
    values = np.concatenate(returns)
    wanted = np.sqrt((weights * (values - (weights * values).sum()) ** 2).sum() + 1e-8)
    assert scalers[0].deviation(scalers[1], share) == pytest.approx(wanted, rel=1e-4)
