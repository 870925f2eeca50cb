"""A checkpoint tells what its network looks like, and nothing else is guessed."""

import math

import pytest
import torch
from lanista.envs.named_actions import NamedAction, actions_of, named_action_spec
from lanista.trainers.checkpoints.file import CheckpointError, load_checkpoint, save_checkpoint
from lanista.trainers.checkpoints.metadata import LATER, build_network, describe_network, step_of
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import BehaviorSpec
from specs import vector_spec


@pytest.fixture
def spec():
    return vector_spec([5, 2], 2, (3, 4))


@pytest.fixture
def checkpoint(spec, tmp_path):
    settings = NetworkSettings(normalize=True, hidden_units=16, num_layers=1)
    network = ActorCritic(spec, settings, ["extrinsic"], False)
    network.update_normalization([torch.randn(50, 5) * 3, torch.randn(50, 2)])
    state = {
        "Policy": network.state_dict(),
        "step": 1234,
        "brain": describe_network("Ball", spec, settings, ["extrinsic"], False),
    }
    save_checkpoint(tmp_path / "Ball-1234.pt", state)
    return tmp_path / "Ball-1234.pt", network


def test_the_rebuilt_network_acts_as_the_saved_one(checkpoint, spec):
    path, network = checkpoint
    state = load_checkpoint(path)
    behavior, rebuilt = build_network(state)
    assert (behavior, step_of(state)) == ("Ball", 1234)
    assert rebuilt.spec == spec
    obs = [torch.randn(7, 5), torch.randn(7, 2)]
    with torch.no_grad():
        expected = network.act(network.prepare(obs)).deterministic()
        found = rebuilt.act(rebuilt.prepare(obs)).deterministic()
    assert torch.equal(expected.continuous, found.continuous)
    assert torch.equal(expected.discrete, found.discrete)


def test_the_names_of_actions_are_kept():
    actions = (NamedAction("move", 2, "continuous"), NamedAction("jump", 2, "discrete"))
    spec = BehaviorSpec(vector_spec([5]).observation_specs, named_action_spec(actions))
    settings = NetworkSettings(hidden_units=16, num_layers=1)
    network = ActorCritic(spec, settings, ["extrinsic"], False)
    described = describe_network("Ball", spec, settings, ["extrinsic"], False)
    _, rebuilt = build_network({"Policy": network.state_dict(), "brain": described})
    assert actions_of(rebuilt.spec.action_spec) == actions


@pytest.mark.parametrize("widths", [{"hidden_units": [8, 12]}, {"hidden_units": 8, "num_layers": 3}], ids=str)
@pytest.mark.parametrize(
    "critic", [None, {}, {"hidden_units": [6, 4, 2]}, {"hidden_units": 6, "num_layers": 1}]
)
def test_widths_of_layers_are_kept(spec, widths, critic):
    settings = NetworkSettings.model_validate({**widths, "critic": critic})
    network = ActorCritic(spec, settings, ["extrinsic"], False)
    brain = describe_network("Ball", spec, settings, ["extrinsic"], False)
    _, rebuilt = build_network({"brain": brain, "Policy": network.state_dict()})
    shapes = [[tuple(p.shape) for p in one.parameters()] for one in (network, rebuilt)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("later", [{"residual": True}, {"critic_only_observations": ["vec1"]}], ids=str)
@pytest.mark.parametrize("critic", [{}, {"residual": False}], ids=["like the policy", "plain"])
def test_keys_of_later_releases_are_told_where_a_network_uses_them(spec, later, critic):
    def described(**keys):
        settings = NetworkSettings.model_validate({"hidden_units": 8, "critic": critic} | keys)
        network = ActorCritic(spec, settings, ["extrinsic"], False)
        brain = describe_network("Ball", spec, settings, ["extrinsic"], False)
        _, rebuilt = build_network({"brain": brain, "Policy": network.state_dict()})
        assert all(torch.equal(rebuilt.state_dict()[name], p) for name, p in network.state_dict().items())
        return brain["network"]

    (key,) = later
    network = described(**later)
    assert network[key] == later[key] and key in network["critic"]
    network = described()
    assert not [key for key in LATER if key in network or key in network["critic"]]


def test_foreign_checkpoints_are_recognized():
    with pytest.raises(CheckpointError, match="not one of Lanista's"):
        build_network({"Policy": {}, "global_step": {}})


@pytest.mark.parametrize(
    "change",
    [
        {"continuous_size": 3},
        {"network": {"hidden_units": 8}},
        {"observations": []},
        *(
            {"observations": [{"name": "a", "shape": [n], "dimensions": [1], "type": 0}]}
            for n in (math.inf, 0)
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(checkpoint, change):
    state = load_checkpoint(checkpoint[0])
    state["brain"].update(change)
    with pytest.raises(CheckpointError, match="do not fit") as error:
        build_network(state)
    assert "size mismatch" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"discrete_branches": [10**9, 3]},
        {"continuous_size": 10**9},
        {"actions": [{"name": "turn", "size": 10**9, "action_type": "discrete"}]},
    ],
)
def test_more_actions_than_any_engine_has_are_refused_before_memory_is_taken(checkpoint, change):
    state = load_checkpoint(checkpoint[0])
    state["brain"].update(change)
    with pytest.raises(CheckpointError, match="expected at most 65,536 together"):
        build_network(state)


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ({"hidden_units": 0}, ": hidden_units: found 0, expected at least 1$"),
        ({"hidden_units": -5}, ": hidden_units: found -5, expected at least 1$"),
        ({"num_layers": 10**9}, ": num_layers: found 1000000000, expected at most 1000$"),
        ({"memory": {"memory_size": 3, "sequence_length": 0}}, "sequence_length: .* 1; memory.memory_size: "),
        ({"hidden": 3}, ": hidden: unknown key"),
        (3, ": found 3, expected a mapping"),
    ],
)
def test_settings_that_no_network_can_have_are_named(checkpoint, network, says):
    state = load_checkpoint(checkpoint[0])
    state["brain"]["network"] = network
    with pytest.raises(CheckpointError, match=says) as error:
        build_network(state)
    assert "pydantic" not in str(error.value) and "\n" not in str(error.value)


def test_a_network_that_does_not_fit_into_memory_is_refused(checkpoint):
    state = load_checkpoint(checkpoint[0])
    state["brain"]["observations"][0]["shape"] = [2**55]  # more than any machine addresses
    with pytest.raises(CheckpointError, match="does not fit into memory"):
        build_network(state)


def test_a_description_with_a_gap_is_refused(checkpoint):
    state = load_checkpoint(checkpoint[0])
    del state["brain"]["discrete_branches"]
    with pytest.raises(CheckpointError, match="discrete_branches"):
        build_network(state)
