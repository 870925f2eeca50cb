"""Networks read images, sets of entities and goals, alone and together."""

import numpy as np
import pytest
import torch
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.critics import ActionCritics, TwinQ
from lanista.trainers.networks.modules.attention import ABSENT_BELOW, EntityEncoder, absent
from lanista.trainers.networks.modules.hypernetwork import Goals, HyperLayer
from lanista.trainers.networks.modules.visual import VisualEncoder
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.networks.observations import ObservationEncoder
from lanista.trainers.settings.models.networks import EncoderType, NetworkSettings
from reliability.resume import differences
from specs import image_spec, spec_of_shapes

EVERYTHING = spec_of_shapes(
    [(3,), (3, 20, 24), (6, 4), (2,), (1, 22, 20), (5, 3)], [0, 0, 0, 1, 0, 0], 2, (3,)
)
NETWORK = {"hidden_units": 8, "normalize": True}


def observations(spec, rows, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, *one.shape, generator=generator) for one in spec.observation_specs]


def build(spec=EVERYTHING, shared=False, seed=0, **settings):
    generator = torch.Generator().manual_seed(seed)
    chosen = NetworkSettings.model_validate(NETWORK | settings)
    return ActorCritic(spec, chosen, ["extrinsic"], shared, generator)


def test_everything_at_once_becomes_one_vector_in_the_observations_order():
    encoder = build().encoder
    assert encoder.size == 3 + 8 + 2 + 8 + 128
    expected = {0: slice(0, 3), 1: slice(3, 11), 3: slice(11, 13), 4: slice(13, 21)}
    assert encoder.columns == expected
    obs = observations(EVERYTHING, 4)
    before = encoder(encoder.prepare(obs))
    for index, columns in expected.items():
        changed = [rows.clone() for rows in obs]
        changed[index] += 0.5
        moved = (encoder(encoder.prepare(changed)) - before).abs().sum(0) > 1e-6
        own = torch.zeros(encoder.size, dtype=torch.bool)
        own[columns] = own[-128:] = True  # entities are seen from where everything else stands
        assert moved[columns].any() and not moved[~own].any()


def test_images_of_bytes_are_read_as_floats():
    network = build()
    obs = observations(EVERYTHING, 3)
    pixels = torch.randint(0, 256, (3, 3, 20, 24), dtype=torch.uint8)
    said = []
    for picture in (pixels, pixels.float() / 255):
        distribution, values = network.evaluate(network.prepare([obs[0], picture, *obs[2:]]))
        said.append((distribution.mu, values))
    assert network.prepare([obs[0], pixels, *obs[2:]])[1] is pixels, "a learner keeps a byte a pixel"
    torch.testing.assert_close(said[0], said[1])


@pytest.mark.parametrize("shared", [False, True])
def test_one_pass_equals_two_and_gradients_reach_the_right_encoders(shared):
    network = build(shared=shared)
    inputs = network.prepare(observations(EVERYTHING, 5))
    distribution, values = network.evaluate(inputs)
    torch.testing.assert_close(distribution.mu, network.act(inputs).mu)
    torch.testing.assert_close(values, network.value(inputs))
    distribution.mu.sum().backward()
    learning = [n for n, p in network.named_parameters() if p.grad is not None and p.grad.abs().max() > 0]
    assert not [name for name in learning if name.startswith("critic_")]
    for part in ("encoders.1", "encoders.4", "entities.own", "entities.embeddings.1", "entities.attention"):
        assert any(name.startswith(f"encoder.{part}.") for name in learning), part
    assert (network.critic_encoder is None) is shared


def test_vectors_alone_need_no_encoder_of_the_critics():
    plain = build(spec_of_shapes([(3,), (2,)], continuous=1))
    assert plain.is_dense_mlp and plain.critic_encoder is None
    assert (
        not build().is_dense_mlp
        and not build(spec_of_shapes([(3,), (2,)], [0, 1], continuous=1)).is_dense_mlp
    )


def test_one_seed_gives_one_network():
    first, again, other = build(seed=1), build(seed=1), build(seed=2)
    assert not differences(first.state_dict(), again.state_dict())
    assert not torch.equal(first.encoder.encoders["1"].dense.weight, other.encoder.encoders["1"].dense.weight)


