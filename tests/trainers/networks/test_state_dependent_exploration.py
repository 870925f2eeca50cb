"""`state_dependent_exploration` (gSDE): formulas against plain ones, and what becomes of it in files."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lanista.trainers.algorithms.common.actions import UnsupportedActionError
from lanista.trainers.checkpoints.metadata import build_network, describe_network
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.policies.godot.export import export_godot
from lanista.trainers.policies.godot.godot_rl import export_godot_rl
from lanista.trainers.policies.onnx.export import build_brain
from lanista.trainers.policies.onnx.graph import BrainVerificationError
from lanista.trainers.policies.onnx.verify import verify
from lanista.trainers.settings.errors import TrainerConfigError
from lanista.trainers.settings.models.networks import NetworkSettings
from lanista.trainers.settings.options import RunOptions
from lanista.trainers.settings.validation import require_support
from lanista.trainers.trainer.factory import untrainable
from policysteps import change, random_obs, session_of
from specs import vector_spec

SPEC = vector_spec([4], 2, [3])
LSTM = {"memory": {"memory_size": 6}}
SAC = HeadConfig(squashed=True, sigma_of_state=True)


def settings_of(**keys):
    keys = {"hidden_units": 8, "state_dependent_exploration": {"resample_interval": 5}, **keys}
    return NetworkSettings.model_validate(keys)


def network(kind=ActorCritic, spec=SPEC, head=None, **keys):
    """With deviations that differ, and means that matter."""
    random = torch.Generator().manual_seed(0)
    if kind is ActorCritic:
        made = ActorCritic(spec, settings_of(**keys), ["extrinsic"], generator=random)
    else:
        made = Actor(spec, settings_of(**keys), random, head=head)
    with torch.no_grad():
        made.actions.weight.mul_(5.0)
        made.actions.log_sigma.add_(torch.randn(made.actions.log_sigma.shape, generator=random))
    return made


def features_of(net, rows):
    encoding = net.actor_encoding(net.prepare([rows]))
    return encoding.detach().numpy().astype(np.float64)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**16), st.floats(-3.0, 1.0), st.booleans())
def test_probabilities_are_those_of_a_gaussian_of_the_summed_variances(seed, log_std, squashed):
    """As in Stable-Baselines3: variance = f^2 @ exp(log_std)^2 + 1e-6, whatever W is."""
    net = network(Actor, head=SAC if squashed else None, initial_log_std=log_std).requires_grad_(False)
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(9, 4, generator=random)
    distribution = net.act(net.prepare([rows]))
    deviations = np.exp(net.actions.log_sigma.numpy().astype(np.float64))
    variance = features_of(net, rows) ** 2 @ deviations**2 + 1e-6
    np.testing.assert_allclose(distribution.log_sigma.exp(), np.sqrt(variance), rtol=1e-4)
    actions = distribution.sample(random)
    mu, taken = distribution.mu.numpy(), actions.continuous.numpy().astype(np.float64)
    fine = np.abs(taken) < 0.99 if squashed else np.full(taken.shape, True)
    taken = np.where(fine, taken, 0.0)
    raw, slope = (np.arctanh(taken), np.log(1.0 - taken**2)) if squashed else (taken, 0.0)
    wanted = -0.5 * (raw - mu) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance) - slope
    found = distribution.log_probs(actions).numpy()[:, :2]
    np.testing.assert_allclose(found[fine], wanted[fine], rtol=5e-3, atol=5e-3)
    entropy = 0.5 * np.log(2 * np.pi * np.e * variance).mean(1)
    p = distribution.probabilities[:, 0]
    of_branch = (p * p.log()).sum(1).numpy()
    np.testing.assert_allclose(distribution.entropy(), entropy - of_branch, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("head, reaches", [(None, False), (SAC, True)])
def test_the_gradient_of_deviations_reaches_the_features_in_sac_alone(head, reaches):
    """As `learn_features` of Stable-Baselines3, which is true in SAC."""
    net = network(Actor, head=head)
    net.act(net.prepare([torch.randn(6, 4)])).log_sigma.sum().backward()
    weight = net.body.layers[0].weight.grad
    assert (weight is not None and bool(weight.abs().sum() > 0)) is reaches
    assert net.actions.log_sigma.grad.abs().min() > 0


def test_initial_log_std_is_that_of_every_feature():
    head = Actor(SPEC, settings_of(initial_log_std=-2.5)).actions
    np.testing.assert_array_equal(head.log_sigma.detach(), np.full((8, 2), -2.5, np.float32))


def test_without_it_networks_are_as_they_were():
    random = [torch.Generator().manual_seed(3) for _ in range(2)]
    with_it = ActorCritic(SPEC, settings_of(), ["extrinsic"], generator=random[0]).state_dict()
    without = ActorCritic(SPEC, NetworkSettings(hidden_units=8), ["extrinsic"], generator=random[1])
    for name, tensor in without.state_dict().items():
        if not name.endswith("log_sigma"):
            assert torch.equal(tensor, with_it[name]), name


@pytest.mark.parametrize(
    "kind, head, keys",
    [
        (ActorCritic, None, {}),
        (ActorCritic, None, LSTM),
        (ActorCritic, None, {"action_range": 1.0, "activation": "tanh"}),
        (Actor, SAC, {}),
        (Actor, SAC, LSTM),
    ],
)
def test_files_sample_by_the_same_deviations(tmp_path, kind, head, keys):
    """`verify` compares means and the distribution of samples; samples of one row are independent."""
    net = network(kind, head=head, initial_log_std=-1.0, **keys).requires_grad_(False)
    model = build_brain(net, behavior="B")
    verify(model, net)
    feeds = {"obs_0": random_obs([(4,)], 1)[0].repeat(500, 0), "action_masks": np.ones((500, 3), np.float32)}
    if net.memory_size:
        feeds["recurrent_in"] = np.zeros((500, 1, 6), np.float32)
    (sampled,) = session_of(model).run(["continuous_actions"], feeds)
    assert len(np.unique(sampled[:, 0])) > 400
    export_godot(net, tmp_path / "b.tres", behavior="B")
    assert '"explored"' in (tmp_path / "b.tres").read_text()
    if not net.memory_size:
        export_godot_rl(net, tmp_path / "b.onnx", behavior="B")
        assert (tmp_path / "b.onnx").stat().st_size


def test_a_file_with_other_deviations_is_not_written():
    net = network(initial_log_std=-1.0).requires_grad_(False)
    model = build_brain(net, behavior="B")
    change(model, "actions.variance.weight", lambda weight: weight * 9.0)
    with pytest.raises(BrainVerificationError, match="does not sample"):
        verify(model, net)


@pytest.mark.parametrize("kind", [Actor, ActorCritic])
def test_checkpoints_keep_it(kind):
    net = network(kind)
    shared = False if kind is ActorCritic else None
    described = describe_network("B", SPEC, settings_of(), ["extrinsic"], shared)
    _, loaded = build_network({"brain": described, "Policy": net.state_dict()})
    assert loaded.actions.exploration.resample_interval == 5
    assert torch.equal(loaded.actions.log_sigma, net.actions.log_sigma)
    plain = describe_network("B", SPEC, NetworkSettings(hidden_units=8), ["extrinsic"], shared)
    assert "state_dependent_exploration" not in plain["network"], "release 0.1.0 refuses it"


KEY = "state_dependent_exploration"


@pytest.mark.parametrize(
    "behavior, words",
    [
        (f"{{trainer_type: td3, network_settings: {{{KEY}: {{}}}}}}", "noise_type"),
        (f"{{trainer_type: ddpg, network_settings: {{{KEY}: {{}}}}}}", "noise_type"),
        (f"{{trainer_type: dqn, network_settings: {{{KEY}: {{}}}}}}", "no continuous actions: remove"),
        (f"{{trainer_type: coma, network_settings: {{{KEY}: {{}}}}}}", "no continuous actions: remove"),
        (f"{{network_settings: {{{KEY}: {{}}, critic: {{{KEY}: null}}}}}}", "only a policy's network has it"),
        (f"{{reward_signals: {{rnd: {{network_settings: {{{KEY}: {{}}}}}}}}}}", "only a policy's network"),
        (f"{{network_settings: {{{KEY}: {{resample_interval: 0}}}}}}", "at least 1"),
        (f"{{network_settings: {{{KEY}: {{resample_interval: often}}}}}}", "whole number"),
        (f"{{network_settings: {{{KEY}: {{resample_interval: .nan}}}}}}", "finite"),
        (f"{{network_settings: {{{KEY}: true}}}}", "mapping"),
        (f"{{network_settings: {{{KEY}: {{interval: 4}}}}}}", "Did you mean `resample_interval`"),
        ("{trainer_type: sac, network_settings: {initial_log_std: -3}}", "tanh: remove this key"),
        (
            f"{{trainer_type: sac, network_settings: {{action_range: 1, {KEY}: {{}}}}}}",
            "tanh: remove this key",
        ),
    ],
)
def test_where_it_means_nothing_it_is_refused(behavior, words):
    with pytest.raises(TrainerConfigError, match=words):
        require_support(RunOptions.from_text(f"behaviors: {{B: {behavior}}}"))


@pytest.mark.parametrize("recipe", ["mlagents", "simba"])
def test_sac_takes_it_with_its_first_deviation(recipe):
    hyper = f"hyperparameters: {{recipe: {recipe}}}"
    network = f"network_settings: {{initial_log_std: -3, {KEY}: {{}}, critic: {{num_layers: 1}}}}"
    text = f"behaviors: {{B: {{trainer_type: sac, {hyper}, {network}}}}}"
    if recipe == "simba":
        text = text.replace(", critic: {num_layers: 1}", "")
    require_support(RunOptions.from_text(text))


@pytest.mark.parametrize("trainer", ["ppo", "poca", "mappo", "sac"])
def test_agents_without_continuous_actions_are_refused(trainer):
    text = f"behaviors: {{B: {{trainer_type: {trainer}, network_settings: {{{KEY}: {{}}}}}}}}"
    options = RunOptions.from_text(text)
    why = untrainable(vector_spec([4], 0, [3, 2]), options.behavior("B"))
    assert why is not None and f"(branches of sizes (3, 2)), and network_settings.{KEY}" in why
    assert issubclass(UnsupportedActionError, ValueError)
    assert untrainable(SPEC, options.behavior("B")) is None
