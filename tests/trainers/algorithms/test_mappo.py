"""MAPPO: generalized advantages of the team's value, and PPO's objective with that value."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from lanista.agent_processor.rollout import pad_sequences
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.mappo import MAPPO
from lanista.trainers.algorithms.poca.minibatches import TeamMinibatches
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.buffers.columns import joined
from lanista.trainers.networks.modules.distributions import Actions
from lanista.trainers.networks.team_critic import TeamSets
from lanista.trainers.settings.models.behavior import TrainerSettings
from rollouts import team_rollout
from specs import vector_spec

SPEC = vector_spec([3], 1, (2,))
GAMMA, LAMBDA = 0.9, 0.8


def algorithm(kind=MAPPO, memory=None, **hyper):
    network = {"hidden_units": 8, "num_layers": 1, "memory": memory}
    settings = TrainerSettings.model_validate(
        {
            "trainer_type": kind.name.lower(),
            "hyperparameters": {"batch_size": 16, "lambd": LAMBDA, **hyper},
            "network_settings": network,
            "reward_signals": {"extrinsic": {"gamma": GAMMA}},
        }
    )
    made = kind(SPEC, settings, torch.device("cpu"), 0, NonFinitePolicy.STOP)
    for parameter in made.critic.parameters():
        parameter.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    return made


def evaluated(mappo, rollout):
    return mappo.evaluate(rollout, {"extrinsic": rollout.reward[: rollout.steps]}, {"extrinsic": False})


def value(mappo, obs):
    """The critic's value of one set, by itself."""
    inputs = mappo.network.prepare([torch.from_numpy(obs)])
    return mappo.critic.value(inputs, TeamSets(((len(obs), 1),)))[0, 0]


def own_set(rollout, step):
    return rollout.obs[0][[step, *(m for m in rollout.teammates[step] if m >= 0)]]


def rewarded(generator, sizes, length, **columns):
    reward = generator.normal(size=sum(sizes) * length).astype(np.float32)
    return team_rollout(generator, sizes, length, reward=reward, **columns)


def test_advantages_are_generalized_advantages_of_the_values_of_teams():
    """delta = r + gamma V' - V, summed with gamma lambda; what follows a dead member is its mates' value."""
    generator = np.random.default_rng(0)
    following = generator.normal(size=(4, 2, 3)).astype(np.float32)
    ends = {
        "done_reached": np.array([True, False, True, False]),
        "all_group_dones": np.array([False, False, True, False]),
        "next_obs": [following[:, 0]],
        "next_teammates_obs": [following[:, 1:]],
        "next_teammates": np.array([1, 1, 0, 0]),
    }
    rollout, mappo = rewarded(generator, [3, 1], 5, **ends), algorithm()
    mappo.critic.largest.fill_(3.0)
    steps = evaluated(mappo, rollout).steps
    with torch.no_grad():
        for j in range(4):
            last = 0.0 if j == 2 else float(value(mappo, following[j, : 1 + rollout.next_teammates[j]]))
            ahead, advantage = last, 0.0
            for t in range(5 * j + 4, 5 * j - 1, -1):
                now = float(value(mappo, own_set(rollout, t)))
                advantage = rollout.reward[t] + GAMMA * ahead - now + GAMMA * LAMBDA * advantage
                ahead = now
                assert steps.advantages[t] == pytest.approx(advantage, abs=1e-5)
                assert steps.returns[t, 0] == pytest.approx(advantage + now, abs=1e-5)
    assert "Losses/Value Explained Variance" in steps.explained_variances()