# Images -----------------------------------------------------------------------------------------------


def test_images_that_are_too_small_are_refused_with_the_minimum():
    with pytest.raises(UnsupportedObservationError) as error:
        VisualEncoder(image_spec(3, 16, 40), EncoderType.NATURE_CNN, 8)
    message = str(error.value)
    assert "'eye'" in message and "40x16" in message and "nature_cnn" in message and "36x36" in message
    assert "vis_encode_type to resnet or match3 or fully_connected" in message


@pytest.mark.parametrize("kind", EncoderType)
def test_a_resnet_s_and_every_other_encoder_s_arithmetic(kind):
    """Against torch's own modules, in the reference's order of layers."""
    encoder = VisualEncoder(image_spec(3, 40, 37), kind, 6, torch.Generator().manual_seed(0))
    relu = torch.nn.LeakyReLU(0.01)
    images = torch.rand(2, 3, 40, 37)
    x, layers = images, list(encoder.convolutions)
    if kind is EncoderType.RESNET:
        silu, pool = torch.nn.SiLU(), torch.nn.MaxPool2d(3, 2)
        while layers:
            entrance, a, b, c, d = layers[:5]
            del layers[:5]
            x = pool(entrance(x))
            x = x + b(silu(a(silu(x))))
            x = x + d(silu(c(silu(x))))
        x, relu = silu(x), torch.nn.ReLU()
    for layer in layers:
        x = relu(layer(x))
    torch.testing.assert_close(encoder(images), relu(encoder.dense(x.reshape(2, -1))))


@pytest.mark.parametrize("kind", [EncoderType.NATURE_CNN, EncoderType.RESNET])
def test_convolutions_that_start_orthogonal_keep_the_contrast_of_images(kind):
    images = torch.rand(32, 3, 64, 64)
    settings = NetworkSettings(vis_encode_type=kind, initialization="orthogonal", hidden_units=32)
    encoder = ObservationEncoder([image_spec(3, 64, 64)], settings, torch.Generator().manual_seed(0))
    visual = encoder.encoders["0"]
    for layer in visual.convolutions:
        rows = layer.weight.detach().flatten(1)
        products = rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows
        torch.testing.assert_close(products, 2.0 * torch.eye(len(products)), atol=1e-4, rtol=0)
        assert not layer.bias.any()
    usual = VisualEncoder(image_spec(3, 64, 64), kind, 32, torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert visual(images).std(0).mean() > 2 * usual(images).std(0).mean()


# Entities ---------------------------------------------------------------------------------------------


def entity_encoder(own=5):
    return EntityEncoder([4, 3], own, torch.Generator().manual_seed(0))


def test_the_order_of_entities_and_padding_do_not_matter():
    encoder, generator = entity_encoder(), torch.Generator().manual_seed(1)
    first, second = torch.randn(7, 6, 4, generator=generator), torch.randn(7, 5, 3, generator=generator)
    own = torch.randn(7, 5, generator=generator)
    first[:, 4:] = 0.0
    expected = encoder([first, second], own)
    torch.testing.assert_close(encoder([first[:, [3, 5, 1, 0, 2, 4]], second.flip(1)], own), expected)
    torch.testing.assert_close(encoder([first[:, :4], second], own), expected)
    assert not torch.allclose(encoder([first[:, :3], second], own), expected)
    assert not torch.allclose(encoder([first, second], own + 1.0), expected)


def test_an_entity_of_next_to_nothing_counts_as_absent():
    """Pitfall C25, kept: brains in use have it in their graphs."""
    entities = torch.zeros(1, 3, 4)
    entities[0, 0, 0] = 0.99 * ABSENT_BELOW**0.5
    entities[0, 1, 0] = 1.01 * ABSENT_BELOW**0.5
    assert absent(entities).tolist() == [[True, False, True]]


def test_no_entities_give_zeros_and_finite_gradients():
    encoder = entity_encoder(own=0)
    found = encoder([torch.zeros(2, 6, 4), torch.zeros(2, 5, 3)], None)
    assert torch.equal(found, torch.zeros(2, 128))
    found.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in encoder.parameters())


# Goals ------------------------------------------------------------------------------------------------


