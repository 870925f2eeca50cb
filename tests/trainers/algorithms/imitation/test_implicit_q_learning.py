"""Implicit Q-learning against its formulas and torch's own Adam; what it makes of mixed demonstrations."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.optim import FlatParameters
from lanista.trainers.algorithms.imitation.behavioral_cloning import BehavioralCloning, ClonedPolicy
from lanista.trainers.algorithms.imitation.implicit_q_learning import (
    EFFECTIVE_SHARE,
    Q_LOSS,
    SCALE_STEP,
    VALUE_LOSS,
    ImplicitQLearning,
    advantage_weights,
    expectile_loss,
)
from lanista.trainers.algorithms.imitation.losses import cloning_loss
from lanista.trainers.networks.actor import Actor
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.models.rewards import BehavioralCloningSettings, IQLSettings
from rollouts import demonstrations
from specs import vector_spec

SMALL = NetworkSettings(hidden_units=16, num_layers=1)
GAMMA, RATE = 0.9, 1e-2


def recorded(lengths, continuous=1, branches=(3,), seed=0):
    """Episodes with random actions and rewards; every second one was interrupted, and the last goes on."""
    random, n = np.random.default_rng(seed), sum(lengths)

    def acted(_):
        chosen = [random.integers(0, size, n) for size in branches]
        discrete = np.stack(chosen, 1).astype(np.int32) if branches else np.zeros((n, 0), np.int32)
        return random.uniform(-1.2, 1.2, (n, continuous)).astype(np.float32), discrete

    demos = demonstrations(vector_spec([2], continuous, branches), lengths, seed, acted)
    ends = np.cumsum(lengths) - 1
    interrupted, done = demos.interrupted.copy(), demos.done.copy()
    interrupted[ends[::2]], done[ends[-1]] = True, False
    rewards = random.normal(size=(2, n)).astype(np.float32)
    finals = [random.normal(size=(len(lengths), 2)).astype(np.float32)]
    changed = {"reward": rewards[0], "group_reward": rewards[1], "done": done, "interrupted": interrupted}
    return replace(demos, **changed, next_obs=finals)


def learner(demos, seed=0, **settings):
    return ImplicitQLearning(
        demos,
        SMALL,
        IQLSettings(**settings),
        gamma=GAMMA,
        learning_rate=RATE,
        device=torch.device("cpu"),
        seed=seed,
        non_finite=NonFinitePolicy.STOP,
    )


def test_the_expectile_loss_is_that_of_the_paper():
    errors = np.random.default_rng(0).normal(size=50)
    for expectile in (0.5, 0.7, 0.95):
        expected = np.mean([abs(expectile - (u < 0)) * u**2 for u in errors])
        assert expectile_loss(torch.tensor(errors), expectile).item() == pytest.approx(expected, rel=1e-6)


def test_what_minimizes_the_expectile_loss_rises_from_the_mean_to_the_best():
    returns = torch.tensor([0.0, 0.0, 0.0, 1.0])
    grid = torch.linspace(0, 1, 1001)
    best = [
        float(grid[torch.stack([expectile_loss(returns - v, e) for v in grid]).argmin()])
        for e in (0.5, 0.8, 0.99)
    ]
    # 3 (1 - e) v = e (1 - v)
    assert best == pytest.approx([0.25, 0.8 / 1.4, 0.99 / 1.02], abs=2e-3)


def test_weights_grow_with_the_advantage_up_to_a_limit():
    found = advantage_weights(torch.tensor([-1.0, 0.0, 1.0, 9.0]), 2.0)
    np.testing.assert_allclose(found, [np.exp(-2), 1, np.exp(2), 100], rtol=1e-6)
    assert advantage_weights(torch.randn(5), 0.0).tolist() == [1.0] * 5


def test_weights_count_by_row_in_the_loss_of_the_policy():
    random = np.random.default_rng(0)
    errors, choices, weights = (random.normal(size=size).astype(np.float32) for size in ((6, 2), (6, 3), 6))
    found = cloning_loss(torch.tensor(errors), torch.tensor(choices), weights=torch.tensor(weights))
    expected = np.mean([w * e**2 for w, row in zip(weights, errors) for e in row])
    expected += np.mean([w * c for w, row in zip(weights, choices) for c in row])
    assert found.item() == pytest.approx(expected, rel=1e-5)
    same = cloning_loss(torch.tensor(errors), torch.tensor(choices), weights=torch.ones(6))
    assert same == cloning_loss(torch.tensor(errors), torch.tensor(choices))


def test_the_next_observation_is_that_of_the_same_episode():
    demos = recorded([3, 1, 4])
    rows = torch.tensor([7, 0, 3, 2, 4])
    (found,) = learner(demos).next_obs([torch.from_numpy(demos.obs[0])], rows)
    own, finals = demos.obs[0], demos.next_obs[0]
    np.testing.assert_array_equal(found, np.stack([finals[2], own[1], finals[1], finals[0], own[5]]))


@pytest.mark.parametrize("continuous, branches", [(2, ()), (0, (3, 2)), (1, (3,))], ids=str)
def test_two_steps_are_those_of_the_formulas(continuous, branches):
    """Q and V of an independent computation, with torch's Adam, from the same weights."""
    demos = recorded([4, 5, 3, 4], continuous, branches)
    settings = {"expectile": 0.8, "inverse_temperature": 1.5, "tau": 0.1}
    iql = learner(demos, **settings)
    value, q, target = (copy.deepcopy(part) for part in (iql.value, iql.q, iql.target.network))
    optimizers = [torch.optim.Adam(part.parameters(), RATE) for part in (value, q)]
    obs, finals = torch.from_numpy(demos.obs[0]), torch.from_numpy(demos.next_obs[0])
    hot = [np.eye(size, dtype=np.float32)[demos.discrete[:, k]] for k, size in enumerate(branches)]
    acted = torch.from_numpy(np.concatenate([np.clip(demos.continuous, -1, 1), *hot], 1))
    episode = np.repeat(np.arange(4), demos.lengths)
    scale = None
    for step, rows in enumerate(([0, 3, 8, 12], [15, 3, 2, 11])):
        following = torch.stack(
            [finals[episode[r]] if r + 1 in np.cumsum(demos.lengths) else obs[r + 1] for r in rows]
        )
        goes_on = torch.tensor([not demos.done[r] or bool(demos.interrupted[r]) for r in rows])
        rewards = torch.tensor([float(demos.reward[r]) + float(demos.group_reward[r]) for r in rows])
        with torch.no_grad():
            y = rewards + GAMMA * goes_on * value([following])[:, 0]
            smaller = target([obs[rows]], acted[rows])[:, :, 0].min(0).values
        advantage = smaller - value([obs[rows]])[:, 0]
        losses = [
            torch.stack([abs(0.8 - float(u < 0)) * u**2 for u in advantage]).mean(),
            sum(((y - each[:, 0]) ** 2).mean() for each in q([obs[rows]], acted[rows])),
        ]
        for optimizer, loss in zip(optimizers, losses):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), q.parameters()):
                slow += 0.1 * (fast - slow)
        found = advantage.detach().square().mean().sqrt()
        scale = found if scale is None else (1 - SCALE_STEP) * scale + SCALE_STEP * found
        weights = torch.exp(1.5 * advantage.detach() / scale).clamp(max=100)

        at = torch.tensor(rows)
        inputs, next_inputs = [obs[rows]], iql.next_obs([obs], at)
        torch.testing.assert_close(iql.step(at, inputs, next_inputs, 0), weights, rtol=1e-4, atol=1e-5)
        metrics = iql.pop_metrics()
        assert metrics[VALUE_LOSS] == pytest.approx(losses[0].item(), rel=1e-4)
        assert metrics[Q_LOSS] == pytest.approx(losses[1].item(), rel=1e-4)
        effective = float(weights.sum() ** 2 / (weights**2).sum() / 4)
        assert metrics[EFFECTIVE_SHARE] == pytest.approx(effective, rel=1e-4)
        pairs = ((iql.value, value), (iql.q, q), (iql.target.network, target))
        for part, expected in pairs:
            for ours, theirs in zip(part.parameters(), expected.parameters(), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=f"step {step}")


