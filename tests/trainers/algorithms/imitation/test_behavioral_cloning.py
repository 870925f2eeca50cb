"""Behavioral cloning: its loss and its schedule against ML-Agents 1.1.0, and what is better here."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.common.optim import FlatParameters
from lanista.trainers.algorithms.imitation.behavioral_cloning import BehavioralCloning, ClonedPolicy
from lanista.trainers.algorithms.imitation.losses import (
    MARGIN,
    choice_losses,
    cloning_loss,
    cross_entropies,
    engine_errors,
    sampled_errors,
)
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.modules.distributions import (
    ActionDistribution,
    Actions,
    Branches,
    GreedyDistribution,
)
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.settings.models.networks import MemorySettings, NetworkSettings
from lanista.trainers.settings.models.rewards import BehavioralCloningSettings
from reliability.resume import differences
from rollouts import demonstrations
from specs import vector_spec


def rectangular(branches, of_branches, rows):
    """Log-probabilities by branch as ours have them."""
    flat = np.concatenate([array(one).reshape(rows, -1) for one in of_branches], 1)
    return Branches(branches).rectangular(torch.from_numpy(flat))


@pytest.mark.parametrize("case", cases("losses", "bc_loss"))
def test_the_loss(case):
    given, rows = case["inputs"], len(case["inputs"]["expert_discrete"])
    branches = given["discrete_branches"]
    sent, wanted = (
        torch.from_numpy(array(given[key])).reshape(rows, -1)
        for key in ("sampled_continuous", "expert_continuous")
    )
    chosen = torch.from_numpy(array(given["expert_discrete"], np.int64)).reshape(rows, -1)
    of_choices = torch.zeros(rows, 0)
    if branches:
        of_choices = cross_entropies(rectangular(branches, given["all_log_probs_per_branch"], rows), chosen)
    loss = cloning_loss(sent - wanted, of_choices)
    assert loss.item() == pytest.approx(case["expected"]["loss"], rel=1e-5, abs=1e-6)


def cloning_of(
    demos, network=None, *, rate=1e-3, length=1, of_policy=16, seed=0, head=None, as_engine=False, **settings
):
    """The teacher of a fresh policy, and the policy."""
    torch.manual_seed(0)
    kind = NetworkSettings(hidden_units=16, num_layers=1, **(network or {}))
    policy = Actor(demos.spec, kind, head=head)
    cloning = BehavioralCloning(
        ClonedPolicy(policy, FlatParameters(policy.parameters())),
        demos,
        BehavioralCloningSettings(demo_path="-", **settings),
        learning_rate=rate,
        batch_size=of_policy,
        sequence_length=length,
        device=torch.device("cpu"),
        seed=seed,
        non_finite=NonFinitePolicy.STOP,
        as_engine=as_engine,
    )
    return cloning, policy


@pytest.mark.parametrize("case", cases("stats", "bc_update"))
def test_minibatches_and_learning_rates(case):
    """pitfalls D4: where ML-Agents has no minibatch, and reports NaN, there is one here."""
    given = case["inputs"]
    length, rows = given["sequence_length"], given["experiences_after_padding"]
    memory = {"memory": MemorySettings(memory_size=4, sequence_length=length)} if length > 1 else None
    keys = ("batch_size", "num_epoch", "samples_per_update", "strength", "steps")
    cloning, _ = cloning_of(
        demonstrations(vector_spec([2], continuous=1), [rows]),
        memory,
        rate=given["policy_learning_rate"],
        length=length,
        of_policy=given["trainer_batch_size"],
        **{key: given[key] for key in keys},
    )
    seen = []

    def step(sequences, policy_step):
        seen.append((len(sequences) * length, cloning.rate))
        return 1.0

    cloning._step = step
    for policy_step, expected in zip(
        given["policy_steps_at_update_calls"], case["expected"]["per_update_call"], strict=True
    ):
        seen.clear()
        found = cloning.update(policy_step)
        if expected["reported"] == {"Losses/Pretraining Loss": "NaN"}:
            assert seen and found == {"Losses/Pretraining Loss": 1.0}
        else:
            assert [rows for rows, _ in seen] == expected["batches_rows"]
            assert found == expected["reported"]
        for wanted in expected["lr_during"]:  # none without a minibatch
            assert all(rate == pytest.approx(wanted, rel=1e-9) for _, rate in seen)
        assert cloning.rate == pytest.approx(expected["lr_in_optimizer_after"], rel=1e-9)


def gaussians(mu, squashed=False):
    mu = torch.tensor(mu)
    return ActionDistribution(
        mu, torch.full((mu.shape[1],), -20.0), torch.zeros(len(mu), 0), Branches(()), squashed=squashed
    )


def test_by_default_draws_are_compared_and_in_the_engines_units_means():
    policy, wanted = gaussians([[1.5, -0.6]]), torch.tensor([[0.5, 0.1]])
    random = torch.Generator().manual_seed(0)
    assert sampled_errors(policy, wanted, random).tolist()[0] == pytest.approx([1.0, -0.7])
    assert engine_errors(policy, wanted).tolist()[0] == pytest.approx([0.0, -0.3])


def test_squashed_actions_are_in_the_engines_units_already():
    errors = engine_errors(gaussians([[0.5]], squashed=True), torch.tensor([[0.2]]))
    assert errors.item() == pytest.approx(np.tanh(0.5) - 0.2)


def test_at_a_limit_a_policy_may_be_beyond_it_and_elsewhere_it_is_pulled_back():
    mu = torch.tensor([[5.0, 5.0, -5.0, -5.0, 1.0]], requires_grad=True)
    policy = gaussians([[0.0] * 5])
    policy.mu = mu
    errors = engine_errors(policy, torch.tensor([[1.0, 0.0, -1.5, 1.0, 1.0]]))
    assert errors.tolist()[0] == pytest.approx([0.0, 5 / 3, 0.0, -8 / 3, -2 / 3])
    errors.square().sum().backward()
    assert (mu.grad[0] != 0).tolist() == [False, True, False, True, True]


def test_values_are_to_put_the_experts_action_a_margin_above_all_others():
    values = torch.tensor([[1.0, 0.5, 0.0, 3.0, 1.0], [2.0, 0.0, 0.0, 0.0, 0.0]])
    mask = torch.tensor([[False, True, False, False, False], [False] * 5])
    policy = GreedyDistribution(torch.zeros(2, 0), torch.zeros(0), values, Branches((3, 2)), mask)
    found = choice_losses(policy, torch.tensor([[0, 1], [0, 0]]))
    # 0 + margin - 1 of a third action, as the second is forbidden: nothing. 3 + margin - 1. Then 2 above all.
    assert found.tolist() == [pytest.approx([0.0, 2.0 + MARGIN]), pytest.approx([0.0, MARGIN])]


def test_padding_counts_for_nothing():
    errors, chosen = torch.tensor([[1.0], [9.0]]), torch.tensor([[2.0], [7.0]])
    assert cloning_loss(errors, chosen, torch.tensor([True, False])).item() == 3.0


def gently(obs):
    """An expert whose action is easily predicted from the observation."""
    return 0.8 * np.tanh(obs[:, :1]), np.zeros((len(obs), 0), np.int32)


@pytest.mark.slow
def test_clones_act_as_big_as_the_expert_in_the_engines_units():
    """ML-Agents' way, which its YAML keeps, comes out three times too small (pitfalls D1)."""
    spec = vector_spec([2], continuous=1)
    demos = demonstrations(spec, [200], acted=gently)
    slopes = {}
    for as_engine in (False, True):
        cloning, policy = cloning_of(demos, rate=3e-3, num_epoch=10, as_engine=as_engine)
        for step in range(15):
            cloning.update(step)
        with torch.no_grad():
            acted = policy.act(policy.prepare([torch.from_numpy(demos.obs[0])]))
            sent = acted.to_engine(acted.mu).numpy()
        slopes[as_engine] = float((sent * demos.continuous).mean() / (demos.continuous**2).mean())
    assert slopes[True] > 0.9 and slopes[False] == pytest.approx(1 / 3, abs=0.06)


