"""POCA values trajectories as the reference does; its critic learns by whole moments of teams."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from goldendata import array, cases
from lanista.agent_processor.rollout import pad_sequences
from lanista.agent_processor.trajectory import AgentKey
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.algorithms.mappo import MAPPO
from lanista.trainers.algorithms.poca import team_values
from lanista.trainers.algorithms.poca.minibatches import Rows, TeamMinibatches
from lanista.trainers.algorithms.poca.poca import POCA
from lanista.trainers.algorithms.poca.team_values import TeamEstimates
from lanista.trainers.buffers.columns import joined
from lanista.trainers.networks.fast import onednn
from lanista.trainers.networks.team_critic import TeamSets
from lanista.trainers.settings.models.behavior import TrainerSettings
from lanista.trainers.trainer.on_policy import OnPolicyTrainer
from rollouts import rollout_with_mates, team_rollout
from specs import vector_spec
from trainer_surroundings import Events, Record, given_signals

SPEC = vector_spec([3], 1, (2,))


def settings(**keys):
    return TrainerSettings.model_validate({"trainer_type": "poca", **keys})


def algorithm(config, device="cpu"):
    return POCA(SPEC, config, torch.device(device), 0, NonFinitePolicy.STOP)


def evaluated(poca, rollout, rewards=None):
    """The evaluation of a rollout; without `rewards` nothing is earned."""
    rewards = np.zeros(rollout.steps, np.float32) if rewards is None else rewards
    return poca.evaluate(rollout, {"extrinsic": rewards}, {"extrinsic": False})


@pytest.mark.parametrize("case", cases("returns", "poca_process"))
def test_values_of_trajectories_are_those_of_the_reference(case):
    given = case["inputs"]
    signals, providers = given_signals(given["signals"])
    config = settings(
        hyperparameters={"lambd": given["lambd"]}, reward_signals=signals, max_steps=10**6, summary_freq=10**6
    )
    poca = algorithm(config)
    record = Record()
    kept = given["reward_buffer_capacity"]
    trainer = OnPolicyTrainer(config, poca, providers, record, Events(), returns_kept=kept)
    for trajectory, expected in zip(given["trajectories"], case["expected"]["trajectories"], strict=True):
        record.calls.clear()
        value, baseline = (
            np.stack([array(trajectory[key][s]) for s in signals], 1).astype(np.float32)
            for key in ("critic_values", "baseline_values")
        )
        following = np.array([[trajectory["critic_next_value_raw"][s] for s in signals]], np.float32)
        estimates = TeamEstimates(value, baseline, following, None, None)
        poca.evaluator.evaluate = lambda rollout, found=estimates: found
        for name, provider in providers.items():
            provider.given = array(trajectory["signal_rewards_unscaled"][name]).astype(np.float32)
        env, _, agent = trajectory["agent_id"].removeprefix("agent_").partition("-")
        steps = len(trajectory["rewards"])
        one = rollout_with_mates(
            [steps],
            np.full((steps, 2), -1),
            np.random.default_rng(0),
            reward=array(trajectory["rewards"]).astype(np.float32),
            group_reward=array(trajectory["group_rewards"]).astype(np.float32),
            done_reached=np.array([trajectory["done_reached"]]),
            interrupted_at_end=np.array([trajectory["interrupted"]]),
            all_group_dones=np.array([trajectory["all_group_dones_reached"]]),
            agents=[AgentKey(int(env), int(agent))],
        )
        trainer.schedule.count(one.steps)
        trainer.stats.set_stat("Step", float(trainer.step))
        trainer.process(one)
        check(trainer, record, signals, expected)


def check(trainer, record, signals, expected):
    close = {"rtol": 1e-5, "atol": 1e-5}
    steps = trainer.buffer._parts[-1]
    for s, name in enumerate(signals):
        wanted = expected["signals"][name]
        np.testing.assert_allclose(steps.returns[:, s], array(wanted["returns"]), **close)
        np.testing.assert_allclose(
            steps.baselines[:, s], array(wanted["baselines_stored_in_buffer"]), **close
        )
    np.testing.assert_allclose(steps.advantages, array(expected["advantages"]), **close)
    assert trainer.step == expected["step"]
    assert [c[0] for c in record.calls] == [c[0] for c in expected["stats_reported"]]
    assert [c[2] for c in record.calls] == [c[2] for c in expected["stats_reported"]]
    np.testing.assert_allclose(
        [c[1] for c in record.calls], [c[1] for c in expected["stats_reported"]], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("sizes", [[1], [3, 2, 3], [4]])
def test_estimates_of_steps_do_not_depend_on_how_trajectories_are_batched(sizes):
    generator = np.random.default_rng(1)
    poca = algorithm(settings())
    rollout = team_rollout(generator, sizes, 5)
    values, baselines, *_ = poca.evaluator.evaluate(rollout)
    # The same steps as a buffer of one trajectory after another, whose mates came with other parts.
    steps = evaluated(poca, rollout).steps
    np.testing.assert_allclose(steps.baselines, baselines, rtol=1e-5)
    rows = Rows.of(steps)
    assert rows.own.tolist() == list(range(rollout.steps))
    np.testing.assert_array_equal(rows.teammates, rollout.teammates)
    # Members of a team at one time share its value.
    start = 0
    for size in sizes:
        of_team = values[start : start + size * 5].reshape(size, 5)
        np.testing.assert_allclose(of_team, np.broadcast_to(of_team[:1], of_team.shape), rtol=1e-5)
        start += size * 5


@pytest.mark.slow
def test_an_update_changes_actor_and_critic_deterministically():
    generator = np.random.default_rng(2)
    rollout = team_rollout(generator, [3, 3], 40)
    rewards = generator.normal(size=rollout.steps).astype(np.float32)
    config = settings(hyperparameters={"batch_size": 32, "buffer_size": 128})
    outcomes = []
    for _ in range(2):
        poca = algorithm(config)
        before = poca.optimizer.flat.vector.detach().clone()
        steps = evaluated(poca, rollout, rewards).steps
        figures = poca.update(steps, 0)
        assert set(figures) >= {"Losses/Policy Loss", "Losses/Value Loss", "Losses/Baseline Loss"}
        moved = poca.optimizer.flat.vector.detach() - before
        assert poca.optimizer.adam.steps == config.hyperparameters.num_epoch * (rollout.steps // 32)
        outcomes.append(moved)
    assert (outcomes[0] != 0).float().mean() > 0.9
    torch.testing.assert_close(outcomes[0], outcomes[1], rtol=0, atol=0)


@pytest.mark.slow
def test_the_clip_of_baselines_counts_in_rewards_in_deviations_or_not_at_all():
    """Returns vary by about 30: a clip of 0.2 in units of the reward slows a baseline most."""
    generator = np.random.default_rng(4)
    rollout = team_rollout(generator, [3, 3], 40)
    rewards = 30 * rollout.obs[0][: rollout.steps, 0]
    errors = {}
    for clip in ("reward", "deviation", "none"):
        hyper = {"batch_size": 32, "buffer_size": 128, "num_epoch": 30, "learning_rate": 0.003, "lambd": 0}
        poca = algorithm(settings(hyperparameters={**hyper, "baseline_clip": clip}))
        steps = evaluated(poca, rollout, rewards).steps
        poca.update(steps, 0)
        learned = poca.evaluator.evaluate(rollout).baselines
        errors[clip] = float(((learned - steps.returns) ** 2).mean() / steps.returns.var())
    assert errors["none"] < 0.1 * errors["reward"]
    assert 0.1 * errors["reward"] < errors["deviation"] < 0.6 * errors["reward"]


def test_a_group_whose_members_came_in_different_parts_is_reassembled():
    generator = np.random.default_rng(3)
    poca = algorithm(settings())
    rollout = team_rollout(generator, [3], 4)
    whole = evaluated(poca, rollout).steps
    parts = []
    for member in range(3):
        own = np.arange(4 * member, 4 * member + 4)
        order = np.concatenate([own, np.setdiff1d(np.arange(12), own)])
        place = np.argsort(order)
        part = rollout_with_mates(
            [4],
            place[rollout.teammates[own]],
            generator,
            numbers=rollout.numbers[order],
            obs=[o[order] for o in rollout.obs],
            continuous=rollout.continuous[order],
            discrete=rollout.discrete[order],
        )
        parts.append(evaluated(poca, part).steps)
    rows = Rows.of(joined(parts))
    expected = Rows.of(whole)
    np.testing.assert_array_equal(rows.obs[0], expected.obs[0])
    np.testing.assert_array_equal(rows.own, expected.own)
    np.testing.assert_array_equal(rows.teammates, expected.teammates)


def test_bootstrap_values_are_right_for_any_number_of_surviving_teammates():
    generator = np.random.default_rng(6)
    poca = algorithm(settings())
    next_mates = np.array([2, 0, 3, 1])
    own = generator.normal(size=(4, 3)).astype(np.float32)
    mates = generator.normal(size=(4, 3, 3)).astype(np.float32)
    rollout = rollout_with_mates(
        [2] * 4,
        np.full((8, 1), -1),
        generator,
        next_obs=[own],
        next_teammates_obs=[np.where(np.arange(3)[:, None] < next_mates[:, None, None], mates, 0.0)],
        next_teammates=next_mates,
    )
    rollout.next_teammates_obs = [o.astype(np.float32) for o in rollout.next_teammates_obs]
    poca.critic.largest.fill_(4.0)  # inputs include the share of the largest team seen
    found = poca.evaluator.evaluate(rollout).next_values
    for j, count in enumerate(next_mates.tolist()):
        obs = np.concatenate([own[j : j + 1], mates[j, :count]])
        inputs = poca.network.prepare([torch.from_numpy(obs)])
        with torch.no_grad():
            alone = poca.critic.value(inputs, TeamSets(((1 + count, 1),)))
        np.testing.assert_allclose(found[j], alone[0], rtol=1e-4, atol=1e-6)
    assert len(np.unique(found.round(6))) == 4


@pytest.mark.parametrize("multiple", [1, 32])
@pytest.mark.parametrize("memory", [None, "lstm", "gru"])
def test_before_an_update_minibatches_give_the_estimates_of_the_rollout(memory, multiple, monkeypatch):
    """In any order, with the recurrent states at the starts of their sequences, and with rows of no set."""
    for module in (team_values, onednn):
        monkeypatch.setattr(module, "shape_multiple", lambda device: multiple)
    generator = np.random.default_rng(4)
    network = {"hidden_units": 16}
    if memory is not None:
        network["memory"] = {"memory_type": memory, "memory_size": 8, "sequence_length": 3}
    poca = algorithm(settings(network_settings=network))
    for parameter in poca.critic.parameters():
        parameter.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    parts, values = [], []
    for seen in range(2):  # the second continues the first
        rollout = team_rollout(generator, [3, 2], 7)
        rollout.numbers = rollout.numbers + 10_000 * seen
        if memory is not None:
            rollout.memory = generator.normal(size=(rollout.steps, 8)).astype(np.float32)
        evaluation = evaluated(poca, rollout)
        parts.append(evaluation.steps)
        value = evaluation.estimates["Value Estimate"]
        values.append(value if memory is None else pad_sequences(rollout.lengths, 3).column(value))
    steps = joined(parts)
    # Returns are shuffled with their rows, so that each row carries its value.
    steps.returns = np.concatenate(values)
    learning, taken = TeamMinibatches(poca.evaluator, steps), 0
    for _, batch in learning.minibatches(12, poca.shuffler):
        with torch.no_grad():
            values, baselines = poca._estimates(batch)
        real = slice(None) if batch.real is None else batch.real
        torch.testing.assert_close(baselines[real], batch.old_baselines[real], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(values[real], batch.returns[real], rtol=1e-4, atol=1e-5)
        taken += len(batch.returns)
    assert np.std(steps.returns) > 1e-3
    assert taken >= len(steps) // 12 * 12


@pytest.mark.parametrize("make", [POCA, MAPPO])
@pytest.mark.parametrize("memory", [None, {"memory_size": 8, "sequence_length": 3}])
def test_rows_of_no_set_change_nothing_that_is_learned(make, memory, monkeypatch):
    """Nor what steps are worth. Members leave, so that there are sets of one, two and three."""
    learned = []
    for multiple in (1, 16):
        for module in (team_values, onednn):
            monkeypatch.setattr(module, "shape_multiple", lambda device, multiple=multiple: multiple)
        generator = np.random.default_rng(7)
        lengths, mates = [6, 4, 2, 5], np.full((17, 2), -1)
        for first, others in ((0, (6, 10)), (6, (0, 10)), (10, (0, 6))):
            ends = {0: 6, 6: 10, 10: 12}
            for row in range(first, ends[first]):
                there = [other + row - first for other in others if other + row - first < ends[other]]
                mates[row, : len(there)] = there
        rollout = rollout_with_mates(lengths, mates, generator)
        if memory is not None:
            rollout.memory = generator.normal(size=(rollout.steps, 8)).astype(np.float32)
        config = TrainerSettings.model_validate(
            {
                "trainer_type": make.name.lower(),
                "hyperparameters": {"batch_size": 9, "buffer_size": 17, "num_epoch": 2},
                "network_settings": {"hidden_units": 16, "memory": memory},
            }
        )
        team = make(SPEC, config, torch.device("cpu"), 0, NonFinitePolicy.STOP)
        evaluation = evaluated(team, rollout, generator.normal(size=rollout.steps).astype(np.float32))
        team.update(evaluation.steps, 0)
        learned.append(
            [*map(torch.from_numpy, evaluation.estimates.values()), team.optimizer.flat.vector.detach()]
        )
    for one, other in zip(*learned, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("memory", [False, True])
def test_the_policy_learns_from_each_step_once_an_epoch_and_from_as_many_moments_as_it_can(memory):
    """Steps of one moment share their team's luck: minibatches of whole moments would see less of it."""
    generator = np.random.default_rng(8)
    network = {"hidden_units": 16, **({"memory": {"memory_size": 8, "sequence_length": 4}} if memory else {})}
    poca = algorithm(settings(network_settings=network))
    rollout = team_rollout(generator, [3] * 8, 8)
    if memory:
        rollout.memory = np.zeros((rollout.steps, 8), np.float32)
    steps = evaluated(poca, rollout).steps
    steps.advantages = np.arange(len(steps), dtype=np.float32)  # normalized, but still in this order
    seen = [b.advantages for b, _ in TeamMinibatches(poca.evaluator, steps).minibatches(48, poca.shuffler)]
    which = torch.cat(seen)[:, 0].argsort().argsort().reshape(len(seen), -1)
    assert sorted(which.flatten().tolist()) == list(range(len(steps)))
    assert [len(each) for each in which] == [48] * (len(steps) // 48)
    length = 4 if memory else 1
    moments = (which // 24 * 8 + which % 8) // length  # of a team's 24 steps the first 8 are a member's
    assert min(len(set(each)) for each in moments.tolist()) > 48 // length // 3, "as many as without sharing"


def test_a_recurrent_team_learns_by_whole_sequences():
    generator = np.random.default_rng(5)
    network = {"hidden_units": 16, "memory": {"memory_size": 8, "sequence_length": 4}}
    poca = algorithm(settings(network_settings=network, hyperparameters={"batch_size": 16}))
    before = poca.optimizer.flat.vector.detach().clone()
    rollout = team_rollout(generator, [3, 1], 9)
    rollout.memory = np.zeros((rollout.steps, 8), np.float32)
    rewards = generator.normal(size=rollout.steps).astype(np.float32)
    steps = evaluated(poca, rollout, rewards).steps
    assert len(steps) == 4 * 12 and steps.real.sum() == 36
    poca.update(steps, 0)
    assert (poca.optimizer.flat.vector.detach() != before).float().mean() > 0.9
