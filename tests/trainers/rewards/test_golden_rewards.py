"""Reward signals against what ML-Agents 1.1.0 computes."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from goldendata import array, cases, kinds
from lanista.envs.validation import NonFinitePolicy
from lanista.trainers.buffers.demonstrations import Demonstrations
from lanista.trainers.checkpoints.mlagents.names import body_tensors, dense_tensors, encoder_tensors
from lanista.trainers.networks.modules.distributions import Actions
from lanista.trainers.networks.modules.normalizer import Normalizer
from lanista.trainers.rewards.curiosity import Curiosity
from lanista.trainers.rewards.extrinsic import ExtrinsicReward
from lanista.trainers.rewards.gail import GAIL, RandomDraws
from lanista.trainers.rewards.rnd import RND
from lanista.trainers.rewards.transitions import Transitions
from lanista.trainers.settings.models.rewards import CuriositySettings, GAILSettings, RNDSettings
from referencenets import behavior_spec, load_parameters
from rollouts import random_rollout

HERE = {"extrinsic", "curiosity", "rnd", "gail"}


def test_every_kind_is_accounted_for():
    assert kinds("rewards") <= HERE


def tensor(data, dtype=np.float32):
    return torch.from_numpy(array(data, dtype))


def steps_of(batch, branches):
    """A batch of the reference as ours."""
    rows = len(batch["done"])
    return Transitions(
        obs=[tensor(obs) for obs in batch["obs"]],
        next_obs=[tensor(obs) for obs in batch["next_obs"]],
        next_index=None,
        actions=Actions(
            tensor(batch["continuous_actions"]).reshape(rows, -1),
            tensor(batch["discrete_actions"], np.int64).reshape(rows, len(branches)),
        ),
        done=tensor(batch["done"]),
    )


def approximately(expected):
    return pytest.approx(array(expected, np.float64), rel=1e-4, abs=1e-5)


def settings_of(kind, inputs, **keys):
    network = {key: value for key, value in inputs["network_settings"].items() if key != "memory"}
    return kind.model_validate({"network_settings": network, **keys})


def made(kind, settings, inputs, *more, **keys):
    return kind(
        behavior_spec(inputs["spec"]), settings, *more, torch.device("cpu"), 0, NonFinitePolicy.STOP, **keys
    )


@pytest.mark.parametrize("case", cases("rewards", "extrinsic"))
def test_extrinsic(case):
    given = case["inputs"]
    rewards, of_group = array(given["rewards"]), array(given["group_rewards"])
    rollout = random_rollout([len(rewards)], seed=0)
    of_mates = [reward for of_step in given["groupmate_rewards"] for reward in of_step]
    width = max(map(len, given["groupmate_rewards"]), default=0)
    mates = np.full((len(rewards), width), -1, np.int64)
    row = len(rewards)
    for step, of_step in enumerate(given["groupmate_rewards"]):
        mates[step, : len(of_step)] = np.arange(row, row + len(of_step))
        row += len(of_step)
    rollout = replace(
        rollout,
        reward=np.concatenate([rewards, np.array(of_mates, np.float32)]),
        group_reward=np.concatenate([of_group, np.zeros(len(of_mates), np.float32)]),
        teammates=mates,
    )
    found = ExtrinsicReward(with_teammates=given["poca"]).evaluate(rollout)
    assert found == approximately(case["expected"]["reward"])


def network_tensors(network, prefix):
    """Those of the encoder and of the body."""
    return encoder_tensors(network.encoder, prefix) | body_tensors(network.body, 0, prefix)


def curiosity_tensors(signal):
    models = signal.models
    named = network_tensors(models.embedding, "_state_encoder.")
    named |= dense_tensors(models.inverse_hidden, "inverse_model_action_encoding.0.seq_layers.0")
    named |= dense_tensors(models.forward_hidden, "forward_model_next_state_prediction.0.seq_layers.0")
    named |= dense_tensors(models.next_embedding, "forward_model_next_state_prediction.1")
    sizes = {"continuous": models.continuous_size, "discrete": sum(models.branches.sizes)}
    start = 0
    for kind, size in sizes.items():
        if size:
            columns = slice(start, start + size)
            named[f"{kind}_action_prediction.weight"] = models.action.weight[:, columns].T
            named[f"{kind}_action_prediction.bias"] = models.action.bias[columns]
        start += size
    return named


@pytest.mark.parametrize("case", cases("rewards", "curiosity"))
def test_curiosity(case):
    given, expected = case["inputs"], case["expected"]
    settings = settings_of(CuriositySettings, given, strength=given["strength"], learning_rate=0.0)
    signal = made(Curiosity, settings, given)
    load_parameters(curiosity_tensors(signal), given["weights"])
    steps = steps_of(given["batch"], signal.models.branches.sizes)
    assert signal.ignores_done is expected["ignore_done"]
    assert signal.rewards(steps).tolist() == expected["before_first_update"]
    real = torch.from_numpy(array(given["batch"]["mask"]).nonzero()[0])
    assert signal.learn(steps.rows(real), 0) == {
        key: approximately(value) for key, value in expected["first_update_stats"].items()
    }
    assert signal.rewards(steps).numpy() == approximately(expected["reward_after_an_update_same_weights"])
    signal.most = np.inf
    assert signal.rewards(steps).numpy() == approximately(expected["unclipped_reward"])


@pytest.mark.parametrize("case", cases("rewards", "rnd"))
def test_rnd(case):
    """pitfalls C22: normalizers see what agents collect, not what is evaluated; so they see it here."""
    given, expected = case["inputs"], case["expected"]
    signal = made(RND, settings_of(RNDSettings, given, learning_rate=0.0), given)
    for network, weights in ((signal.target, "target_weights"), (signal.predictor, "predictor_weights")):
        load_parameters(network_tensors(network, "_encoder."), given[weights])
    steps = steps_of(given["batch"], given["spec"]["action_spec"]["discrete_branches"])
    rollout = random_rollout([len(steps)], seed=0)
    rollout = replace(rollout, obs=[obs.numpy() for obs in steps.obs])
    assert signal.ignores_done is expected["ignore_done"]
    for evaluation in ("first_evaluation", "second_evaluation"):
        assert signal.rewards(steps).numpy() == approximately(expected[evaluation])
        assert signal.rewards(steps).numpy() == approximately(expected[evaluation])
        signal.update_normalizer(rollout)
    for state in expected.get("normalizers_after_two_evaluations", {}).values():
        normalizers = signal.predictor.encoder.normalizers
        assert {int(each.steps) for each in normalizers} == {state[0]["steps"]}
        mean, variance = ([x for one in state for x in one[key]] for key in ("mean", "variance"))
        assert torch.cat([each.mean for each in normalizers]).numpy() == approximately(mean)
        assert torch.cat([each.squares for each in normalizers]).numpy() == approximately(variance)
    assert signal.learn(steps, 0) == {
        key: approximately(value) for key, value in expected["update_loss"].items()
    }


def gail_tensors(discriminator):
    named = network_tensors(discriminator, "encoder.")
    named |= dense_tensors(discriminator.estimate, "_estimator.0")
    if discriminator.latent is not None:
        named |= dense_tensors(discriminator.latent, "_z_mu_layer") | {"_z_sigma": discriminator.sigma}
    return named


def demonstrations(spec, batch):
    """The expert's batch as a demonstration of one episode."""
    rows, actions = len(batch["done"]), spec.action_spec
    zeros = np.zeros(rows, np.float32)
    return Demonstrations(
        spec=spec,
        obs=[array(obs) for obs in batch["obs"]],
        continuous=array(batch["continuous_actions"]).reshape(rows, actions.continuous_size),
        discrete=array(batch["discrete_actions"], np.int32).reshape(rows, actions.discrete_size),
        action_mask=None,
        reward=zeros,
        group_reward=zeros,
        done=array(batch["done"]) > 0,
        interrupted=zeros > 0,
        prev_continuous=np.zeros((rows, actions.continuous_size), np.float32),
        prev_discrete=np.zeros((rows, actions.discrete_size), np.int32),
        lengths=np.array([rows]),
        next_obs=[array(obs)[-1:] for obs in batch["next_obs"]],
    )


