"""Brains of greedy policies give the greedy action in every output, masks heeded."""

import numpy as np
import pytest
import torch
from lanista.trainers.checkpoints.metadata import build_network, describe_network
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.modules.heads import HeadConfig
from lanista.trainers.policies.onnx.export import build_brain, export_brain
from lanista.trainers.policies.onnx.graph import BrainVerificationError, not_importable
from lanista.trainers.policies.onnx.load import load
from lanista.trainers.policies.onnx.verify import verify
from lanista.trainers.settings.models.networks import NetworkSettings
from policysteps import node, random_obs, session_of
from specs import spec_of_shapes

SHAPES = {
    "vectors": ([(3,), (2,)], ()),
    "pictures": ([(3,), (1, 20, 24)], ()),
    "entities": ([(3,), (4, 5)], ()),
    "goals": ([(3,), (2,)], (False, True)),
}
HEADS = {
    "ddpg": HeadConfig(deterministic=True),
    "dqn": HeadConfig(values=1),
    "dueling": HeadConfig(values=1, dueling=True),
    "signals": HeadConfig(values=2, dueling=True),
}
BRANCHES = (3, 2)


def network(senses="vectors", head="dqn", memory=None):
    shapes, goals = SHAPES[senses]
    continuous, branches = (2, ()) if head == "ddpg" else (0, BRANCHES)
    spec = spec_of_shapes(shapes, goals, continuous, branches)
    chosen = NetworkSettings(hidden_units=12, normalize=True, memory=memory)
    return Actor(spec, chosen, torch.Generator().manual_seed(0), head=HEADS[head])


def verified(built):
    model = build_brain(built, behavior="Greedy")
    verify(model, built)
    assert not not_importable(model)
    return session_of(model)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("senses", SHAPES)
def test_all_outputs_are_greedy_at_any_batch_size(senses, head):
    built, random = network(senses, head), np.random.default_rng(1)
    session = verified(built)
    for count in (1, 64):
        obs = random_obs([one.shape for one in built.spec.observation_specs], count)
        feeds = {f"obs_{i}": rows for i, rows in enumerate(obs)}
        with torch.no_grad():
            encoding = built.actor_encoding(built.prepare([torch.from_numpy(rows) for rows in obs]))
        if head == "ddpg":
            drawn, likeliest = session.run(["continuous_actions", "deterministic_continuous_actions"], feeds)
            with torch.no_grad():
                expected = built.actions.columns(encoding).tanh().numpy()
            np.testing.assert_allclose(drawn, expected, rtol=1e-4, atol=1e-5)
        else:
            allowed = random.random((count, 5)) < 0.6
            allowed[:, [1, 4]] = True
            feeds["action_masks"] = allowed.astype(np.float32)
            drawn, likeliest = session.run(["discrete_actions", "deterministic_discrete_actions"], feeds)
            with torch.no_grad():
                total = built.actions.q(encoding).sum(1).numpy()
            free = np.where(allowed, total, -np.inf)
            expected = np.stack([free[:, :3].argmax(1), free[:, 3:].argmax(1)], 1)
            np.testing.assert_array_equal(drawn, expected)
        np.testing.assert_array_equal(drawn, likeliest)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_brain_with_a_memory_is_verified_over_steps(kind):
    verified(network(memory={"memory_type": kind, "memory_size": 8}))


def test_values_of_any_magnitude_are_distinguished():
    built = network()
    with torch.no_grad():
        built.actions.weight.mul_(1e3)
        built.actions.bias.add_(5e4)
    verified(built)


def test_a_brain_that_draws_its_actions_is_refused():
    built = network()
    model = build_brain(built, behavior="Greedy")
    chosen = next(n for n in model.graph.node if n.output[0] == "discrete_actions")
    chosen.input[1] = node(model, "Slice").output[0]
    with pytest.raises(BrainVerificationError):
        verify(model, built)


@pytest.mark.parametrize("head", HEADS)
def test_a_checkpoint_and_its_brain_act_alike_when_loaded(tmp_path, head):
    built = network(head=head)
    described = describe_network(
        "Greedy", built.spec, built.encoder.settings, ["extrinsic"], None, None, built.head
    )
    name, again = build_network({"brain": described, "Policy": built.state_dict()})
    assert name == "Greedy" and again.head == built.head
    export_brain(again, tmp_path / "g.onnx", behavior="Greedy")
    torch.save({"brain": described, "Policy": built.state_dict()}, tmp_path / "g.pt")
    brain, checkpoint = load(tmp_path / "g.onnx", seed=1), load(tmp_path / "g.pt", seed=2)
    obs = random_obs([(3,), (2,)], 20)
    for deterministic in (True, False):
        one, two = (p.act(obs, deterministic=deterministic) for p in (brain, checkpoint))
        np.testing.assert_array_equal(one.discrete, two.discrete)
        np.testing.assert_allclose(one.continuous, two.continuous, rtol=1e-4, atol=1e-6)
