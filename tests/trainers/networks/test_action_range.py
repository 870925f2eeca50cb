"""`action_range` and `initial_log_std`: wherever a policy's continuous actions become the engine's."""

import numpy as np
import pytest
import torch
from lanista.trainers.algorithms.imitation.losses import engine_errors
from lanista.trainers.checkpoints.metadata import build_network, describe_network
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.fast.sampling import ActionSampler
from lanista.trainers.networks.modules.distributions import explore
from lanista.trainers.policies.onnx.export import build_brain
from lanista.trainers.policies.onnx.verify import verify
from lanista.trainers.policies.policy import ActContext, Policy
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.validation import require_support
from policysteps import decisions, random_obs, session_of
from specs import vector_spec

RANGES = [0.5, 1.0, 3.0, 10.0]
SPEC = vector_spec([4], 2, [3])


def network(action_range, kind=ActorCritic):
    settings = NetworkSettings(hidden_units=8, action_range=action_range, initial_log_std=0.5)
    random = torch.Generator().manual_seed(0)
    if kind is ActorCritic:
        made = ActorCritic(SPEC, settings, ["extrinsic"], generator=random)
    else:
        made = Actor(SPEC, settings, random)
    with torch.no_grad():
        made.actions.weight.mul_(20.0)
    return made.requires_grad_(False)


@pytest.mark.parametrize("action_range", RANGES)
@pytest.mark.parametrize("kind", [Actor, ActorCritic])
def test_samples_are_clipped_to_it_and_divided_by_it(kind, action_range):
    net = network(action_range, kind)
    rows = torch.randn(200, 4, generator=torch.Generator().manual_seed(1))
    distribution = net.act(net.prepare([rows]))
    np.testing.assert_array_equal(distribution.log_sigma, np.full(2, 0.5, np.float32))
    columns = net.actions.columns(net.actor_encoding(net.prepare([rows])))
    drawn = ActionSampler(net.actions)(columns, None, torch.Generator().manual_seed(2), 0.0)
    wanted = np.clip(drawn.continuous, -action_range, action_range) / action_range
    np.testing.assert_allclose(drawn.for_engine, wanted, rtol=1e-6)
    assert (np.abs(wanted) < 1.0).any() and drawn.continuous.std() > 1.0
    for policy in (distribution, explore(distribution, 0.1)):
        sent = policy.to_engine(torch.from_numpy(drawn.continuous))
        np.testing.assert_allclose(sent, wanted, rtol=1e-6)


@pytest.mark.parametrize("action_range", RANGES)
def test_brains_have_it(action_range):
    net = network(action_range)
    model = build_brain(net, behavior="B")
    verify(model, net)
    obs = random_obs([(4,)], 50)[0] * 3
    feeds = {"obs_0": obs, "action_masks": np.ones((50, 3), np.float32)}
    (found,) = session_of(model).run(["deterministic_continuous_actions"], feeds)
    mu = net.act(net.prepare([torch.from_numpy(obs)])).mu.numpy()
    np.testing.assert_allclose(found, np.clip(mu, -action_range, action_range) / action_range, atol=1e-5)


@pytest.mark.parametrize("action_range", RANGES)
def test_random_actions_are_stored_as_the_policy_would_have_sampled_them(action_range):
    policy = Policy(network(action_range), SPEC, seed=0)
    (found,) = policy.act([decisions(random_obs([(4,)], 7))], ActContext(uniform=True))
    np.testing.assert_allclose(found.action.continuous, found.env_action.continuous * action_range, rtol=1e-6)


@pytest.mark.parametrize("kind", [Actor, ActorCritic])
def test_checkpoints_keep_it(kind):
    net = network(1.0, kind)
    shared = False if kind is ActorCritic else None
    settings = NetworkSettings(hidden_units=8, action_range=1.0)
    described = describe_network("B", SPEC, settings, ["extrinsic"], shared)
    _, loaded = build_network({"brain": described, "Policy": net.state_dict()})
    assert loaded.actions.action_range == 1.0
    plain = describe_network("B", SPEC, NetworkSettings(hidden_units=8), ["extrinsic"], shared)
    assert not {"action_range", "initial_log_std"} & plain["network"].keys(), "release 0.1.0 refuses these"


def test_clones_are_compared_with_the_expert_in_the_engine_s_units():
    net = network(2.0)
    distribution = net.act(net.prepare([torch.randn(5, 4)]))
    errors = engine_errors(distribution, torch.zeros(5, 2))
    np.testing.assert_allclose(errors, distribution.mu / 2.0)


@pytest.mark.parametrize(
    "behavior, words",
    [
        ("{trainer_type: sac, network_settings: {action_range: 1}}", "tanh: remove this key"),
        ("{trainer_type: td3, network_settings: {initial_log_std: -1}}", "tanh: remove this key"),
        ("{trainer_type: ddpg, network_settings: {action_range: 1}}", "tanh: remove this key"),
        (
            "{trainer_type: dqn, network_settings: {action_range: 1}}",
            "no continuous actions: remove this key",
        ),
        ("{trainer_type: coma, network_settings: {initial_log_std: 1}}", "no continuous actions"),
        (
            "{trainer_type: ppo, network_settings: {critic: {action_range: 1}}}",
            "only a policy's network has it",
        ),
        (
            "{trainer_type: ppo, reward_signals: {rnd: {network_settings: {action_range: 1}}}}",
            "only a policy's network has it",
        ),
        ("{trainer_type: ppo, network_settings: {action_range: 0}}", "expected at least 0.01"),
        ("{trainer_type: ppo, network_settings: {action_range: .nan}}", "finite"),
        ("{trainer_type: ppo, network_settings: {initial_log_std: wide}}", "number"),
    ],
)
def test_where_they_mean_nothing_they_are_refused(behavior, words):
    with pytest.raises(TrainerConfigError, match=words):
        require_support(RunOptions.from_text(f"behaviors: {{B: {behavior}}}"))


def test_a_critic_that_only_inherits_them_is_none_of_that():
    text = "behaviors: {B: {network_settings: {action_range: 1, critic: {num_layers: 1}}}}"
    require_support(RunOptions.from_text(text))
