"""Networks are built as network_settings say, for the policy and for a critic of another shape."""

import numpy as np
import pytest
import torch
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.modules.body import Body
from lanista.trainers.networks.modules.layers import activate, initialize_
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.networks.team_critic import TeamCritic
from lanista.trainers.settings.models.networks import Activation, Initialization, NetworkSettings
from specs import spec_of_shapes

SPEC = spec_of_shapes([(3,), (2,)], continuous=2, branches=(3,))


def build(spec=SPEC, shared=False, **settings):
    generator = torch.Generator().manual_seed(0)
    return ActorCritic(spec, NetworkSettings.model_validate(settings), ["a", "b"], shared, generator)


@pytest.mark.parametrize(
    ("kind", "expected"),
    {
        Activation.SWISH: torch.nn.SiLU(),
        Activation.RELU: torch.nn.ReLU(),
        Activation.LEAKY_RELU: torch.nn.LeakyReLU(0.01),
        Activation.ELU: torch.nn.ELU(),
        Activation.GELU: torch.nn.GELU(),
        Activation.TANH: torch.nn.Tanh(),
    }.items(),
)
def test_activations(kind, expected):
    x = torch.linspace(-5, 5, 101)
    torch.testing.assert_close(activate(kind, x), expected(x), atol=1e-3, rtol=0)  # GELU: by tanh, not erf
    body = Body(2, 3, NetworkSettings(hidden_units=4, activation=kind))
    rows = torch.randn(5, 3)
    hidden = activate(kind, rows @ body.layers[0].weight[1] + body.layers[0].bias[1])
    wanted = activate(kind, hidden @ body.layers[1].weight[1] + body.layers[1].bias[1])
    torch.testing.assert_close(body.stream(1, rows), wanted)
    torch.testing.assert_close(body(rows)[1], wanted)


@pytest.mark.parametrize("kind", Initialization)
def test_initial_weights(kind):
    weight = initialize_(torch.empty(3, 64, 48), kind, 2.0, torch.Generator().manual_seed(0))
    deviation = {"kaiming_normal": 64**-0.5, "xavier_uniform": (2 / 112) ** 0.5, "orthogonal": 64**-0.5}
    assert weight.std().item() == pytest.approx(2.0 * deviation[kind.value], rel=0.05)
    assert not torch.equal(weight[0], weight[1])
    if kind is Initialization.ORTHOGONAL:
        torch.testing.assert_close(weight[0].T @ weight[0], 4.0 * torch.eye(48), atol=1e-4, rtol=0)
    drawn = [build(initialization=kind.value).body.layers[0].weight for _ in range(2)]
    assert torch.equal(*drawn), "one seed, one network"


@pytest.mark.parametrize("more", [{}, {"shared": True}, {"critic": {"hidden_units": 32}}], ids=str)
@pytest.mark.parametrize("critic", ["own", "of a team"])
def test_orthogonal_weights_have_the_gains_of_stable_baselines3(more, critic):
    """sqrt(2) of hidden layers, 0.01 of what chooses actions, 1 of values; biases are 0."""
    network = build(initialization="orthogonal", hidden_units=48, **more)
    bodies, values = [network.body, network.critic_body or network.body], network.values
    if critic == "of a team":
        settings = NetworkSettings(initialization="orthogonal", hidden_units=48)
        team = TeamCritic(SPEC, settings, ["a", "b"])
        bodies, values = [team.body], team.values

    def gain(weight):
        singular = torch.linalg.svdvals(weight.detach())
        torch.testing.assert_close(singular, singular[:1].expand_as(singular), rtol=1e-4, atol=1e-6)
        return singular[0].item()

    weights = [stream for body in bodies for layer in body.layers for stream in layer.weight]
    assert [gain(weight) for weight in weights] == pytest.approx([2**0.5] * len(weights), rel=1e-4)
    heads = [*network.actions.weight.split([2, 3], dim=1), values.weight]
    assert [gain(weight) for weight in heads] == pytest.approx([0.01, 0.01, 1.0], rel=1e-4)
    assert not any(p.any() for name, p in network.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize("more", [{}, {"shared": True}, {"critic": {"activation": "tanh"}}], ids=str)
def test_layers_have_the_widths_of_a_list(more):
    keys = {"spec": spec_of_shapes([(3, 20, 20), (2,)], continuous=2), **more}
    network = build(hidden_units=[12, 8, 20], **keys)
    assert [layer.weight.shape[2] for layer in network.body.layers] == [12, 8, 20]
    assert network.encoder.encoders["0"].dense.weight.shape[1] == 12, "images are as wide as the first"
    assert network.values.weight.shape[0] == network.actions.weight.shape[0] == 20
    same = build(hidden_units=[16] * 3, **keys), build(hidden_units=16, num_layers=3, **keys)
    assert all(map(torch.equal, *(one.state_dict().values() for one in same))), "of the same first weights"


def test_layer_norm_precedes_the_activation():
    settings = NetworkSettings(hidden_units=16, num_layers=1, activation=Activation.RELU, layer_norm=True)
    body = Body(1, 3, settings)
    rows = torch.randn(50, 3) * 100 + 7
    found = body.stream(0, rows)
    sums = (rows @ body.layers[0].weight[0]).detach().numpy()
    scaled = (sums - sums.mean(1, keepdims=True)) / sums.std(1, keepdims=True)
    np.testing.assert_allclose(found.detach().numpy(), np.maximum(scaled, 0.0), atol=1e-3)


def test_residual_blocks_add_to_their_input_and_normalize():
    settings = NetworkSettings(hidden_units=6, num_layers=2, activation=Activation.RELU, residual=True)
    body, rows = Body(2, 3, settings), torch.randn(20, 3) * 10 + 7

    def normal(x):
        return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)

    both = body(rows).detach().numpy()
    for stream in (0, 1):
        layers = [
            (one.weight[stream].detach().numpy(), one.bias[stream].detach().numpy()) for one in body.layers
        ]
        assert [weight.shape for weight, _ in layers] == [(3, 6), (6, 24), (24, 6), (6, 24), (24, 6)]
        x = rows.numpy() @ layers[0][0] + layers[0][1]
        for (w1, b1), (w2, b2) in (layers[1:3], layers[3:5]):
            x = x + np.maximum(normal(x) @ w1 + b1, 0.0) @ w2 + b2
        np.testing.assert_allclose(body.stream(stream, rows).detach().numpy(), normal(x), atol=1e-4)
        np.testing.assert_allclose(both[stream], normal(x), atol=1e-4)