@pytest.mark.parametrize("case", cases("rewards", "gail"))
def test_gail(case):
    """pitfalls C24: the penalty is over all observations; the reference's is over the first alone.

    The reference's normalizers see the expert's steps when it learns from them, ours at once.
    """
    given, expected = case["inputs"], case["expected"]
    keys = {key: given[key] for key in ("use_actions", "use_vail")}
    settings = settings_of(GAILSettings, given, demo_path="-", learning_rate=0.0, **keys)
    demos = demonstrations(behavior_spec(given["spec"]), given["expert_batch"])
    signal = made(GAIL, settings, given, demos, action_range=3.0)
    load_parameters(gail_tensors(signal.discriminator), given["weights"])
    policy, expert = (
        steps_of(given[name], given["spec"]["action_spec"]["discrete_branches"])
        for name in ("policy_batch", "expert_batch")
    )
    assert signal.ignores_done is expected["ignore_done"]
    with nothing_seen(signal.discriminator.encoder.normalizers or ()):
        assert signal.rewards(policy).numpy() == approximately(expected["reward_policy"])
        assert signal.rewards(expert).numpy() == approximately(expected["reward_expert"])
    sensors = len(policy.obs)
    mix = [tensor(eps) for eps in given["interpolation_eps_in_call_order"]]
    mix = [*mix[:sensors], torch.cat(mix[sensors:], 1)] if given["use_actions"] else mix
    noise = tuple(tensor(drawn) for drawn in given["vail_noise_in_call_order"]) or None
    signal.beta = given["beta_before"] or 0.0
    totals = []
    descend = signal._descend
    signal._descend = lambda loss, *rest: totals.append(loss.item()) or descend(loss, *rest)
    samples = signal.sample(policy), signal.sample(expert)
    of_all, of_first = penalties(signal.discriminator, *samples, mix, noise)
    found = signal.learn_from(*samples, RandomDraws(mix, noise), 0)
    name = "Policy/GAIL Grad Mag Loss"
    assert of_first == approximately(expected["stats"][name])
    wanted = {**expected["stats"], name: of_all}
    assert found == {key: approximately(value) for key, value in wanted.items()}
    assert totals == [approximately(expected["total_loss"] - of_first + of_all)]


