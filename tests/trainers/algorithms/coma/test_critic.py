"""What the centralized critic reads, and what it does not."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from coma_plays import vector_spec
from lanista.trainers.algorithms.coma.critic import CentralCritic, Steps
from lanista.trainers.networks.modules.memory import PackedSequences, by_slot
from lanista.trainers.settings.models.networks import NetworkSettings

PLACES = 3
SETTINGS = NetworkSettings(hidden_units=16, num_layers=2)


def critic(spec=None, state=None, streams=1, **network):
    spec = spec or vector_spec([2], [2, 3])
    settings = SETTINGS.model_validate({**SETTINGS.model_dump(), **network})
    generator = torch.Generator().manual_seed(0)
    return CentralCritic(spec, settings, PLACES, ["extrinsic"], state, streams, generator)


def table_of(network, obs, actions):
    return network.table(*network.prepare([torch.tensor(o) for o in obs]), torch.tensor(actions))


OBS = [[[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]]]
ACTIONS = [[0, 1], [1, 2], [1, 0]]


def steps(own=0, roster=(0, 1, 2), place=0):
    return Steps(torch.tensor([own]), torch.tensor([roster]), torch.tensor([place]))


def values(network, obs=OBS, actions=ACTIONS, **step):
    return network(table_of(network, obs, actions), steps(**step)).detach()


def changed(what, *place, to):
    copy = deepcopy(what)
    target = copy
    for i in place[:-1]:
        target = target[i]
    target[place[-1]] = to
    return copy


def test_there_is_a_value_for_each_action_of_each_branch():
    assert values(critic()).shape == (1, 1, 5)


def test_the_own_action_is_not_known_and_the_others_are():
    network = critic()
    assert torch.equal(values(network), values(network, actions=changed(ACTIONS, 0, 1, to=2)))
    for other in (1, 2):
        assert not torch.equal(values(network), values(network, actions=changed(ACTIONS, other, 0, to=0)))


def test_all_observations_and_the_agents_own_slot_matter():
    network = critic()
    for row in range(3):
        assert not torch.equal(values(network), values(network, obs=changed(OBS, 0, row, 0, to=9.0)))
    alike = [[[0.1, 0.2]] * 3]
    acting_alike = [[1, 1]] * 3
    first = values(network, alike, acting_alike)
    assert not torch.allclose(first, values(network, alike, acting_alike, own=1, place=1))


def test_absent_members_are_zeros_and_flagged():
    network = critic()
    absent = values(network, roster=(0, 1, 3))
    assert torch.equal(absent, values(network, obs=changed(OBS, 0, 2, 0, to=9.0), roster=(0, 1, 3)))
    zeros = [[[0.1, 0.2], [0.3, 0.4], [0.0, 0.0]]]
    assert not torch.allclose(absent, values(network, obs=zeros)), "one that sees zeros is not absent"


def test_a_state_replaces_the_observations_of_the_others():
    spec = vector_spec([2, 4], [2, 3], ["eyes", "state"])
    network = critic(spec, state=1)
    obs = [*OBS, [[1.0] * 4, [2.0] * 4, [3.0] * 4]]
    assert torch.equal(values(network, obs), values(network, changed(obs, 0, 1, 0, to=9.0)))
    assert not torch.equal(values(network, obs), values(network, changed(obs, 0, 0, 0, to=9.0)))
    assert not torch.equal(values(network, obs), values(network, changed(obs, 1, 0, 0, to=9.0)))


def test_rescaling_preserves_the_values():
    network = critic(streams=PLACES)
    before = values(network)
    network.rescale(torch.tensor([3.0]), torch.tensor([7.0]))
    network.rescale(torch.tensor([-1.0]), torch.tensor([0.5]))
    np.testing.assert_allclose(values(network), before, atol=1e-5)


def test_unshared_critics_are_networks_of_their_own():
    network = critic(streams=PLACES)
    batch = Steps(torch.tensor([2, 0, 1]), torch.tensor([[0, 1, 2]] * 3), torch.tensor([2, 0, 1]))
    table = table_of(network, OBS, ACTIONS)
    together = network(table, batch)
    for i in range(3):
        one = batch.take(torch.tensor([i]))
        np.testing.assert_allclose(together[i : i + 1].detach(), network(table, one).detach(), atol=1e-6)
    together[1].sum().backward()
    touched = network.head.weight.grad.abs().sum((1, 2)) > 0
    assert touched.tolist() == [True, False, False]


@pytest.mark.parametrize("streams", [1, PLACES])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_critic_continues_from_the_states_that_it_returned(streams, kind):
    network = critic(streams=streams, memory={"memory_size": 8, "sequence_length": 4, "memory_type": kind})
    random = np.random.default_rng(0)
    obs, actions = [random.normal(size=(8, 2)).astype(np.float32)], random.integers(0, 2, (8, 2))
    table = table_of(network, obs, actions)
    # Two agents, at places 0 and 2, for four steps.
    own = torch.arange(8)
    roster = torch.stack((torch.arange(4).repeat(2), torch.full((8,), 8), torch.arange(4, 8).repeat(2)), 1)
    places = torch.tensor([0] * 4 + [2] * 4)
    whole = Steps(own, roster, places)
    zeros = torch.zeros(2, 8)
    at_once, behind = network.forward_with_states(table, whole, PackedSequences([4, 4], zeros))
    first = whole.take(torch.tensor([0, 4, 5]))
    rest = whole.take(torch.tensor([1, 2, 3, 6, 7]))
    one, states = network.forward_with_states(table, first, PackedSequences([1, 2], zeros))
    two, ends = network.forward_with_states(table, rest, PackedSequences([3, 2], states))
    np.testing.assert_allclose(
        torch.cat((one, two)).detach(), at_once[[0, 4, 5, 1, 2, 3, 6, 7]].detach(), atol=1e-6
    )
    np.testing.assert_allclose(ends.detach(), behind.detach(), atol=1e-6)


def test_rows_come_back_in_their_order():
    places = torch.tensor([2, 0, 2, 1, 0])
    calls = []

    def network(place, rows, runs):
        calls.append((place, rows.tolist()))
        return rows[:, None] * 10 + place, None

    found, states = by_slot(places, 4, network)
    assert found[:, 0].tolist() == [2, 10, 22, 31, 40]
    assert states is None
    assert calls == [(0, [1, 4]), (1, [3]), (2, [0, 2])]
