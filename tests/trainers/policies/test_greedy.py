"""DQN, DDPG and TD3 within a run: what they store, report, save and export."""

import re

import numpy as np
import pytest
import torch
from console_runs import learn
from crowd import make_learner
from lanista.envs.base import EnvironmentStep, StatsAggregationMethod
from lanista.trainers.checkpoints.file import load_checkpoint
from lanista.trainers.checkpoints.metadata import build_network
from lanista.trainers.policies.onnx.runtime import Brain
from mlagents_envs.base_env import DecisionSteps, TerminalSteps
from reliability.resume import differences
from specs import vector_spec

ID = "Ball?team=0"
AGENTS = 6
KINDS = {
    "dqn": ("dqn", {"dueling": True, "target_update_interval": 5, "epsilon_decay_steps": 200}, None),
    "lstm": ("dqn", {"target_update_interval": 5}, {"memory_size": 8, "sequence_length": 4}),
    "ddpg": (
        "ddpg",
        {"noise_type": "ornstein_uhlenbeck", "noise_start": 2, "noise_decay_steps": 200},
        None,
    ),
    "td3": ("td3", {"noise_decay_steps": 200, "prioritized_replay": True, "n_step": 3}, None),
}


def learner(folder, kind, deterministic=False, **keys):
    trainer, hyper, memory = KINDS[kind]
    network = {"hidden_units": 16, "num_layers": 1, "normalize": True, "memory": memory}
    network["deterministic"] = deterministic
    hyper = {"batch_size": 16, "buffer_size": 1000, "save_replay_buffer": True, "steps_per_update": 5} | hyper
    behavior = {"trainer_type": trainer, "hyperparameters": hyper, "network_settings": network}
    behavior |= {"time_horizon": 8, "summary_freq": 100}
    spec = vector_spec([3], 0, (3, 2)) if trainer == "dqn" else vector_spec([3], 2)
    return make_learner(folder, spec, behavior, "Ball", **keys)


def batch(random, masked=False):
    ids = np.arange(AGENTS, dtype=np.int32)
    obs, reward = random.normal(size=(AGENTS, 3)), random.normal(size=AGENTS)
    mask = [np.zeros((AGENTS, 3), bool), np.zeros((AGENTS, 2), bool)] if masked else None
    if mask is not None:
        mask[0][:, 1] = True
    zeros = np.zeros(AGENTS, np.int32)
    return DecisionSteps([obs.astype(np.float32)], reward.astype(np.float32), ids, mask, zeros, zeros)


def collect(one, steps, seed=0):
    """Agents of one environment, stepped as the controller does; returns their decisions."""
    random, decided, done = np.random.default_rng(seed), None, []
    masked = bool(one.spec.action_spec.discrete_branches)
    for _ in range(steps):
        asking = batch(random, masked)
        one.add_team(ID).add_experiences(asking, TerminalSteps.empty(one.spec), 0, decided)
        (decided,) = one.act_requests([asking], [(0, ID)])[0].decide()
        done.append(decided)
        one.trainer.advance()
    return done