def cloned(demos, values, steps=600):
    """The policy after so many epochs over the demonstrations."""
    torch.manual_seed(0)
    policy = Actor(demos.spec, SMALL)
    cloning = BehavioralCloning(
        ClonedPolicy(policy, FlatParameters(policy.parameters())),
        demos,
        BehavioralCloningSettings(demo_path="-"),
        learning_rate=3e-3,
        batch_size=128,
        sequence_length=1,
        device=torch.device("cpu"),
        seed=0,
        non_finite=NonFinitePolicy.STOP,
        as_engine=True,
        values=values,
    )
    for step in range(steps):
        cloning.epoch(step, 1)
    return policy


def corridor(length=5, episodes=150):
    """Random walks from 0 to an end worth 1, over an end on the other side worth 0.1; actions of both kinds.

    The branch moves to the left (0), as it mostly does, or to the right (1); a continuous action below 0
    loses 0.2.
    """
    random = np.random.default_rng(0)
    columns = {name: [] for name in ("obs", "continuous", "discrete", "reward", "done")}
    lengths, finals = [], []
    for _ in range(episodes):
        place, steps = 0, 0
        while abs(place) < length:
            move, push = int(random.random() < 0.45), float(random.uniform(-1, 1))
            columns["obs"].append([place / length, 1.0])
            columns["discrete"].append([move])
            columns["continuous"].append([push])
            place, steps = place + (1 if move else -1), steps + 1
            reward = {length: 1.0, -length: 0.1}.get(place, 0.0) - 0.2 * (push < 0)
            columns["reward"].append(reward)
            columns["done"].append(abs(place) == length)
        lengths.append(steps)
        finals.append([place / length, 1.0])
    demos = demonstrations(vector_spec([2], 1, (2,)), lengths)
    kinds = {"discrete": np.int32, "done": np.bool_}
    arrays = {name: np.array(each, kinds.get(name, np.float32)) for name, each in columns.items()}
    arrays["obs"] = [arrays["obs"]]
    return replace(demos, **arrays, next_obs=[np.array(finals, np.float32)])


@pytest.mark.slow
def test_what_earned_more_is_imitated_where_most_did_something_else():
    demos = corridor()
    seen = [torch.tensor([[place / 5, 1.0] for place in range(5)])]
    plain, better = cloned(demos, None), cloned(demos, learner(demos, inverse_temperature=3.0))
    with torch.no_grad():
        bc, iql = (policy.act(policy.prepare(seen)).deterministic() for policy in (plain, better))
    assert bc.discrete[:, 0].float().mean() < 0.5, "most recorded moves are to the left"
    assert iql.discrete[:, 0].tolist() == [1] * 5
    assert bc.continuous.abs().mean() < 0.5 and bool((iql.continuous > 0).all())
