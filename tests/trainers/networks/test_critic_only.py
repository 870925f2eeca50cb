"""Observations that the critic alone reads: the policy does not depend on them, and every critic does."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import torch
from lanista.trainers.algorithms.coma.critic import CentralCritic, Steps
from lanista.trainers.checkpoints.file import CheckpointError
from lanista.trainers.checkpoints.metadata import build_network, describe_network
from lanista.trainers.checkpoints.mlagents.names import policy_tensors
from lanista.trainers.checkpoints.mlagents.weights import NetworkViews
from lanista.trainers.networks.actor import Actor
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.networks.critics import ActionCritics, TwinQ, ValueNetwork
from lanista.trainers.networks.multi_actor import MultiActor
from lanista.trainers.networks.observation_kinds import UnsupportedObservationError
from lanista.trainers.networks.observations import ObservationEncoder
from lanista.trainers.networks.team_critic import TeamCritic, TeamSets
from lanista.trainers.policies.onnx.export import build_brain, export_brain
from lanista.trainers.policies.onnx.runtime import Brain
from lanista.trainers.policies.policy import Policy
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import BehaviorSpec, DecisionSteps
from specs import sensor, spec_of_shapes

pytestmark = pytest.mark.usefixtures("one_thread")

ROWS = 5
EVERYTHING = spec_of_shapes(
    [(3,), (2,), (3, 20, 24), (6, 4), (2,), (1, 22, 20), (5, 3), (1,)], [0, 0, 0, 0, 1, 0, 0, 0], 2, (3,)
)
"""Observations obs0 to obs7: vectors, images, entities and a goal."""
CONTINUOUS = BehaviorSpec(EVERYTHING.observation_specs, spec_of_shapes([], continuous=2).action_spec)
DISCRETE = BehaviorSpec(EVERYTHING.observation_specs, spec_of_shapes([], branches=(3,)).action_spec)


def settings(*hidden, **more):
    return NetworkSettings.model_validate(
        {"hidden_units": 8, "normalize": True, "critic_only_observations": list(hidden)} | more
    )


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def observations(spec=EVERYTHING, seed=0):
    return [torch.randn(ROWS, *one.shape, generator=seeded(seed)) for one in spec.observation_specs]


def changed(obs, index, value=0.5):
    return [rows + value if i == index else rows for i, rows in enumerate(obs)]


def acted(network, obs):
    """Means, logits and log sigmas."""
    distribution = network.act(network.prepare(obs))
    return torch.cat((distribution.mu, distribution.logits), 1)


# The policy -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hidden", [{0}, {7}, {0, 1, 2}, {3, 6}, {4}, {1, 3, 5, 7}, {0, 2, 3, 4, 5, 6, 7}], ids=str
)
@pytest.mark.parametrize("normalize", [False, True])
def test_a_policy_is_the_one_without_the_sensors(hidden, normalize):
    """The same weights from the same seed, and the same actions, whatever the hidden sensors observe."""
    names = [f"obs{i}" for i in sorted(hidden)]
    kept = [one for i, one in enumerate(EVERYTHING.observation_specs) if i not in hidden]
    without = Actor(BehaviorSpec(kept, EVERYTHING.action_spec), settings(normalize=normalize), seeded())
    network = Actor(EVERYTHING, settings(*names, normalize=normalize), seeded())
    obs = observations()
    seen = [rows for i, rows in enumerate(obs) if i not in hidden]
    assert network.update_normalization(obs) and without.update_normalization(seen)
    expected = acted(without, seen)
    torch.testing.assert_close(acted(network, obs), expected)
    for index in hidden:
        assert torch.equal(acted(network, changed(obs, index, torch.nan)), acted(network, obs))


@pytest.mark.parametrize("hidden", [["obs1"], ["obs2", "obs3"], ["obs4"], ["obs0", "obs5", "obs6", "obs7"]])
@pytest.mark.parametrize("memory", [None, {"memory_size": 4, "sequence_length": 5}])
def test_an_actor_s_and_a_critic_s_passes_are_their_own(hidden, memory):
    network = ActorCritic(EVERYTHING, settings(*hidden, memory=memory), ["a", "b"], False, seeded())
    obs, states = observations(), torch.randn(1, 4)

    def both(obs):
        inputs = network.prepare(obs)
        if memory is None:
            distribution, values = network.evaluate(inputs)
            torch.testing.assert_close(values, network.value(inputs))
            torch.testing.assert_close(distribution.mu, network.act(inputs).mu)
        else:
            distribution, values = network.evaluate_with_memory(inputs, states, states, ROWS)
        return distribution.mu, values

    mu, values = both(obs)
    for name in hidden:
        other_mu, other_values = both(changed(obs, int(name[3:])))
        assert torch.equal(mu, other_mu) and not torch.allclose(values, other_values)
    values.sum().backward()
    learning = [name for name, p in network.named_parameters() if p.grad is not None and p.grad.any()]
    own = ("critic_encoder.", "critic_body.", "memories.1.", "values.")
    assert learning and all(name.startswith(own) for name in learning)


def test_the_policy_acts_by_what_it_reads_in_a_run_too():
    network = ActorCritic(EVERYTHING, settings("obs1", "obs4"), ["extrinsic"], False, seeded())
    policy = Policy(network, EVERYTHING, seed=0, deterministic=True)
    ids, zeros = np.arange(ROWS, dtype=np.int32), np.zeros(ROWS, np.float32)

    def decided(obs):
        steps = DecisionSteps([rows.numpy() for rows in obs], zeros, ids, None, ids, zeros)
        (decision,) = policy.act([steps])
        return decision.action

    obs = observations()
    expected, found = decided(obs), decided(changed(changed(obs, 1), 4, torch.nan))
    np.testing.assert_array_equal(expected.continuous, found.continuous)
    np.testing.assert_array_equal(expected.discrete, found.discrete)


def test_vectors_are_read_in_groups_and_their_normalizers_see_all():
    spec = spec_of_shapes([(2,), (3,), (1,), (4,)], continuous=1)
    encoder = ObservationEncoder(spec.observation_specs, settings("obs1", "obs2"), seeded())
    assert [group.indices for group in encoder.groups] == [(0,), (1, 2), (3,)]
    assert encoder.columns == {0: slice(0, 2), 3: slice(2, 6)} and encoder.size == 6
    obs = observations(spec)
    encoder.update_normalization(obs)
    assert [int(normalizer.steps) for normalizer in encoder.normalizers] == [1 + ROWS] * 3
    together = ObservationEncoder(spec.observation_specs, settings(), seeded())
    together.update_normalization(obs)
    torch.testing.assert_close(torch.cat(encoder.prepare(obs), 1), together.prepare(obs)[0])


def test_a_goal_of_the_critic_s_makes_no_weights_of_the_policy():
    spec = spec_of_shapes([(3,), (2,)], [0, 1], continuous=1)
    network = ActorCritic(spec, settings("obs1"), ["extrinsic"], False, seeded())
    assert network.body.conditioned is None and network.critic_body.conditioned is not None


def test_without_names_nothing_is_apart():
    network = ActorCritic(spec_of_shapes([(3,), (2,)], continuous=1), settings(), ["extrinsic"], False)
    assert network.is_dense_mlp and network.critic_encoder is None and network.body.streams == 2


# Critics ----------------------------------------------------------------------------------------------------


def of_twins(chosen):
    critics, actions = TwinQ(EVERYTHING, chosen, ["extrinsic"], seeded()), torch.zeros(ROWS, 2)
    return lambda inputs: critics(critics.encode(inputs), actions)


def of_action_critics(chosen):
    critics, actions = ActionCritics(2, CONTINUOUS, chosen, 1, seeded()), torch.zeros(ROWS, 2)
    return lambda inputs: critics(inputs, actions)


def of_a_team(chosen):
    critic = TeamCritic(EVERYTHING, chosen, ["extrinsic"], seeded())
    actions, sets = torch.zeros(ROWS, critic.action_size), TeamSets(((ROWS, 1),))
    return lambda inputs: torch.cat([part.flatten() for part in critic.evaluate(inputs, actions, sets)])


CRITICS = {
    "SAC's Q": of_twins,
    "SAC's V": lambda chosen: ValueNetwork(EVERYTHING, chosen, ["extrinsic"], seeded()),
    "TD3's": of_action_critics,
    "POCA's": of_a_team,
}


@pytest.mark.parametrize("kind", CRITICS)
def test_every_critic_reads_what_the_policy_prepares_for_it(kind):
    chosen = settings("obs1", "obs2", "obs3", "obs4")
    actor, critic = Actor(EVERYTHING, chosen, seeded()), CRITICS[kind](chosen)
    obs = observations()
    with torch.no_grad():
        expected = critic(actor.prepare(obs))
        for index in range(len(obs)):
            found = critic(actor.prepare(changed(obs, index)))
            assert not torch.allclose(found, expected, rtol=1e-6), f"obs{index}"


@pytest.mark.parametrize("state", [None, 0, 2])
def test_coma_s_critic_reads_them_and_its_actors_do_not(state):
    chosen, obs = settings("obs2", "obs4"), observations()
    actors = MultiActor(DISCRETE, chosen, 2, hidden=state, generator=seeded())
    critic = CentralCritic(DISCRETE, chosen, 2, ["extrinsic"], state, generator=seeded())
    own = torch.arange(ROWS)
    slots = torch.zeros_like(own)
    steps = Steps(own, torch.stack((own, torch.full_like(own, ROWS)), 1), slots)

    def both(obs):
        with torch.no_grad():
            table = critic.table(*critic.prepare(obs), torch.zeros(ROWS, 1, dtype=torch.int64))
            return actors.logits(actors.prepare(obs), slots)[0], critic(table, steps)

    logits, values = both(obs)
    for index in {2, 4, *([] if state is None else [state])}:
        other_logits, other_values = both(changed(obs, index))
        assert torch.equal(logits, other_logits) and not torch.allclose(values, other_values)
    assert not torch.equal(logits, both(changed(obs, 1))[0])


# Names ------------------------------------------------------------------------------------------------------

NAMED = BehaviorSpec(
    [sensor((2,), name) for name in ("Wind", "Windmill", "Ray", "wind*")],
    spec_of_shapes([], continuous=1).action_spec,
)


@pytest.mark.parametrize(
    ("names", "hidden"),
    [(["Wind"], {0}), (["Wind*"], {0, 1}), (["Ray", "Wi*"], {0, 1, 2}), (["wind**"], {3}), ([], set())],
)
def test_sensors_are_named_exactly_or_by_how_they_begin(names, hidden):
    assert ObservationEncoder(NAMED.observation_specs, settings(*names)).unread == hidden


def test_a_name_without_a_sensor_is_refused_with_the_sensors():
    with pytest.raises(UnsupportedObservationError) as error:
        Actor(NAMED, settings("Wnid", "Ray", "Rain*"))
    message = str(error.value)
    assert "network_settings.critic_only_observations names 'Wnid', 'Rain*'" in message
    assert "Did you mean 'Wind'?" in message and "'Wind', 'Windmill', 'Ray', 'wind*'" in message


def test_a_policy_that_would_see_nothing_is_refused():
    with pytest.raises(UnsupportedObservationError, match=r"leaves no sensor .* act by\. Sensors: 'Wind'"):
        Actor(NAMED, settings("W*", "Ray", "wind*"))


# Brains and checkpoints -------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [None, {"memory_size": 4}])
@pytest.mark.parametrize("hidden", [["obs0"], ["obs2", "obs3", "obs7"]])
def test_a_brain_declares_the_inputs_and_does_not_read_them(tmp_path, hidden, memory):
    network = ActorCritic(EVERYTHING, settings(*hidden, memory=memory), ["extrinsic"], False, seeded())
    network.update_normalization(observations(seed=1))
    export_brain(network, tmp_path / "b.onnx", behavior="B")
    brain = Brain(tmp_path / "b.onnx")
    brain.check(EVERYTHING)
    assert brain.observations == {i: one.shape for i, one in enumerate(EVERYTHING.observation_specs)}
    session = onnxruntime.InferenceSession(str(tmp_path / "b.onnx"), providers=["CPUExecutionProvider"])
    obs = observations()
    indices = [int(name[3:]) for name in hidden]

    def outputs(obs):
        feeds = {f"obs_{i}": rows.numpy() for i, rows in enumerate(obs)}
        feeds["action_masks"] = np.ones((ROWS, 3), np.float32)
        if memory is not None:
            feeds["recurrent_in"] = np.zeros((ROWS, 1, 4), np.float32)
        names = ["deterministic_continuous_actions", "deterministic_discrete_actions"]
        return np.concatenate(session.run(names, feeds), 1)

    expected = outputs(obs)
    for index in range(len(obs)):
        found = outputs(changed(obs, index, torch.nan if index in indices else 3.0))
        assert np.array_equal(found, expected) is (index in indices), f"obs_{index}"


def test_a_brain_holds_nothing_of_the_sensors():
    network = ActorCritic(NAMED, settings("Wind"), ["extrinsic"], False, seeded())
    model = build_brain(network, behavior="B")
    read = {name for node in model.graph.node for name in node.input}
    assert "obs_0" not in read and {"obs_1", "obs_2", "obs_3"} <= read
    stored = {tensor.name: list(tensor.dims) for tensor in model.graph.initializer}
    assert stored["body.0.weight"] == [8, 6] and "normalizer.0.mean" not in stored


def test_a_checkpoint_is_rebuilt_with_the_same_division():
    chosen = settings("obs1", "obs3", critic={"hidden_units": 4})
    network = ActorCritic(EVERYTHING, chosen, ["extrinsic"], False, seeded())
    described = describe_network("B", EVERYTHING, chosen, ["extrinsic"], False)
    _, rebuilt = build_network({"brain": described, "Policy": network.state_dict()})
    obs = observations()
    assert torch.equal(acted(rebuilt, obs), acted(network, obs))
    described["network"]["critic_only_observations"] = []
    with pytest.raises(CheckpointError):
        build_network({"brain": described, "Policy": network.state_dict()})


def test_a_policy_of_ml_agents_that_reads_more_is_refused():
    seeing, network = (
        ActorCritic(NAMED, settings(*names), ["extrinsic"], False) for names in ((), ("Wind",))
    )
    with pytest.raises(CheckpointError, match=r"weight is \[8, 8\] in the file, \[8, 6\] here"):
        NetworkViews({"Policy": network}).take_policy(policy_tensors(seeing))
