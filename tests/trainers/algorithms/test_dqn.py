"""DQN's gradient step is the papers': beside a reference that goes through steps and branches one by one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from lanista.trainers.algorithms.common.actions import UnsupportedActionError
from lanista.trainers.algorithms.dqn import DQN
from lanista.trainers.networks.modules.memory import Memory
from replaybatches import algorithm, batch, copied, swish
from specs import vector_spec

BRANCHES = (3, 2)
SPEC = vector_spec([4], 0, BRANCHES)
RATE = 1e-2


def dqn(signals=("extrinsic",), spec=SPEC, network=None, **hyper):
    hyper = {"learning_rate": RATE, "target_update_interval": 2, **hyper}
    return algorithm(DQN, spec, "dqn", hyper, network, signals)


def q_values(weights, row, signals, dueling):
    """[signals][branch] -> values, of one observation."""
    hidden = swish(row @ weights["body.layers.0.weight"][0] + weights["body.layers.0.bias"][0, 0])
    out = hidden @ weights["actions.weight"] + weights["actions.bias"]
    found, column = [], 0
    for s in range(signals):
        of_signal = []
        for size in BRANCHES:
            values = out[column : column + size]
            column += size
            if dueling:
                state = hidden @ weights["actions.value_weight"][:, s] + weights["actions.value_bias"][s]
                values = state + values - sum(values) / size
            of_signal.append(values)
        found.append(of_signal)
    return found


def best_actions(q, forbidden):
    best, start = [], 0
    for k, size in enumerate(BRANCHES):
        total = [sum(of_signal[k][a].item() for of_signal in q) for a in range(size)]
        free = [a for a in range(size) if forbidden is None or not forbidden[start + a]]
        best.append(max(free, key=lambda a: total[a]))
        start += size
    return best


def reference_loss(weights, target, given, signals, dueling, double):
    total = 0.0
    for b in range(len(given)):
        forbidden = None if given.next_action_mask is None else given.next_action_mask[b].tolist()
        of_target = q_values(target, given.next_obs[0][b], signals, dueling)
        chooser = q_values(weights, given.next_obs[0][b], signals, dueling) if double else of_target
        best = best_actions(chooser, forbidden)
        q = q_values(weights, given.obs[0][b], signals, dueling)
        for s in range(signals):
            value = np.mean([of_target[s][k][best[k]].item() for k in range(len(BRANCHES))])
            y = given.rewards[b, s] + given.discounts[b, s] * value
            for k in range(len(BRANCHES)):
                error = (q[s][k][given.actions.discrete[b, k]] - y).abs()
                huber = 0.5 * error**2 if error < 1 else error - 0.5
                weight = 1.0 if given.weights is None else given.weights[b]
                total = total + weight * huber / (signals * len(BRANCHES) * len(given))
    return total


@pytest.mark.slow
@pytest.mark.parametrize("tau", [None, 0.25])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("double", "dueling", "signals"), [(True, False, 1), (False, False, 2), (True, True, 1), (True, True, 2)]
)
def test_gradient_steps_are_the_references(double, dueling, signals, masked, tau):
    names = ["extrinsic", "other"][:signals]
    learner = dqn(names, double=double, dueling=dueling, tau=tau)
    weights = copied(learner.network)
    target = copied(learner.network)
    adam = torch.optim.Adam(weights.values(), lr=RATE)
    for step in range(1, 6):
        given = batch(SPEC, 7, signals, step, masked=masked, weighted=masked)
        result = learner.update(given, step)
        loss = reference_loss(weights, target, given, signals, dueling, double)
        assert result.metrics["Losses/Value Loss"] == pytest.approx(loss.item(), rel=1e-4)
        adam.zero_grad()
        loss.backward()
        adam.step()
        share = tau if tau is not None else float(step % 2 == 0)
        with torch.no_grad():
            for name, weight in weights.items():
                target[name] += share * (weight - target[name])
    for name, weight in learner.network.named_parameters():
        torch.testing.assert_close(weight, weights[name], rtol=1e-3, atol=1e-5)
    for name, weight in learner.target.network.named_parameters():
        torch.testing.assert_close(weight, target[name], rtol=1e-3, atol=1e-5)


def test_the_errors_are_those_of_each_step():
    learner, given = dqn(), batch(SPEC, 5, seed=3)
    weights = copied(learner.network)
    expected = []
    for b in range(5):
        q = q_values(weights, given.obs[0][b], 1, False)[0]
        following = q_values(weights, given.next_obs[0][b], 1, False)[0]
        y = given.rewards[b, 0] + given.discounts[b, 0] * sum(max(v.tolist()) for v in following) / 2
        expected.append(np.mean([abs(float(q[k][given.actions.discrete[b, k]] - y)) for k in range(2)]))
    np.testing.assert_allclose(learner.update(given, 1).td_errors, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_the_value_after_a_step_uses_the_memory_of_all_previous_steps(kind):
    length, sequences = 3, 2
    memory = {"memory": {"memory_type": kind, "memory_size": 6, "sequence_length": length}}
    learner = dqn(network=memory, double=False)
    given = batch(SPEC, length * sequences, states=torch.randn(sequences, 6))
    last = torch.arange(length * sequences) % length == length - 1
    given.next_obs[0][~last] = given.obs[0][torch.arange(1, 1 + len(given)) % len(given)][~last]
    real = torch.tensor([True] * 5 + [False])
    given = replace(given, real=real)

    network, total = learner.network, 0.0
    recurrent = network.memory(0)
    assert isinstance(recurrent, Memory)

    def after(row, state):
        said, state = recurrent(network.actor_encoding([row[None]]), state, 1)
        return network.actions.q(said)[0, 0], state

    with torch.no_grad():
        for s in range(sequences):
            state = given.states[s : s + 1]
            for b in range(s * length, (s + 1) * length):
                q, state = after(given.obs[0][b], state)
                following, _ = after(given.next_obs[0][b], state)
                y = (
                    given.rewards[b, 0]
                    + given.discounts[b, 0] * (following[:3].max() + following[3:].max()) / 2
                )
                for k, column in enumerate((0, 3)):
                    error = (q[column + given.actions.discrete[b, k]] - y).abs()
                    total += float(real[b] * (0.5 * error**2 if error < 1 else error - 0.5)) / 2
    found = learner.update(given, 1).metrics["Losses/Value Loss"]
    assert found == pytest.approx(total / 5, rel=1e-4)


def test_padding_teaches_nothing():
    memory = {"memory": {"memory_size": 6, "sequence_length": 3}}
    given = batch(SPEC, 6, states=torch.zeros(2, 6), real=torch.tensor([True, True, False] * 2))
    padding = ~given.real
    other = replace(given, rewards=given.rewards.masked_fill(padding[:, None], 100.0))
    for first, second in ((given, other),):
        one, two = dqn(network=memory), dqn(network=memory)
        one.update(first, 1)
        two.update(second, 1)
        assert torch.equal(one.optimizer.flat.vector, two.optimizer.flat.vector)


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (vector_spec([2], 2), "2 continuous"),
        (vector_spec([2], 1, (3,)), "1 continuous"),
        (vector_spec([2]), "no"),
    ],
)
def test_other_actions_are_refused_with_the_right_trainers(spec, found):
    with pytest.raises(UnsupportedActionError, match=f"{found}.*sac.*td3"):
        dqn(spec=spec)


@pytest.mark.slow
def test_it_learns_a_table():
    """Two states, three actions: the values become those of the Bellman equation."""
    spec = vector_spec([2], 0, (3,))
    learner = dqn(spec=spec, learning_rate=5e-3, target_update_interval=20)
    rewards, following = np.array([[0.0, 1.0, 0.2], [0.5, 0.0, 0.0]]), np.array([[0, 0, 1], [1, 0, 1]])
    q = np.zeros((2, 3))
    for _ in range(200):
        q = rewards + 0.5 * q.max(1)[following]
    states, actions = np.repeat([0, 1], 3), np.tile(np.arange(3), 2)
    eye = torch.eye(2)
    given = batch(spec, 6)
    given = replace(
        given,
        obs=[eye[states]],
        next_obs=[eye[following[states, actions]]],
        actions=given.actions._replace(discrete=torch.from_numpy(actions[:, None])),
        rewards=torch.from_numpy(rewards[states, actions][:, None]).float(),
        discounts=torch.full((6, 1), 0.5),
    )
    for step in range(800):
        learner.update(given, step)
    with torch.no_grad():
        found = learner.network.actions.q(learner.network.actor_encoding([eye]))[:, 0]
    np.testing.assert_allclose(found, q, atol=0.02)
