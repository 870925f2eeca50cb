"""Policies that act in one tick decide as each would by itself."""

import numpy as np
import pytest
from lanista.trainers.networks.actor_critic import ActorCritic
from lanista.trainers.policies.joint import ActRequest, JointPolicies
from lanista.trainers.policies.policy import ActContext, Policy
from lanista.trainers.settings.models.networks import NetworkSettings
from mlagents_envs.base_env import ActionSpec
from policysteps import decisions, random_obs
from specs import vector_spec

MIXED = ActionSpec(2, (3, 2))
KINDS = {"mixed": MIXED, "continuous": ActionSpec(3, ()), "discrete": ActionSpec(0, (7,))}


def policies(*specs, seed=0, **keys):
    """Two equal sets, the second of which decides one by one."""
    made = []
    for _ in range(2):
        networks = []
        for spec in specs:
            settings = NetworkSettings(normalize=False, hidden_units=16, num_layers=2)
            behavior = vector_spec((5,), spec.continuous_size, spec.discrete_branches)
            networks.append((ActorCritic(behavior, settings, ["extrinsic"], False), behavior))
        made.append([Policy(net, spec, seed + k, **keys) for k, (net, spec) in enumerate(networks)])
    for one, other in zip(*made, strict=True):
        other.network.load_state_dict(one.network.state_dict())
        one.network.actions.log_sigma.data.fill_(-0.5)
        other.network.actions.log_sigma.data.fill_(-0.5)
    return made


def batches(spec, *counts):
    random = np.random.default_rng(0)
    found = []
    for count in counts:
        mask = [random.random((count, n)) < 0.3 for n in spec.discrete_branches]
        for branch in mask:
            branch[:, 0] = False
        found.append(decisions(random_obs([(5,)], count), mask=mask or None))
    return found


def same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a.agent_id, b.agent_id)
            for name in ("action", "env_action"):
                np.testing.assert_array_equal(getattr(a, name).continuous, getattr(b, name).continuous)
                np.testing.assert_array_equal(getattr(a, name).discrete, getattr(b, name).discrete)
            np.testing.assert_array_equal(a.log_probs, b.log_probs)
            np.testing.assert_array_equal(a.entropy, b.entropy)
            assert (a.exploration, a.by_snapshot) == (b.exploration, b.by_snapshot)


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_joint_decisions_are_those_of_each_policy(kind, deterministic):
    spec = KINDS[kind]
    together, alone = policies(spec, spec, spec, deterministic=deterministic)
    joint = JointPolicies()
    for counts in ((3, 1), (2,), (3, 1)):  # which agents wait changes
        seen = [batches(spec, *counts), batches(spec, 4), batches(spec, 1, 1)]
        asked = [ActRequest(policy, waiting) for policy, waiting in zip(together, seen, strict=True)]
        wanted = [policy.act(waiting) for policy, waiting in zip(alone, seen, strict=True)]
        same(joint.act(asked), wanted)


def test_policies_of_other_kinds_decide_by_themselves():
    together, alone = policies(MIXED, ActionSpec(0, (7,)), MIXED)
    seen = [batches(MIXED, 3), batches(ActionSpec(0, (7,)), 2), batches(MIXED, 1)]
    contexts = [ActContext(), ActContext(), ActContext(exploration=0.5)]
    parts = list(zip(seen, contexts, strict=True))
    asked = [ActRequest(policy, *part) for policy, part in zip(together, parts, strict=True)]
    wanted = [policy.act(*part) for policy, part in zip(alone, parts, strict=True)]
    same(JointPolicies().act(asked), wanted)


def test_decisions_of_snapshots_are_marked():
    together, _ = policies(MIXED, MIXED)
    requests = [
        ActRequest(together[0], batches(MIXED, 2)),
        ActRequest(together[1], batches(MIXED, 2), by_snapshot=True),
    ]
    first, second = JointPolicies().act(requests)
    assert [first[0].by_snapshot, second[0].by_snapshot] == [False, True]


def test_an_output_that_is_not_finite_is_an_error():
    together, _ = policies(MIXED, MIXED)
    together[1].network.actions.bias.data[0] = float("nan")
    requests = [ActRequest(policy, batches(MIXED, 2)) for policy in together]
    with pytest.raises(FloatingPointError, match="not a finite number"):
        JointPolicies().act(requests)


def test_the_greatest_observation_is_named_whichever_behavior_has_it():
    """Policies of one kind of actions decide together, and may read different sensors."""
    made = []
    for sizes in ((5,), (3, 4)):
        behavior = vector_spec(sizes, 2)
        network = ActorCritic(behavior, NetworkSettings(hidden_units=16), ["extrinsic"], False)
        made.append(Policy(network, behavior, 0))
    made[0].network.actions.bias.data[0] = float("nan")
    waiting = [decisions(random_obs([(5,)], 2)), decisions(random_obs([(3,), (4,)], 2), ids=[7, 8])]
    waiting[1].obs[1][1, 2] = -3e38
    requests = [ActRequest(policy, [batch]) for policy, batch in zip(made, waiting, strict=True)]
    with pytest.raises(FloatingPointError, match=r"3e\+38, of the sensor 'vec1' of agent 8\."):
        JointPolicies().act(requests)