@contextmanager
def nothing_seen(normalizers):
    """Within this context, normalizers are as new."""
    states = [copy.deepcopy(each.state_dict()) for each in normalizers]
    for each in normalizers:
        each.load_state_dict(Normalizer(len(each.mean)).state_dict())
    yield
    for each, state in zip(normalizers, states):
        each.load_state_dict(state)


def prepared(encoder, obs):
    """`encoder.prepare`, which can be differentiated."""
    inputs = [torch.cat([obs[i] for i in group.indices], 1) for group in encoder.groups]
    normalizers = dict(zip((run.indices for run in encoder.runs), encoder.normalizers or ()))
    return [
        normalizers.get(group.indices, torch.nn.Identity())(rows)
        for group, rows in zip(encoder.groups, inputs)
    ]


def penalties(network, policy, expert, mix, noise):
    """10 E (|dD/do| - 1)^2, o being all observations, and for the reference the first one.

    The reference's length of the slope is that of the columns of an observation of several dimensions.
    """
    inputs = [
        (eps * ours + (1 - eps) * theirs).requires_grad_()
        for eps, ours, theirs in zip(mix, policy.obs, expert.obs)
    ]
    acted = None if policy.acted is None else mix[-1] * policy.acted + (1 - mix[-1]) * expert.acted
    found = network(prepared(network.encoder, inputs), acted, None if noise is None else noise[2])
    slopes = torch.autograd.grad(found.expert.sum(), inputs)
    of_all = sum(slope.square().flatten(1).sum(1) for slope in slopes)
    of_first = slopes[0].square().sum(1)
    return [10 * ((squares + 1e-7).sqrt() - 1).square().mean().item() for squares in (of_all, of_first)]
