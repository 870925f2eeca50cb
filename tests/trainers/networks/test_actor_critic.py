"""Actor and critic as one body: together they are what each is alone, and they stay apart in training."""

import pytest
import torch
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import DimensionProperty, ObservationSpec, ObservationType
from specs import vector_spec

SPEC = vector_spec([3, 2], continuous=2, branches=(3, 2))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def build(shared=False, normalize=True, signals=("extrinsic", "rnd"), seed=0, **settings):
    network_settings = NetworkSettings(normalize=normalize, hidden_units=16, **settings)
    return ActorCritic(SPEC, network_settings, signals, shared, generator=seeded(seed))


def observations(rows, seed=1):
    generator = seeded(seed)
    return [torch.randn(rows, o.shape[0], generator=generator) * 2 + 1 for o in SPEC.observation_specs]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_both_together_equal_each_alone(shared, rows):
    network = build(shared)
    inputs = network.prepare(observations(rows))
    mask = torch.rand(rows, 5, generator=seeded(2)) < 0.3
    both, values = network.evaluate(inputs, mask)
    alone = network.act(inputs, mask)
    torch.testing.assert_close(both.mu, alone.mu)
    torch.testing.assert_close(both.probabilities, alone.probabilities)
    torch.testing.assert_close(values, network.value(inputs))
    assert values.shape == (rows, 2)


def test_rows_may_be_taken_after_preparing():
    network, obs, rows = build(), observations(9), torch.tensor([7, 0, 3])
    network.update_normalization(obs)
    prepared = [x[rows] for x in network.prepare(obs)]
    torch.testing.assert_close(prepared, network.prepare([o[rows] for o in obs]))


def test_the_critics_loss_does_not_reach_the_actor():
    network = build()
    _, values = network.evaluate(network.prepare(observations(4)))
    values.sum().backward()
    for layer in network.body.layers:
        assert not layer.weight.grad[0].any()
        assert layer.weight.grad[1].any()
    assert network.actions.weight.grad is None


def test_a_shared_critic_trains_the_one_body():
    network = build(shared=True)
    distribution, values = network.evaluate(network.prepare(observations(4)))
    (values.sum() + distribution.mu.sum()).backward()
    assert network.body.layers[0].weight.shape[0] == 1
    assert network.body.layers[0].weight.grad.any()


def test_a_seed_repeats_the_weights_and_streams_differ():
    first, again, other = build(seed=5), build(seed=5), build(seed=6)
    torch.testing.assert_close(first.state_dict(), again.state_dict(), rtol=0, atol=0)
    weight = first.body.layers[0].weight
    assert not torch.equal(weight, other.body.layers[0].weight)
    assert not torch.equal(weight[0], weight[1])


def test_normalization_is_off_by_default():
    network, obs = build(normalize=False), observations(3)
    network.update_normalization(obs)
    torch.testing.assert_close(network.prepare(obs)[0], torch.cat(obs, 1))
    assert not list(network.buffers())


def test_acting_uses_weights_that_are_changed_in_place():
    """Optimizers, flat parameter vectors and checkpoints write into the parameters' storage or replace it."""
    network, other = build(seed=1), build(seed=2)
    inputs = network.prepare(observations(2))
    network.act(inputs)
    network.load_state_dict(other.state_dict())
    for parameter in network.parameters():
        parameter.data = parameter.data.clone()
    torch.testing.assert_close(network.act(inputs).mu, other.act(inputs).mu)


def refused(spec, **settings):
    with pytest.raises(UnsupportedObservationError) as error:
        ActorCritic(spec, NetworkSettings(**settings), ["extrinsic"])
    return str(error.value)


def test_observations_that_cannot_be_encoded_are_refused_by_name():
    none, size = DimensionProperty.NONE, DimensionProperty.VARIABLE_SIZE
    strange = ObservationSpec((3, 84), (none, none), ObservationType.DEFAULT, "Grid")
    goals = ObservationSpec((20, 4), (size, none), ObservationType.GOAL_SIGNAL, "Targets")
    assert "Observation 'Grid'" in refused(SPEC._replace(observation_specs=[strange]))
    message = refused(SPEC._replace(observation_specs=[*SPEC.observation_specs, goals]))
    assert "Observation 2 'Targets'" in message and "goal_conditioning_type to none" in message
    assert "no observations" in refused(SPEC._replace(observation_specs=[]))


def test_a_goal_is_an_ordinary_vector_without_conditioning():
    goal = ObservationSpec((4,), (DimensionProperty.NONE,), ObservationType.GOAL_SIGNAL, "Target")
    spec = SPEC._replace(observation_specs=[*SPEC.observation_specs, goal])
    assert ActorCritic(spec, NetworkSettings(goal_conditioning_type="none"), ["extrinsic"]).encoder.size == 9


def test_at_least_one_layer():
    assert len(build(num_layers=0).body.layers) == 1