@pytest.mark.parametrize("kind", KINDS)
def test_the_replay_holds_the_actions_taken_and_the_run_exports_a_greedy_brain(tmp_path, kind):
    one = learner(tmp_path, kind)
    masked = kind in ("dqn", "lstm")
    done = collect(one, 17)
    one.trainer.process_queues()
    columns = one.trainer.replay.columns
    for agent in range(AGENTS):
        for name in ("discrete",) if masked else ("continuous",):
            taken = np.stack([getattr(d.action, name)[agent] for d in done[:8]])
            held = getattr(columns, name)[: len(one.trainer.replay)].reshape(-1, 8, taken.shape[1])
            assert (held == taken).all((1, 2)).any()
    if masked:
        assert all((d.env_action.discrete[:, 0] != 1).all() for d in done)
    collect(one, 40)
    one.process_remaining()
    path = one.finish()
    _, network = build_network(load_checkpoint(tmp_path / "Ball" / "checkpoint.pt"))
    asking = batch(np.random.default_rng(5))
    obs = network.prepare([torch.from_numpy(asking.obs[0])])
    with torch.no_grad():
        if network.memory_size:
            wanted, _ = network.act_with_memory(obs, torch.zeros(AGENTS, network.memory_size))
        else:
            wanted = network.act(obs)
    played = Brain(path).act(asking, deterministic=False)
    np.testing.assert_array_equal(played.discrete, wanted.deterministic().discrete)
    np.testing.assert_allclose(played.continuous, wanted.deterministic().continuous, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_continues_bit_for_bit(tmp_path, kind):
    one = learner(tmp_path, kind)
    collect(one, 60)
    one.trainer.process_queues()
    assert one.algorithm.metrics(one.trainer.step)
    one.save()
    two = learner(tmp_path, kind, resume=True)
    states = []
    for run in (one, two):
        run.reset_agents(0)
        # A resumed run starts new engines.
        run.inference.end_episodes(EnvironmentStep(0, {}, {}, fresh=True), ID)
        collect(run, 40, seed=1)
        states.append(run.algorithm.state_dict())
    assert one.trainer.step == two.trainer.step > 300
    assert not differences(*states)


@pytest.mark.parametrize("kind", KINDS)
def test_agents_of_a_run_that_does_not_learn_are_greedy(tmp_path, kind):
    one = learner(tmp_path, kind, training=False)
    asking = batch(np.random.default_rng(0))
    before = one.inference.policy.generator.get_state()
    for _ in range(3):
        (decided,) = one.act_requests([asking], [(0, ID)])[0].decide()
    assert torch.equal(one.inference.policy.generator.get_state(), before)
    if not one.inference.network.memory_size:
        (again,) = one.act_requests([asking], [(0, ID)])[0].decide()
        np.testing.assert_array_equal(again.env_action.continuous, decided.env_action.continuous)
        np.testing.assert_array_equal(again.env_action.discrete, decided.env_action.discrete)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deterministic_policy_explores_as_long_as_it_learns(tmp_path, kind):
    """`--deterministic` makes runs repeatable; agents that never explored would learn nothing."""
    explored = [
        [decision.env_action for decision in collect(learner(tmp_path / str(one), kind, one), 12)]
        for one in (False, True)
    ]
    for free, bound in zip(*explored, strict=True):
        np.testing.assert_array_equal(free.discrete, bound.discrete)
        np.testing.assert_array_equal(free.continuous, bound.continuous)
    of_one = {(*one.discrete[0].tolist(), *one.continuous[0].tolist()) for one in explored[1]}
    assert len(of_one) > 3


@pytest.mark.parametrize(("kind", "statistic"), [("dqn", "Epsilon"), ("ddpg", "Noise"), ("td3", "Noise")])
def test_exploration_follows_the_trainers_step_and_is_reported(tmp_path, kind, statistic):
    one = learner(tmp_path, kind)
    found = []
    one.reporter.add_stat = lambda key, value, how=StatsAggregationMethod.AVERAGE: (
        found.append(value) if key == f"Policy/Exploration {statistic}" else None
    )
    collect(one, 60)
    start, end = one.algorithm.explorer.schedule.start, one.algorithm.explorer.schedule.end
    assert found[0] == pytest.approx((start + end) / 2, rel=0.1)  # the first summary, at 100 of 200 steps
    assert found[-1] == pytest.approx(end)
    assert one.trainer.step > 200


WRONG = {
    "continuous": ("dqn", "scene:ball3d", "3DBall", r"2 continuous actions.*trainer_type: sac, td3"),
    "discrete": ("ddpg", "scene:basic", "Basic", r"discrete actions .*trainer_type: dqn"),
    "discrete under td3": ("td3", "scene:basic", "Basic", r"TD3 .*continuous actions only.*: dqn"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG)
def test_unsupported_actions_end_the_run_with_one_sentence(tmp_path, case):
    trainer, env, behavior, says = WRONG[case]
    ended = learn(tmp_path, "--env", env, yaml=f"behaviors: {{{behavior}: {{trainer_type: {trainer}}}}}")
    assert re.search(says, ended.error)