def test_a_deterministic_policy_is_cloned_too():
    spec = vector_spec([2], continuous=1)
    demos = demonstrations(spec, [200], acted=gently)
    cloning, _ = cloning_of(demos, rate=3e-3, num_epoch=10, head=HeadConfig(deterministic=True))
    losses = [cloning.update(step)["Losses/Pretraining Loss"] for step in range(12)]
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_memory_continues_from_sequence_to_sequence(kind):
    """The expert repeats what was seen at the first step of the episode, four sequences before."""

    def acted(obs):
        first = np.repeat(obs[::8, :1] > 0, 8, axis=0)
        return np.zeros((len(obs), 0), np.float32), first.astype(np.int32)

    spec = vector_spec([1], branches=(2,))
    demos = demonstrations(spec, [8] * 40, acted=acted)
    within = np.arange(len(demos.obs[0])) % 8
    demos.obs[0][within > 0] = 0.0
    memory = {"memory": MemorySettings(memory_size=16, sequence_length=2, memory_type=kind)}
    cloning, _ = cloning_of(demos, memory, rate=1e-2, length=2, num_epoch=2, of_policy=64)
    losses = [cloning.update(step)["Losses/Pretraining Loss"] for step in range(60)]
    # Three of four steps are guesses without the state of the sequence before.
    assert losses[0] > 0.6 and np.mean(losses[-3:]) < 0.2


def test_forbidden_actions_are_not_learned_from():
    spec = vector_spec([2], branches=(3,))
    demos = demonstrations(spec, [32])
    mask = np.zeros((32, 3), bool)
    mask[:, 1:] = True
    object.__setattr__(demos, "action_mask", mask)
    cloning, _ = cloning_of(demos)
    assert cloning.update(0)["Losses/Pretraining Loss"] == pytest.approx(0.0, abs=1e-5)


def test_only_the_policy_changes_and_a_resumed_cloning_continues_bit_for_bit():
    spec = vector_spec([2], continuous=1, branches=(2,))
    demos = demonstrations(spec, [20, 13])
    memory = {"memory": MemorySettings(memory_size=4, sequence_length=4), "normalize": True}
    one, policy = cloning_of(demos, memory, length=4, steps=100)
    other, copy = cloning_of(demos, memory, length=4, steps=100, seed=5)
    one.update(10)
    copy.load_state_dict(policy.state_dict())
    other.load_state_dict(one.state_dict())
    for cloning in (one, other):
        cloning.update(20)
    assert one.rate == other.rate < 1e-3
    assert not differences(policy.state_dict(), copy.state_dict())
    assert torch.equal(one.states, other.states) and one.states.any()


def test_actions_of_the_expert_are_as_the_demonstration_has_them():
    spec = vector_spec([1], branches=(2, 3))
    demos = demonstrations(spec, [3, 4])
    cloning, _ = cloning_of(demos)
    assert isinstance(cloning.demonstration.actions, Actions) and cloning.demonstration.real is None
    assert torch.equal(cloning.demonstration.actions.discrete, torch.from_numpy(demos.discrete).long())
