"""PPO with a memory: whole sequences, their own gradient, and tasks that cannot be done without."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.agent_processor.rollout import build_rollout
from lanista.agent_processor.trajectory import AgentKey
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.ppo.ppo import PPO
from lanista.trainers.buffers.rollout_buffer import RolloutBatch, RolloutBuffer, normalized
from lanista.trainers.settings.models.behavior import TrainerSettings
from ppo_objective import ppo_objective
from remembertask import RememberTask
from rollouts import recurrent_rollout
from specs import vector_spec

CPU = torch.device("cpu")
A, B = AgentKey(0, 1), AgentKey(0, 2)
ZERO_REWARD = {"extrinsic": False}


def algorithm(spec, kind="lstm", length=3, memory_size=4, seed=0, network=None, **hyper):
    config = TrainerSettings.model_validate(
        {
            "trainer_type": "ppo",
            "hyperparameters": {"batch_size": 2 * length, "buffer_size": 64, **hyper},
            "network_settings": {
                "hidden_units": 16,
                "num_layers": 1,
                "memory": {"memory_type": kind, "sequence_length": length, "memory_size": memory_size},
                **(network or {}),
            },
            "max_steps": 10**6,
        }
    )
    return PPO(spec, config, CPU, seed, NonFinitePolicy.STOP)


def evaluated(ppo, rollout):
    rewards = {"extrinsic": np.random.default_rng(1).normal(size=rollout.steps).astype(np.float32)}
    return ppo.evaluate(rollout, rewards, ZERO_REWARD).steps


def buffered(ppo, parts=4):
    """Steps of several rollouts of two agents, 5 and 3 steps each time: 9 rows of 3 sequences."""
    buffer = RolloutBuffer(ppo.steps_type)
    for k in range(parts):
        buffer.append(evaluated(ppo, recurrent_rollout([5, 3], [A, B], [k == 0] * 2)))
    return buffer


def batch_of(ppo, steps):
    inputs = ppo.network.prepare([torch.from_numpy(o) for o in steps.obs])
    return RolloutBatch.of(steps, inputs, CPU)


def test_the_buffer_counts_padding_and_survives_a_checkpoint():
    ppo = algorithm(vector_spec([3], 1))
    buffer = buffered(ppo)
    assert len(buffer) == 4 * 9
    other = RolloutBuffer(ppo.steps_type)
    other.load_state_dict(buffer.state_dict())
    for name in ("memory", "critic_memory", "real"):
        np.testing.assert_array_equal(getattr(other.columns(), name), getattr(buffer.columns(), name))
    assert len(buffer.columns().memory) == 4 * 3


def test_minibatches_are_whole_sequences_with_their_own_states():
    ppo = algorithm(vector_spec([3], 1), batch_size=8)
    columns = batch_of(ppo, buffered(ppo).columns())
    rows = torch.arange(36.0)
    numbered = columns._replace(
        real=None,
        old_log_probs=rows[:, None],
        actor_states=rows[::3, None],
        critic_states=rows[::3, None] + 0.5,
    )
    epochs = [list(numbered.minibatches(8, ppo.shuffler, 3)) for _ in range(2)]
    for minibatches in epochs:
        seen = []
        assert len(minibatches) == 6, "8 rows hold two sequences of 3"
        for batch in minibatches:
            of_sequences = batch.old_log_probs.view(2, 3)
            assert torch.equal(of_sequences, of_sequences[:, :1] + torch.arange(3.0))
            assert torch.equal(batch.actor_states, of_sequences[:, :1])
            assert torch.equal(batch.critic_states, of_sequences[:, :1] + 0.5)
            seen += of_sequences[:, 0].tolist()
        assert sorted(seen) == rows[::3].tolist()
    assert not torch.equal(epochs[0][0].old_log_probs, epochs[1][0].old_log_probs)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 5), min_size=4, max_size=12), st.integers(1, 4), st.integers(0, 9))
def test_minibatches_end_with_their_longest_sequence(lengths, together, seed):
    """No real step is lost, and no sequence goes on where all of its minibatch have ended."""
    ppo, count = algorithm(vector_spec([3], 1), length=5), len(lengths)
    ends = [k % 2 == 0 for k in range(count)]
    steps = evaluated(ppo, recurrent_rollout(lengths, [AgentKey(0, k) for k in range(count)], ends))
    numbers = torch.arange(5.0 * count)[:, None]
    columns = batch_of(ppo, steps)._replace(old_log_probs=numbers, actor_states=numbers[::5])
    generator = torch.Generator().manual_seed(seed)
    minibatches = list(columns.minibatches(5 * together, generator, 5))
    assert len(minibatches) == count // together
    for batch in minibatches:
        first = batch.actor_states.long().flatten()
        whose = [lengths[row // 5] for row in first.tolist()]
        assert batch.length == max(whose)
        wanted = first[:, None] + torch.arange(batch.length)
        assert torch.equal(batch.old_log_probs.long(), wanted.view(-1, 1))
        assert batch.real.view(together, -1).sum(1).tolist() == whose


def test_fewer_sequences_than_a_minibatch_are_said_and_change_nothing(caplog):
    """12 sequences, where minibatches have 13."""
    ppo = algorithm(vector_spec([3], 1), batch_size=39)
    before = ppo.optimizer.flat.vector.clone()
    assert "Losses/Policy Loss" not in ppo.update(buffered(ppo).columns(), 0)
    assert "36 steps are no whole minibatch of batch_size 39" in caplog.text
    assert torch.equal(ppo.optimizer.flat.vector, before)


def test_padding_counts_in_the_normalization_of_advantages_unless_it_is_left_out():
    """As in ML-Agents by default, where the zeros of padding make the advantages of real steps larger."""
    gradients = {}
    for normalize_padding in (True, False):
        ppo = algorithm(vector_spec([3], 1), normalize_padding=normalize_padding, batch_size=36)
        steps = buffered(ppo).columns()
        found = normalized(steps.advantages, None if normalize_padding else steps.real)
        rows = slice(None) if normalize_padding else steps.real
        assert not steps.real.all() and abs(found[rows].mean()) < 1e-6
        assert found[rows].std() == pytest.approx(1, abs=1e-5)
        ppo.optimizer.step = lambda *_, ppo=ppo, of=normalize_padding: gradients.setdefault(
            of, ppo.optimizer.flat.gradient.clone()
        )
        ppo.update(steps, 0)
    assert not torch.allclose(gradients[True], gradients[False])


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("clip", [False, True])
def test_padding_does_not_affect_learning(kind, shared, clip):
    """The gradient of a padded minibatch is the one of its real steps, computed one by one."""
    ppo = algorithm(vector_spec([3], 1), kind, shared_critic=shared, clip_value_loss=clip)
    steps = buffered(ppo, 1).columns()
    batch, gradients = batch_of(ppo, steps), []
    assert not batch.real.all()
    ppo.hyper.num_epoch, ppo.hyper.batch_size = 1, len(steps)
    _, epsilon, beta = ppo.schedules.at(0)
    ppo.optimizer.step = lambda *_: gradients.append(ppo.optimizer.flat.gradient.clone())
    ppo.update(steps, 0)
    (got,) = gradients
    net, outcomes = ppo.network, []
    for s in range(3):
        state = batch.actor_states[s : s + 1]
        of_critic = state if shared else batch.critic_states[s : s + 1]
        for row in range(3 * s, 3 * s + 3):
            if batch.real[row]:
                inputs = [x[row : row + 1] for x in batch.inputs]
                distribution, values = net.evaluate_with_memory(inputs, state, of_critic, 1)
                actions = batch.actions._replace(
                    continuous=batch.actions.continuous[row : row + 1],
                    discrete=batch.actions.discrete[row : row + 1],
                )
                outcomes.append((distribution.log_probs(actions), distribution.entropy(), values))
                _, after = net.act_with_memory(inputs, state)
                of_critic = after if shared else net.memory(-1)(net.critic_encoding(inputs), of_critic, 1)[1]
                state = after
    log_probs, entropy, values = (torch.cat(parts) for parts in zip(*outcomes))
    old, adv, ret = (x[batch.real] for x in (batch.old_log_probs, batch.advantages, batch.returns))
    total, *_ = ppo_objective(log_probs, old, adv, entropy, values, ret, epsilon, beta)
    if clip:
        plain, before = (ret - values) ** 2, batch.old_values[batch.real]
        clipped = (ret - (before + (values - before).clamp(-epsilon, epsilon))) ** 2
        total = total + 0.5 * (torch.maximum(plain, clipped).mean() - plain.mean())
    ppo.optimizer.flat.zero_grad()
    total.backward()
    torch.testing.assert_close(got, ppo.optimizer.flat.gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_it_learns_a_task_that_needs_a_memory(kind):
    """Say at the end which of two signs was shown at the beginning: half of that is luck without a memory."""
    task = RememberTask(agents=16, seed=0)
    hyper = {"learning_rate": 5e-3, "beta": 1e-3, "num_epoch": 4, "learning_rate_schedule": "constant"}
    ppo = algorithm(
        task.spec,
        kind,
        length=task.LENGTH,
        memory_size=16,
        network={"hidden_units": 16},
        **hyper,
        batch_size=32,
    )
    task.start(ppo.network)
    buffer = RolloutBuffer(ppo.steps_type)
    for _ in range(60):
        collected = task.episodes()
        rollout = build_rollout(collected, with_teammates=False)
        buffer.append(ppo.evaluate(rollout, {"extrinsic": rollout.reward}, ZERO_REWARD).steps)
        ppo.update(buffer.columns(), 0)
        buffer.clear()
        if task.recent() > 0.95:
            break
    assert task.recent() > 0.95
    assert len(ppo.memories) == 0, "every episode has ended"