def test_a_goal_makes_no_weights_of_residual_blocks():
    spec = spec_of_shapes([(3,), (2,)], (0, 1), 1)
    with pytest.raises(UnsupportedObservationError, match="goal_conditioning_type: none"):
        Actor(spec, NetworkSettings(residual=True))
    assert Actor(spec, NetworkSettings(residual=True, goal_conditioning_type="none")).body.residual


def test_residual_blocks_are_not_normalized_twice():
    with pytest.raises(ValueError, match="residual blocks normalize"):
        NetworkSettings(residual=True, layer_norm=True)


def test_the_default_is_ml_agents_network():
    assert build().is_dense_mlp
    assert not build(activation="relu").is_dense_mlp and not build(layer_norm=True).is_dense_mlp
    assert not build(residual=True).is_dense_mlp


def test_a_critic_of_another_shape():
    critic = {"hidden_units": 24, "num_layers": 3, "activation": "tanh"}
    network = build(hidden_units=8, critic=critic)
    assert not network.is_dense_mlp
    assert [layer.weight.shape[2] for layer in network.body.layers] == [8, 8]
    assert [layer.weight.shape[2] for layer in network.critic_body.layers] == [24, 24, 24]
    assert network.values.weight.shape == (24, 2) and network.actions.weight.shape[0] == 8
    inputs = network.prepare([torch.randn(4, 3), torch.randn(4, 2)])
    distribution, values = network.evaluate(inputs)
    torch.testing.assert_close(values, network.value(inputs))
    torch.testing.assert_close(distribution.logits, network.act(inputs).logits)


def test_a_critic_with_a_smaller_memory_and_another_eye():
    spec = spec_of_shapes([(3, 40, 40), (2,)], continuous=1)
    memory = {"memory_size": 12, "sequence_length": 4}
    critic = {"vis_encode_type": "nature_cnn", "memory": {**memory, "memory_size": 6}}
    network = build(spec, hidden_units=8, memory=memory, critic=critic)
    assert (network.memory(0).size, network.memory(-1).size) == (12, 6)
    assert len(network.critic_encoder.encoders["0"].convolutions) == 3
    inputs = network.prepare([torch.rand(8, 3, 40, 40), torch.randn(8, 2)])
    states = torch.randn(2, 12), torch.randn(2, 6)
    _, values = network.evaluate_with_memory(inputs, *states, 4)
    encoding, _ = network.memory(-1)(network.critic_encoding(inputs), states[1], 4)
    torch.testing.assert_close(values, network.values(encoding))


def test_a_critic_that_says_nothing_is_built_like_the_policy():
    shapes = [[tuple(p.shape) for p in build(critic=one, hidden_units=8).parameters()] for one in (None, {})]
    assert sum(map(np.prod, shapes[0])) == sum(map(np.prod, shapes[1]))