def hyper_layer():
    return HyperLayer(2, 6, 5, [slice(0, 2), slice(4, 5)], 7, torch.Generator().manual_seed(0))


def test_few_goals_are_deduplicated_without_changing_results():
    layer, generator = hyper_layer(), torch.Generator().manual_seed(1)
    kinds = torch.randn(3, 6, generator=generator)
    encodings = kinds[torch.randint(0, 3, (40,), generator=generator)]
    inputs = torch.randn(40, 6, generator=generator)
    goals = layer.goals(encodings)
    assert len(goals.distinct) == 3 and goals.of_row is not None
    plain = Goals(encodings[:, [0, 1, 4]], None)
    results = []
    for found in (goals, plain):
        layer.zero_grad()
        out = layer.stream(1, inputs, found)
        out.square().sum().backward()
        results.append([out, *(p.grad.clone() for p in layer.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_many_goals_and_learned_goals_have_their_own_matrices():
    layer = hyper_layer()
    assert layer.goals(torch.randn(40, 6)).of_row is None
    assert layer.goals(torch.zeros(40, 6).requires_grad_()).of_row is None


@pytest.mark.parametrize("kinds", [3, 40])
@pytest.mark.parametrize("alike", [True, False])
def test_networks_in_one_pass_are_as_each_alone(kinds, alike):
    """Whether few goals or many, the same for all networks or encoded by each: results and gradients."""
    generator = torch.Generator().manual_seed(2)
    columns, first = [slice(0, 2), slice(4, 5)], torch.Generator().manual_seed(0)
    layer = HyperLayer(2, 6, 5, columns, 7, first, goals_encoded=not alike)
    goals = torch.randn(2, kinds, 6, generator=generator)[:, torch.arange(40) % kinds]
    if alike:
        goals[1] = goals[0]
    inputs = torch.randn(2, 40, 6, generator=generator).requires_grad_()
    each = [layer.stream(s, inputs[s], layer.goals(goals[s])) for s in range(2)]
    results = []
    for out in (layer(inputs, goals), torch.stack(each)):
        layer.zero_grad()
        inputs.grad = None
        out.square().sum().backward()
        results.append([out, inputs.grad, *(p.grad.clone() for p in layer.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_vector_goals_are_deduplicated_beside_images_too():
    """The picture's encoding learns; a goal beside it does not, and few goals need few matrices."""
    spec = spec_of_shapes([(3, 24, 32), (2,)], [0, 1], branches=(5,))
    network = build(spec, num_layers=1)
    inputs = [torch.rand(8, 3, 24, 32), torch.eye(2).repeat(4, 1)]
    layer = network.body.conditioned
    assert layer is not None and not layer.goals_encoded
    encodings = network.encoder(inputs)
    assert encodings.requires_grad and len(layer.goals(encodings).distinct) == 2
    chosen = network.encoder.settings
    for critics in (TwinQ(spec, chosen, ["a"]), ActionCritics(2, spec, chosen, 1)):
        layer = critics.body.conditioned
        encodings = critics.encoders[0](inputs)
        assert encodings.requires_grad and len(layer.goals(encodings).distinct) == 2
    seen = spec_of_shapes([(3, 24, 32), (2,)], [1, 0], branches=(5,))
    assert build(seen, num_layers=1).body.conditioned.goals_encoded


def test_goals_decide_how_the_rest_is_read_unless_they_are_read_like_it():
    spec = spec_of_shapes([(3,), (2,)], [0, 1], continuous=1)
    for kind, conditioned in (("hyper", True), ("none", False)):
        network = build(spec, goal_conditioning_type=kind, num_layers=1)
        assert (network.body.conditioned is not None) is conditioned
        assert network.encoder.size == 5
    assert build(spec, body=None, goal_conditioning_type="hyper").body.layers[0].weight.shape == (2, 5, 8)


def test_an_actor_may_leave_observations_out():
    actor = Actor(EVERYTHING, NetworkSettings.model_validate(NETWORK), leave_out=(1, 3))
    obs = observations(EVERYTHING, 2)
    expected = actor.act(actor.prepare(obs)).mu
    obs[1] += 1.0
    obs[3] += 1.0
    torch.testing.assert_close(actor.act(actor.prepare(obs)).mu, expected)
    assert np.isfinite(expected.detach().numpy()).all()