@pytest.mark.parametrize("clip", [False, True])
def test_an_update_follows_the_gradient_of_ppo_s_objective_with_the_teams_values(clip):
    """Of all steps at once, each with its team by itself."""
    generator = np.random.default_rng(1)
    keys = {"batch_size": 20, "num_epoch": 1, "learning_rate": 1e-5, "beta": 0.0, "clip_value_loss": clip}
    mappo = algorithm(**keys)
    rollout = rewarded(generator, [3, 1], 5)
    mappo.critic.largest.fill_(3.0)
    steps = evaluated(mappo, rollout).steps
    old = (steps.baselines + generator.normal(0, 0.3, steps.baselines.shape)).astype(np.float32)
    steps.baselines[:] = old
    log_probs = generator.normal(-1, 0.3, steps.log_probs.shape).astype(np.float32)
    steps.log_probs[:] = log_probs

    values = torch.stack([value(mappo, own_set(rollout, t)) for t in range(20)])
    returns, before = torch.from_numpy(steps.returns[:, 0]), torch.from_numpy(old[:, 0])
    errors = (returns - values) ** 2
    if clip:
        near = before + torch.clamp(values - before, -0.2, 0.2)
        errors = torch.maximum(errors, (returns - near) ** 2)
    actions = mappo.network.act(mappo.network.prepare([torch.from_numpy(rollout.obs[0])]))
    taken = Actions(torch.from_numpy(rollout.continuous), torch.from_numpy(rollout.discrete).long())
    ratio = torch.exp(actions.log_probs(taken) - torch.from_numpy(log_probs))
    advantages = torch.from_numpy(steps.advantages)
    advantages = ((advantages - advantages.mean()) / advantages.std(unbiased=False))[:, None]
    surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
    parameters = [*mappo.network.parameters(), *mappo.critic.parameters()]
    wanted = torch.autograd.grad(0.5 * errors.mean() - surrogate, parameters)

    losses = mappo.update(steps, 0)
    assert losses["Losses/Value Loss"] == pytest.approx(errors.mean().item(), rel=1e-4)
    assert losses["Losses/Policy Loss"] == pytest.approx(abs(surrogate.item()), rel=1e-3, abs=1e-6)
    for parameter, gradient in zip(parameters, wanted, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-5)
    assert all(gradient.abs().max() > 0 for gradient in wanted)


@pytest.mark.parametrize("memory", [None, {"memory_size": 8, "sequence_length": 3}])
def test_before_an_update_minibatches_give_the_values_of_the_rollout(memory):
    """In any order, with the recurrent states at the starts of their sequences."""
    generator, mappo = np.random.default_rng(4), algorithm(memory=memory)
    parts = []
    for seen in range(2):  # the second continues the first
        rollout = rewarded(generator, [3, 2], 7)
        rollout.numbers = rollout.numbers + 10_000 * seen
        if memory is not None:
            rollout.memory = generator.normal(size=(rollout.steps, 8)).astype(np.float32)
        evaluation = evaluated(mappo, rollout)
        found = evaluation.estimates["Value Estimate"]
        found = found if memory is None else pad_sequences(rollout.lengths, 3).column(found)
        np.testing.assert_array_equal(evaluation.steps.baselines, found)
        parts.append(evaluation.steps)
    taken = 0
    for _, batch in TeamMinibatches(mappo.evaluator, joined(parts)).minibatches(12, mappo.shuffler):
        with torch.no_grad():
            values = mappo._values(batch)
        real = slice(None) if batch.real is None else batch.real
        torch.testing.assert_close(values[real], batch.old_baselines[real], rtol=1e-4, atol=1e-5)
        assert batch.baseline_states is None
        taken += len(values)
    assert taken >= 60


def test_a_run_may_begin_with_what_poca_has_learned():
    """The critic of sets is the same, but for the members with their actions."""
    poca, mappo = algorithm(POCA), algorithm()
    poca.network.body.layers[0].weight.data.fill_(0.5)
    (missing,) = mappo.initialize_from(poca.state_dict())
    assert missing == "Critic.embed_acting (this network has no such part)"
    states = [one.critic.state_dict() for one in (poca, mappo)]
    assert set(states[0]) - set(states[1]) == {"embed_acting.weight", "embed_acting.bias"}
    assert all(torch.equal(states[0][name], tensor) for name, tensor in states[1].items())
    assert (mappo.network.body.layers[0].weight == 0.5).all()
